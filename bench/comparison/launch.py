"""Starts programs, under a time limit, and reads what they print."""
import contextlib
import json
import os
import signal
import subprocess
import tempfile

LAUNCH_SECONDS_MAX = 30

RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                  "MASTER_PORT", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


class Trouble(Exception):
    """Why a comparison cannot be made, in words for its user."""


class Failure(Trouble):
    """A program failed. The text is the reason; `output` and `errors`: what it printed; `times`:
    what it measured before."""

    def __init__(self, reason, output="", errors=""):
        super().__init__(reason)
        self.output, self.errors, self.times = output, errors, {}


def clean_environment():
    """The environment without variables that make a process a rank of a launcher."""
    return {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}


def own_cores():
    """One processor of each core that this process may use."""
    cores, seen = [], set()
    for cpu in sorted(os.sched_getaffinity(0)):
        path = "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % cpu
        try:
            with open(path, encoding="ascii") as file:
                siblings = file.read().strip()
        except OSError:
            siblings = str(cpu)
        if siblings not in seen:
            seen.add(siblings)
            cores.append(cpu)
    return cores


def end_group(process, number=signal.SIGKILL):
    """Ends what the process started, too: all of it is in a process group of its own."""
    with contextlib.suppress(ProcessLookupError):  # it may have exited meanwhile
        os.killpg(process.pid, number)


def run_both(command, environment, seconds_max):
    """Returns standard output and standard error. Raises Failure with the latter's first line."""
    full_environment = dict(clean_environment(), **environment)
    with subprocess.Popen(command, env=full_environment, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        try:
            output, errors = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            end_group(process)
            output, errors = process.communicate()
            raise Failure("did not finish within %g s" % seconds_max, output, errors) from None
        except BaseException:
            end_group(process, signal.SIGTERM)
            raise
    if process.returncode != 0:
        lines = [line.strip() for line in errors.splitlines() if any(map(str.isalnum, line))]
        raise Failure("exit code %d: %s" % (process.returncode,
                                            lines[0] if lines else "no message"), output, errors)
    return output, errors


def run(command, environment, seconds_max=LAUNCH_SECONDS_MAX):
    """Returns the standard output. Raises Failure with the first line of standard error."""
    return run_both(command, environment, seconds_max)[0]


def run_shown(command, reason, **variables):
    """Returns the standard output; standard error is that of the user. Raises Failure with the
    reason."""
    done = subprocess.run(command, env=dict(os.environ, **variables), stdout=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode != 0:
        raise Failure(reason)
    return done.stdout


def run_json(command, environment, runner=run, fresh_costs=False):
    """What the command writes to the file of its option --json. fresh_costs: it measures the costs
    by which libcoll chooses algorithms, instead of reading those of the cache folder."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.json")
        more = {"XDG_CACHE_HOME": folder} if fresh_costs else {}
        runner([*command, "--json", path], {**environment, **more})
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def json_lines(text):
    """The documents among the lines of what a program printed."""
    return [json.loads(line) for line in text.splitlines()
            if line.startswith("{") and line.endswith("}")]


def build(folder, targets, hint=""):
    """Builds the targets in the build folder."""
    command = ["ninja", "--quiet", "-C", folder, *targets]
    if subprocess.run(command, check=False).returncode:
        raise Trouble("cannot build what is to be measured; see above" + hint)


def collrun(build_folder, ranks, *words):
    """The beginning of a command that starts ranks on this machine."""
    return [os.path.join(build_folder, "tools", "collrun"), "-n", str(ranks), *words]


def collbench(build_folder, *words):
    return [os.path.join(build_folder, "bench", "collbench"), *map(str, words)]

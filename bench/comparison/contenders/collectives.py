"""The measured configurations: libcoll with each kind of memory, and each peer with a few
documented settings; every row uses the best setting of a peer. A configuration makes a command
line from (collective, sizes, time) and parses times from the output."""
import json
import os
import statistics
import tempfile

from comparison import figures
from comparison.contenders import peers

RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                  "MASTER_PORT", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")

ITERATIONS_MAX = 20000


class Configuration:
    """name: "coll", "malloc" or "family/setting". command() returns an argv; `environment` is added
    to that of this process."""

    def __init__(self, name, launch, program, environment=None, arguments=()):
        self.name = name
        self.launch, self.program = launch, list(program)
        self.environment = environment or {}
        self.arguments = list(arguments)
        self.library = None  # name and version that the program prints, once it has run

    def command(self, collective, sizes, time_ms):
        line = [*self.launch, *self.program, collective, "--sizes", ",".join(map(str, sizes)),
                "-n", str(ITERATIONS_MAX), "--time-ms", str(time_ms)]
        return line + self.arguments

    def describe(self):
        """Without the folders of the machine."""
        def short(word):
            return os.path.basename(word) if os.path.isabs(word) else word
        return {"command": [short(word) for word in self.launch + self.program + self.arguments],
                "environment": {name: short(value) for name, value in self.environment.items()},
                "library": self.library}

    def read_line(self, record):
        """{bytes: (us, wrong)} of a line that a peer prints."""
        if "library" in record:
            self.library = " ".join(record["library"].replace("Version: ", "").split())
            return {}
        return {record["bytes"]: (statistics.median(record["batch_us"]), record["wrong"])}

    def run(self, runner, collective, sizes, time_ms):
        """{bytes: us}. Raises Failure if the command fails or a result is wrong."""
        try:
            output = runner(self.command(collective, sizes, time_ms), self.environment)
        except Failure as failure:
            failure.times = {size: time for size, (time, wrong) in
                             self.read_lines(failure.output).items() if not wrong}
            raise
        return checked(self.read_lines(output), sizes)

    def read_lines(self, output):
        times = {}
        for line in output.splitlines():
            if line.startswith("{") and line.endswith("}"):
                times.update(self.read_line(json.loads(line)))
        return times


class Failure(Exception):
    """A command failed. The text is the reason; `output` and `errors`: what it printed; `times`:
    what it measured before."""

    def __init__(self, reason, output="", errors=""):
        super().__init__(reason)
        self.output, self.errors, self.times = output, errors, {}


def checked(times, sizes):
    if sorted(times) != sorted(sizes):
        raise Failure("measured %s bytes instead of %s" % (sorted(times), sorted(sizes)))
    for size, (_, wrong) in times.items():
        if wrong:
            raise Failure("%d wrong elements at %d bytes" % (wrong, size))
    return {size: time for size, (time, _) in times.items()}


class Ours(Configuration):
    """libcoll, measured by collbench, which writes a JSON file. Each launch measures the costs by
    which the library chooses algorithms: the host may have moved the cores since an earlier one
    stored its costs in the cache folder."""

    def run(self, runner, collective, sizes, time_ms):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            line = self.command(collective, sizes, time_ms) + ["--json", path]
            runner(line, dict(self.environment, XDG_CACHE_HOME=folder))
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
        self.library = "libcoll " + document["libcoll"]
        return checked({row["bytes"]: (row["out_of_place"]["time_us"],
                                       row["out_of_place"]["wrong"])
                        for row in document["rows"]}, sizes)


class Gloo(Configuration):
    """Gloo. Its ranks find each other through a file in a folder, which must be empty."""

    def run(self, runner, collective, sizes, time_ms):
        with tempfile.TemporaryDirectory() as folder:
            self.environment = dict(self.environment, GLOO_STORE=folder)
            try:
                return super().run(runner, collective, sizes, time_ms)
            finally:
                del self.environment["GLOO_STORE"]


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


def placements(ranks, cores):
    """{suffix of a setting: argument of `pin`}. With enough cores, one core per rank. With
    fewer: blocks of ranks of equal size on each core, as collrun binds them, or unbound
    ("-any")."""
    if ranks <= len(cores):
        return {"": ",".join(map(str, cores[:ranks]))}
    if ranks % len(cores) != 0:
        return {"": "any"}
    share = ranks // len(cores)
    return {"": ",".join(str(core) for core in cores for _ in range(share)), "-any": "any"}


def make(root, build, ranks, memories, families, quick):
    """All configurations, libcoll first, with the binding of collrun; peers also unbound."""
    made = []
    for suffix, cpus in placements(ranks, own_cores()).items():
        pin = [os.path.join(root, "bench", "peers", "pin"), cpus]
        if not suffix:
            made += make_ours(build, ranks, memories, pin)
        for family in families:
            made += make_peer(root, build, ranks, family, quick, pin, suffix)
    return made


def make_ours(build, ranks, memories, pin):
    launch = [os.path.join(build, "tools", "collrun"), "-n", str(ranks), "--bind", "none", *pin]
    program = [os.path.join(build, "bench", "collbench")]
    return [Ours(memory, launch, program, arguments=["--mem", memory, "--place", "out"])
            for memory in memories]


def make_peer(root, build, ranks, family, quick, pin, suffix):
    oversubscribed = ranks > len(own_cores())
    kind = Gloo if family == "gloo" else Configuration
    made = []
    for setting, parameters in peers.settings(family, oversubscribed, quick).items():
        launch, environment = peers.launch(build, family, ranks, oversubscribed, parameters)
        made.append(kind("%s/%s%s" % (family, setting, suffix), launch + pin,
                         peers.program(root, build, family), environment))
    return made


def limit_command(build, ranks, collective, sizes):
    """Prints JSON: {"barrier_us", "round_trip_us", "one_way_us", "moves": [{"bytes", "mapped_us",
    "staged_us", "crossing_us"}]}; some calls lack crossing_us (see figures)."""
    cores = own_cores()[:ranks]
    return [os.path.join(build, "bench", "limit"), "-n", str(ranks), "--cpus",
            ",".join(map(str, cores)), "--sizes", ",".join(map(str, sizes)), collective]


def clean_environment():
    """The environment without variables that make a process a rank of a launcher."""
    return {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}

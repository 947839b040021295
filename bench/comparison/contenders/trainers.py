"""Programs that train the same model and stay alive between measurements, so that compilation and
initialization happen once. Such a program prints a line of JSON when it is ready, and answers each
line "steps N" with {"ms": [N times]}."""
import collections
import json
import os
import selectors
import subprocess
import tempfile

from comparison import launch

START_SECONDS_MAX = 900  # torch.compile takes minutes
ANSWER_SECONDS_MAX = 600

# A model, a batch of sequences of that length: "gpt2:4x64".
Row = collections.namedtuple("Row", "preset batch length")


def parse_row(text):
    """Raises ValueError."""
    preset, colon, shape = text.rpartition(":")
    batch, times, length = shape.partition("x")
    if not (colon and preset and times and batch.isdigit() and length.isdigit()):
        raise ValueError("invalid row '%s': give PRESET:BATCHxLENGTH" % text)
    return Row(preset, int(batch), int(length))


def row_name(row):
    return "%s:%dx%d" % row


class Unavailable(launch.Failure):
    """A program cannot do what is asked for in the release that is installed."""


class Peer:
    """A running program. Raises launch.Failure, with the last line that it printed to
    standard error, when it ends or does not answer in time; Unavailable if its exit code is
    os.EX_UNAVAILABLE."""

    def __init__(self, command, environment=None):
        self.errors = tempfile.TemporaryFile(mode="w+", encoding="utf-8")
        self.process = subprocess.Popen(
            command, env=dict(launch.clean_environment(), **(environment or {})),
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            start_new_session=True)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        try:
            self.setup = self.read(START_SECONDS_MAX)
        except BaseException:
            self.close()
            raise

    def last_error(self):
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors if line.strip()]
        return lines[-1] if lines else "no message"

    def read(self, seconds_max):
        if not self.selector.select(seconds_max):
            raise launch.Failure("no answer within %d s" % seconds_max)
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            if self.process.returncode == os.EX_UNAVAILABLE:
                raise Unavailable(self.last_error())
            raise launch.Failure("exit code %d: %s" % (self.process.returncode,
                                                               self.last_error()))
        return json.loads(line)

    def ask(self, request):
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # read tells why
        return self.read(ANSWER_SECONDS_MAX)

    def steps(self, count):
        """Times of so many steps in ms."""
        return self.ask("steps %d" % count)["ms"]

    def limit(self):
        """The limit in ms, of bench/step only."""
        return self.ask("limit")["limit_ms"]

    def close(self):
        launch.end_group(self.process)
        self.process.wait()
        self.selector.close()
        for file in (self.process.stdin, self.process.stdout, self.errors):
            try:
                file.close()
            except BrokenPipeError:
                pass


def start_libtrain(build, row, precision, threads):
    return Peer([os.path.join(build, "bench", "step"), "--serve", "--preset", row.preset,
                 "--batch", str(row.batch), "--length", str(row.length), "--precision", precision,
                 "--threads", str(threads)])


def start_torch(python, program, sizes, row, precision, compiled, threads, bound, launcher=()):
    """sizes: {"vocabulary": 50257 ...}. bound: OMP_PROC_BIND=true, else it is unset. launcher: the
    beginning of a command that starts ranks, which divide the batch."""
    command = [*launcher, python, program, "--batch", str(row.batch), "--length", str(row.length),
               "--precision", precision, "--threads", str(threads)]
    for name, size in sizes.items():
        command += ["--" + name, str(size)]
    command += (["--compile"] if compiled else []) + (["--ddp"] if launcher else [])
    return Peer(command, {"OMP_PROC_BIND": "true" if bound else "false"})

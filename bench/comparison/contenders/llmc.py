"""llm.c's program for processors, train_gpt2, as a peer of peers.Peer's kind. It runs a fixed
number of steps of one batch and length, all of which are compiled in, and prints a line per step
with its time. So it is stopped (SIGSTOP) between rounds, continued (SIGCONT) until it has printed
enough steps, and started again after its last one.

It writes to a pseudo-terminal, as it would delay its lines in a pipe. This is its controlling
terminal: the kernel ends a stopped program with SIGHUP when this process dies."""
import array
import contextlib
import fcntl
import json
import os
import pty
import random
import re
import select
import signal
import subprocess
import tempfile
import termios
import time

from comparison import launch

PROGRAM = "train_gpt2"
NAME = "llm.c"
STEP_SECONDS_MAX = 600  # it generates text before some steps
EXIT_SECONDS_MAX = 10   # from the end of its output
FRUITLESS_MAX = 2       # the only other step of the first one may be that which was stopped
TOKENS = 1 << 20        # of each file; more than batch * length, with which llm.c divides it

STEP_MS = re.compile(r"([\d.]+) ms\b")
PRINTED_SIZE = re.compile(r"([\w ]+): (\d+)")
# What llm.c prints before its first step, by which its batch and length are known.
CHANNELS, LAYERS, HEADS, VOCABULARY = "channels", "num_layers", "num_heads", "padded_vocab_size"
ACTIVATIONS, BATCHES = "num_activations", "train dataset num_batches"
SIZES = (CHANNELS, LAYERS, HEADS, VOCABULARY, ACTIVATIONS, BATCHES)

# ---- what it prints ------------------------------------------------------------------------------


def step_times(text):
    """The times in ms of all steps in the output of a program that prints "... 123.4 ms" after
    each."""
    return [float(ms) for ms in STEP_MS.findall(text)]


def shape_of(sizes):
    """(batch, length) by the SIZES that it prints. It prints neither of them, but the number of
    batches in TOKENS and of elements of all activations, which are per position: 18 rows of
    `channels` and 4 moments in a layer, and 2 rows of `length` for each head; 2 rows of channels, 2
    of the vocabulary, 2 moments and the loss outside of layers. Raises launch.Failure."""
    layers, heads, batches = sizes[LAYERS], sizes[HEADS], sizes[BATCHES]
    other = layers * (18 * sizes[CHANNELS] + 4) + 2 * (sizes[CHANNELS] + sizes[VOCABULARY]) + 3
    for positions in range(TOKENS // (batches + 1) + 1, TOKENS // max(batches, 1) + 1):
        per_position, rest = divmod(sizes[ACTIVATIONS], positions)
        length, more = divmod(per_position - other, 2 * layers * heads)
        if rest == more == 0 and length > 0 and positions % length == 0:
            return positions // length, length
    raise launch.Failure("cannot tell the batch and length of this version of llm.c: it "
                                 "reports %d activations" % sizes[ACTIVATIONS])


# ---- its files -----------------------------------------------------------------------------------

def write_words(path, code, header, words):
    """256 header words of 32 bits, then the words."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        array.array("I", header + [0] * (256 - len(header))).tofile(file)
        array.array(code, words).tofile(file)


def write_inputs(folder, build, preset, length):
    """Writes the files that llm.c opens in its working directory: a model with random weights,
    random tokens, and a tokenizer whose tokens are all "x"."""
    printed = launch.run(
        [os.path.join(build, "bench", "step"), "--serve", "--preset", preset, "--batch", "1",
         "--length", str(length), "--save", os.path.join(folder, "gpt2_124M.bin")], {},
        STEP_SECONDS_MAX)
    vocabulary = json.loads(printed)["config"]["vocabulary"]
    tokens = random.Random(1).choices(range(vocabulary), k=TOKENS)
    for split in ("train", "val"):
        write_words(os.path.join(folder, "dev", "data", "tinyshakespeare",
                                 "tiny_shakespeare_%s.bin" % split), "H", [20240520, 1, TOKENS],
                    tokens)
    write_words(os.path.join(folder, "gpt2_tokenizer.bin"), "B",
                [20240328, 2, vocabulary, vocabulary - 1], [1, ord("x")] * vocabulary)


# ---- the program ---------------------------------------------------------------------------------

class Terminal:
    """A pseudo-terminal whose other end is the standard output of a program."""

    def __init__(self):
        self.ours, self.theirs = pty.openpty()
        self.pending = b""

    def read(self):
        """False after the end of the output."""
        try:
            received = os.read(self.ours, 1 << 16)
        except OSError:  # EIO: the program closed its end
            received = b""
        self.pending += received
        return bool(received)

    def line(self, seconds_max):
        """The next line; None after the last one. Raises launch.Failure."""
        deadline = time.monotonic() + seconds_max
        while b"\n" not in self.pending:
            left = max(deadline - time.monotonic(), 0)
            if not select.select([self.ours], [], [], left)[0]:
                raise launch.Failure("printed no line within %d s" % seconds_max)
            if not self.read():
                return None
        line, _, self.pending = self.pending.partition(b"\n")
        return line.decode("utf-8", "replace").strip()

    def close(self):
        os.close(self.ours)


class Run:
    """A running train_gpt2. Raises launch.Failure as peers.Peer does."""

    def __init__(self, program, folder, threads, bound):
        """folder: of write_inputs. bound: OMP_PROC_BIND=true, else it is false."""
        self.errors = tempfile.TemporaryFile(mode="w+", encoding="utf-8")
        self.terminal = Terminal()
        environment = dict(launch.clean_environment(), OMP_NUM_THREADS=str(threads),
                           OMP_PROC_BIND="true" if bound else "false")
        try:
            self.process = subprocess.Popen(
                [program], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=self.terminal.theirs, stderr=self.errors, start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0))
        except BaseException:
            self.terminal.close()
            self.errors.close()
            raise
        finally:
            os.close(self.terminal.theirs)
        self.last_line = ""

    def line(self):
        """None if it ended after its last step."""
        line = self.terminal.line(STEP_SECONDS_MAX)
        if line is None:
            self.wait()
            if self.process.returncode != 0:
                raise launch.Failure(self.end_text())
            return None
        self.last_line = line or self.last_line
        return line

    def wait(self):
        try:
            self.process.wait(EXIT_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise launch.Failure("closed its output, but did not end") from None

    def end_text(self):
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors if line.strip()]
        return "exit code %d: %s" % (self.process.returncode,
                                     lines[-1] if lines else self.last_line or "no message")

    def sizes(self):
        """The SIZES, once it has printed all of them."""
        found = {}
        while set(found) != set(SIZES):
            line = self.line()
            if line is None:
                raise launch.Failure("ended without printing its sizes (%s)"
                                             % ", ".join(SIZES))
            match = PRINTED_SIZE.fullmatch(line)
            if match and match.group(1) in SIZES:
                found[match.group(1)] = int(match.group(2))
        return found

    def step_ms(self):
        """The time of the next step; None after the last one."""
        while True:
            line = self.line()
            if line is None:
                return None
            times = step_times(line)
            if times and line.startswith("step "):
                return times[-1]

    def signal(self, number):
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it may have exited meanwhile
                os.killpg(self.process.pid, number)

    def stop(self):
        """Returns when all its threads have stopped, or it has ended."""
        self.signal(signal.SIGSTOP)
        if self.process.poll() is None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def close(self):
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.terminal.close()
        self.errors.close()


class Peer:
    """A train_gpt2 that is stopped between calls. A step counts if it began after the program was
    continued and is not the first one of a process, which allocates its memory."""

    def __init__(self, program, folder, threads, bound):
        self.how = (program, folder, threads, bound)
        self.run = None
        self.fruitless = 0  # processes in a row without a step that counted
        self.start()
        self.run.stop()

    def start(self):
        self.close()
        self.continued = time.monotonic()
        self.fruitless += 1
        self.run = Run(*self.how)
        try:
            if self.run.step_ms() is None:
                raise launch.Failure("ended without a step")
        except BaseException:
            self.close()
            raise

    def steps(self, count):
        """Times of so many steps in ms."""
        times = []
        self.continued = time.monotonic()
        self.run.signal(signal.SIGCONT)
        while len(times) < count:
            ms = self.run.step_ms()
            if ms is None:
                if self.fruitless == FRUITLESS_MAX:
                    raise launch.Failure("ended after one step; it must run more")
                self.start()
            elif time.monotonic() - ms / 1e3 >= self.continued:
                times.append(ms)
                self.fruitless = 0
        self.run.stop()
        return times

    def close(self):
        if self.run:
            self.run.close()
            self.run = None


class Program:
    """A built train_gpt2."""

    def __init__(self, path, build):
        """path: of the program or of its folder. Raises ValueError."""
        path = os.path.abspath(os.path.expanduser(path))
        self.path = os.path.join(path, PROGRAM) if os.path.isdir(path) else path
        self.build, self.known_shape = build, None
        if not os.access(self.path, os.X_OK):
            raise ValueError("%s is not a program: build llm.c with 'make %s'"
                             % (self.path, PROGRAM))

    def shape(self):
        """The (batch, length) that are compiled in, which a run with a tiny model prints. Raises
        launch.Failure."""
        if self.known_shape is None:
            with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
                write_inputs(folder, self.build, "tiny", 1)
                run = Run(self.path, folder, 1, False)
                stack.callback(run.close)
                self.known_shape = shape_of(run.sizes())
        return self.known_shape

    def reason_to_leave_out(self, row, precision):
        """A sentence, or None if it can take part."""
        if precision != "float32":
            return "it trains in float32 only"
        batch, length = self.shape()
        if (batch, length) != (row.batch, row.length):
            return "it is compiled for batch %d and length %d" % (batch, length)
        return None

"""Standard output that cannot be written: a full disk, a closed pipe, none at all. Every program of
the build and every script of bench/ and tools/ is tested; a new one is found by itself. Prints TAP.

    test_output.py SOURCES BUILD
"""
import os
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCES, BUILD = sys.argv[1:3]
del sys.argv[1:3]
sys.path[:0] = [os.path.join(SOURCES, "tests", "tools"), os.path.join(SOURCES, "tests", "bench")]
import programs  # noqa: E402
import tap  # noqa: E402

LOST = "cannot write to standard output"


PROGRAMS = programs.built(SOURCES, BUILD)


def help_pages():
    """The command for the help page of each program, each of its commands, and each script."""
    for program in PROGRAMS.values():
        for words in programs.commands(program):
            yield [*words, "--help"]
    for script in programs.scripts(SOURCES):
        yield [script, "--help"]


def results(folder):
    """Commands that print results, each in another way."""
    bench, plan, topo = PROGRAMS["collbench"], PROGRAMS["collplan"], PROGRAMS["colltopo"]
    topology = os.path.join(folder, "dgx.json")
    with open(topology, "wb") as file:
        subprocess.run([topo, "make", "dgx-a100", "--hosts", "2", "--fabric", "rail"], stdout=file,
                       check=True)
    yield [bench, "allreduce", "--threads", "2", "--sizes", "4", "-n", "1"]
    yield [bench, "allreduce", "--threads", "2", "--sizes", "4", "--explain"]
    yield [bench, "--knobs"]
    yield [PROGRAMS["collrun"], "-n", "2", "--show-layout"]
    yield [PROGRAMS["collrun"], "--print-address"]
    yield [PROGRAMS["collrun"], "-n", "2", "--prefix", "echo", "text"]
    yield [plan, "list"]
    yield [plan, "list", "--json"]
    yield [plan, "show", "allreduce"]
    yield [plan, "show", "allreduce", "--svg", "-"]
    yield [plan, "verify", "allreduce", "-n", "4"]
    yield [plan, "stats", "allreduce", "-n", "4"]
    yield [plan, "export", "allreduce", "--algo", "ring", "-n", "4", "--msccl"]
    for command in ("check", "show", "draw", "predict", "traffic", "convert"):
        yield [topo, command, topology]
    yield [topo, "predict", topology, "--json"]
    yield [topo, "layout", topology, "-n", "16"]
    yield [topo, "record"]
    yield [PROGRAMS["limit"], "-n", "2", "--sizes", "64", "broadcast"]
    if "gpt" in PROGRAMS:
        yield [PROGRAMS["gpt"], "schedule"]
        yield [PROGRAMS["gpt"], "mesh"]
        yield [PROGRAMS["gpt"], "plan", "--preset", "tiny"]
        yield [PROGRAMS["gpt"], "train", "--print-config"]


def run(words, output, ignores_pipe=False):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE,
                          text=True, check=False, restore_signals=not ignores_pipe, timeout=120)
    return done.returncode, done.stderr


def run_full(words):
    with open("/dev/full", "wb") as full:
        return run(words, full)


def run_closed_pipe(words, ignores_pipe=False):
    """Nobody reads from the beginning on, so that no write can come before the close."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return run(words, writer, ignores_pipe)
    finally:
        os.close(writer)


class TestOutput(unittest.TestCase):
    def check_full(self, words, code, errors):
        self.assertEqual((code, len(errors.splitlines())), (1, 1), (words, errors))
        self.assertRegex(errors, LOST + "|write error|I/O error", words)

    def check_closed_pipe(self, words, code, errors):
        self.assertEqual(errors, "", words)
        self.assertIn(code, (-signal.SIGPIPE, 128 + signal.SIGPIPE), words)

    def test_every_program_is_found(self):
        for name in ("collbench", "collrun", "collplan", "colltopo", "limit", "limit_net"):
            self.assertIn(name, PROGRAMS)
        self.assertGreater(len(list(programs.scripts(SOURCES))), 15)

    def test_a_full_disk_help_pages(self):
        for words in help_pages():
            self.check_full(words, *run_full(words))

    def test_a_full_disk_results(self):
        with tempfile.TemporaryDirectory() as folder:
            for words in results(folder):
                self.check_full(words, *run_full(words))

    def test_a_closed_pipe_help_pages(self):
        for words in help_pages():
            self.check_closed_pipe(words, *run_closed_pipe(words))

    def test_a_closed_pipe_results(self):
        with tempfile.TemporaryDirectory() as folder:
            for words in results(folder):
                self.check_closed_pipe(words, *run_closed_pipe(words))

    def test_a_closed_pipe_without_sigpipe(self):
        """As under a parent that ignores the signal."""
        with tempfile.TemporaryDirectory() as folder:
            for words in results(folder):
                code, errors = run_closed_pipe(words, ignores_pipe=True)
                self.assertEqual(errors, "", words)
                self.assertIn(code, (1, 128 + signal.SIGPIPE), words)

    def test_no_standard_output(self):
        for words in ([PROGRAMS["collplan"], "list"], [PROGRAMS["colltopo"], "--help"],
                      [PROGRAMS["collbench"], "barrier", "--threads", "2", "-n", "1"]):
            code, errors = run(["sh", "-c", 'exec "$@" >&-', "-", *words], None)
            self.assertEqual(code, 1, (words, errors))
            self.assertIn(LOST + ": Bad file descriptor", errors, words)

    def test_a_job(self):
        """collrun forwards what the ranks print, or they print themselves."""
        words = [PROGRAMS["collrun"], "-n", "2"]
        bench = [PROGRAMS["collbench"], "allreduce", "--sizes", "4", "-n", "1"]
        code, errors = run_full([*words, *bench])
        self.assertEqual(code, 1, errors)
        self.assertIn("collbench: " + LOST, errors)
        code, errors = run_full([*words, "--prefix", *bench])
        self.assertEqual((code, errors), (1, "collrun: %s: No space left on device\n" % LOST))
        for options in ([], ["--prefix"]):
            code, errors = run_closed_pipe([*words, *options, "sh", "-c",
                                            "while echo $RANK; do :; done"])
            self.assertEqual((code, errors), (128 + signal.SIGPIPE, ""))

    def test_a_job_whose_output_is_lost_ends(self):
        with tempfile.NamedTemporaryFile() as done:
            words = [PROGRAMS["collrun"], "-n", "1", "--prefix", "sh", "-c",
                     "seq 1 100000; echo $? >" + done.name]
            code, errors = run_full(words)
            self.assertEqual(code, 1, errors)
            self.assertEqual(done.read(), b"0\n")


if __name__ == "__main__":
    tap.run()

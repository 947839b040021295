"""The package coll for Python: runs the programs of ranks/ under collrun. Prints TAP.

    test_python.py SOURCES BUILD-FOLDER LOOP-LIBRARY GIVEN, the library of ../given.c
"""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES, BUILD, LOOP = sys.argv[1:4]
GIVEN = os.path.abspath(sys.argv[4])
del sys.argv[1:5]
sys.path.insert(0, os.path.join(SOURCES, "tests", "bench"))
import programs  # noqa: E402
import tap  # noqa: E402

FRONTENDS = os.path.join(BUILD, "libcoll", "frontends")
PACKAGE = os.path.join(FRONTENDS, "python")
sys.path.insert(0, PACKAGE)
run = programs.Programs(BUILD).run


class Programs(unittest.TestCase):
    def passes(self, *command, **variables):
        done = run(*command, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_every_verb_and_type_on_1_rank(self):
        self.passes(1, "verbs.py")

    def test_every_verb_and_type_on_2_ranks(self):
        self.passes(2, "verbs.py")

    def test_every_verb_and_type_on_4_ranks(self):
        self.passes(4, "verbs.py")

    def test_memory_is_not_copied(self):
        self.passes(2, "exchange.py")

    def test_memory_of_pytorch_is_not_copied(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("no PyTorch")
        self.passes(2, "exchange.py", "torch")

    def test_what_the_library_is_given(self):
        self.passes(2, "addresses.py", LD_PRELOAD=GIVEN)

    def test_what_the_library_is_given_of_pytorch(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("no PyTorch")
        self.passes(2, "addresses.py", "torch", LD_PRELOAD=GIVEN)

    def test_calls_that_wait_for_a_rank(self):
        self.passes(2, "pending.py")

    def test_refusals(self):
        self.passes(2, "refusals.py")

    def test_settings_of_the_program(self):
        self.passes(2, "settings.py")

    def test_examples_of_the_docstrings(self):
        self.passes(2, "doctests.py")

    def test_overhead_of_a_call(self):
        program = os.path.join(SOURCES, "bench", "peers", "python_calls.py")
        figures = json.loads(self.passes(2, program, LOOP, "4", "15", "2000"))
        self.assertGreater(figures["c_us"], 0)
        print(f"# figure: a call from Python takes {figures['over_us']:.1f} us more than from C")


class Interrupts(unittest.TestCase):
    def interrupts(self, way):
        done = run(2, "interrupt.py", way)
        self.assertIn("interrupted", done.stdout, done.stdout + done.stderr)
        if way != "create":
            self.assertRegex(done.stdout, "told: .*rank 0")

    def test_interrupted_call(self):
        self.interrupts("call")

    def test_interrupted_stream(self):
        self.interrupts("stream")

    def test_interrupted_group(self):
        self.interrupts("group")

    def test_interrupted_split(self):
        self.interrupts("split")

    def test_interrupted_creation(self):
        self.interrupts("create")


class Together(unittest.TestCase):
    """Two front ends in one process. That for PyTorch has this test among its own."""

    def test_libnccl(self):
        library = os.path.join(FRONTENDS, "nccl", "libnccl.so.2")
        done = run(2, "together.py", "nccl", library)
        self.assertEqual(done.stdout, "together\n" * 2, done.stderr)

    def test_mpi4py_under_the_layer(self):
        layer = os.path.join(FRONTENDS, "mpi", "libcoll-mpi-ompi.so")
        if importlib.util.find_spec("mpi4py") is None or not shutil.which("mpirun.openmpi"):
            self.skipTest("no mpi4py or no mpirun.openmpi (Debian: python3-mpi4py, openmpi-bin)")
        if not os.path.exists(layer):
            self.skipTest("no layer for Open MPI (Debian: libopenmpi-dev)")
        script = os.path.join(os.path.dirname(layer), "coll-mpi")
        command = [script, "--layer", "ompi", "mpirun.openmpi", "--oversubscribe", "-n", "2",
                   sys.executable, os.path.join(HERE, "ranks", "together.py"), "mpi"]
        environment = dict(os.environ, PYTHONPATH=PACKAGE, COLL_MPI_SERVE="always",
                           COLL_MPI_STATS="1", COLL_TUNE="builtin", OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=100, check=False)
        self.assertEqual(done.stdout, "together\n" * 2, done.stderr)
        self.assertRegex(done.stderr, r"MPI_Allreduce +8192 +100 +0 ")


class Types(unittest.TestCase):
    def mypy(self, *words):
        if importlib.util.find_spec("mypy") is None:
            self.skipTest("no mypy (Debian: mypy)")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True,
                                  env=dict(os.environ, MYPYPATH=PACKAGE, PYTHONPATH=PACKAGE),
                                  cwd=folder, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_programs_and_package(self):
        self.mypy("mypy", "--strict", os.path.join(HERE, "typed.py"),
                  os.path.join(PACKAGE, "coll", "run.py"))

    def test_stubs_are_as_the_package(self):
        self.mypy("mypy.stubtest", "coll")


class CommandLine(unittest.TestCase):
    def command(self, *words):
        from coll import run as module
        return module.command_line(list(words), "collrun")

    def test_programs(self):
        python = sys.executable
        self.assertEqual(self.command("-n", "4", "a.py", "-n", "5"),
                         ["collrun", "-n", "4", python, "a.py", "-n", "5"])
        self.assertEqual(self.command("-n4", "--prefix", "--bind=none", "-m", "a"),
                         ["collrun", "-n4", "--prefix", "--bind=none", python, "-m", "a"])
        self.assertEqual(self.command("--hosts", "a:1", "prog"),
                         ["collrun", "--hosts", "a:1", "prog"])
        self.assertEqual(self.command("--help"), ["collrun", "--help"])


if __name__ == "__main__":
    programs.skip_without("numpy", "coll")
    tap.run()

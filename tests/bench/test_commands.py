"""All comparisons from end to end, with programs that claim what they are told to (claims.py): each
command ends well, shows a table, writes it with its figures, and shows the same of these again.
Prints TAP.

    test_commands.py BENCH-FOLDER
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import tap

BENCH = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ("tools/collrun", "tools/gpt", "bench/collbench", "bench/limit", "bench/step",
            "bench/accuracy", "python", "mpi/bin/mpiexec", "mpi/bin/mpicc",
            "libcoll/frontends/mpi/coll-mpi", "libcoll/frontends/mpi/libcoll-mpi-ompi.so")
BUILD, PYTHON = "--build {0}", "--python {0}/python"


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name in PROGRAMS:
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(os.path.join(HERE, "claims.py"), path)

    def run_command(self, name, *words, code=0):
        """What it prints."""
        made = subprocess.run([os.path.join(BENCH, name), *words], text=True, capture_output=True,
                              check=False)
        self.assertEqual(made.returncode, code, made.stdout + made.stderr)
        return made.stdout

    def check(self, name, options, rows, files="out", code=0):
        """rows: words that stand in one line of the table, for several lines. files: the option
        for results."""
        base = os.path.join(self.folder, "results", "x")
        words = options.format(self.folder).split()
        shown = self.run_command(name, *words, "--" + files,
                                 base + (".json" if files == "json" else ""), code=code)
        for row in rows:
            self.assertTrue(any(all(word in line for word in row.split())
                                for line in shown.splitlines()), "%s in\n%s" % (row, shown))
        with open(base + ".json", encoding="utf-8") as file:
            self.assertEqual(json.load(file)["tool"].split()[0], "bench/" + name)
        again = self.run_command(name, "--from", base + ".json", code=code)
        self.assertIn(again.strip()[-100:], shown)
        if files == "out":
            with open(base + ".txt", encoding="utf-8") as file:
                self.assertEqual(file.read().strip(), again.strip())

    def test_ab(self):
        self.check("ab", "{0} {0} --quick --rounds 6 --rows allreduce/2/coll --cache {0}/cache",
                   ["allreduce/2/coll/1M 1.000 6", "PASS: 0 of 4 rows lost"])

    def test_compare(self):
        self.run_command("compare", "--build", self.folder, "--no-build", "--peers", "mpich",
                         code=2)
        self.check("compare", BUILD + " --no-build --quick -n 2 --sizes 4,4K --collectives "
                   "allreduce", ["4 KiB 5.10 8.39 1.65x 2.03x"], "json")

    def test_mpi_layer(self):
        made = self.run_command(
            "mpi-layer", "--build", self.folder, "--mpi", self.folder + "/mpi", "--verbs",
            "allreduce,barrier", "--sizes", "8,64K", "--rounds", "6")
        self.assertRegex(made, r"allreduce +64K +10\.0 +10\.0 +66\.5 .* 0\.150 .*libcoll")
        self.assertIn("PASS: of 4 rows, 0 are slower", made)

    def test_torch_compare(self):
        self.check("torch-compare", PYTHON + " -n 2 --sizes 4,4K", ["2 4 KiB 1.00 4.10"], "json")

    def test_python_overhead(self):
        self.check("python-overhead", BUILD + " " + PYTHON + " --no-build --sizes 4,64",
                   ["2 64 B 1.20 ok"], "json")

    def test_paced(self):
        self.check("paced", BUILD + " --topologies torus --collectives allreduce --sizes 1K,4K",
                   ["torus 4 KiB ring 5.10 1.00 ok", "2 of 2 cells"])

    def test_train_compare(self):
        self.check("train-compare", BUILD + " " + PYTHON + " --rows tiny:2x16 --precision bf16 "
                   "--rounds 2", ["libtrain float32 40.0 1.00 1.25", "PyTorch 9.9 eager threads",
                                  "parts of a step, alone 50.0"], "json")

    def test_parallel_compare(self):
        self.check("parallel-compare", BUILD + " " + PYTHON + " --quick --rows pp2?1f1b",
                   ["pp2 1f1b 25600 0.89 0.76 passes", "PyTorch 9.9, DDP2 25600"])

    def test_overlap_compare(self):
        self.check("overlap-compare", BUILD + " --quick --settings off,8 --links paced:2",
                   ["paced 2 Gbit/s tp2 sp 8 40.0 1.000 1.0"])

    def test_gradient_compare(self):
        self.run_command("gradient-compare", "--build", self.folder, code=2)
        layouts = self.run_command(
            "gradient-compare", "--build", self.folder, "--python", self.folder + "/python",
            "--layout", "1x2", "--layout", "3x1 --tp 3", code=2)
        self.assertRegex(layouts, r"1x2 +1\.00e-07 +1\.00e-07 +passes +a\n")
        self.assertIn("3x1 --tp 3 failed: exit code 1: gpt: 4 attention heads", layouts)
        self.check("gradient-compare", BUILD + " " + PYTHON + " --layout 1x2", ["1x2 passes a"])

    def test_loss_compare(self):
        self.check("loss-compare", BUILD + " " + PYTHON + " --steps 3 --precision float32",
                   ["3 4.8000000", "libtrain PyTorch compiled 0.00e+00"])

    def test_op_accuracy(self):
        self.check("op-accuracy", BUILD + " " + PYTHON, ["linear 0.200 1.000", "1 of 1 outputs"])

    def test_scaling(self):
        made = self.run_command("scaling", "--build", self.folder, "--rows", "1x2", "2x1 --zero 1",
                                "--beside", "echo 12 ms; echo 20 ms")
        self.assertRegex(made, r"2x1 --zero 1 +40\.0 +40\.0 +25600\.0 +0\.750 +1\.000\n")
        self.assertRegex(made, r"the other program +20\.0 .* 2\.000\n")


if __name__ == "__main__":
    tap.run()

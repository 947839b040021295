"""bench/gpu_memory.cu: what it prints and finds, as C++ on virtual_cuda.cuh, and that nvcc compiles
it without warnings, where that is installed. Prints TAP.

    test_gpu_memory.py SOURCE-FOLDER
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = os.path.abspath(sys.argv.pop(1))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(SOURCE, "tests", "bench"), os.path.join(SOURCE, "bench")]
import tap  # noqa: E402
from comparison.contenders import gpu_memory, gpus  # noqa: E402

UNROLLS = (1, 2, 4, 8)


class Virtual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.program = os.path.join(cls.folder, "gpu_memory")
        cls.json = os.path.join(cls.folder, "figures")
        if not gpu_memory.compiler(True):
            return
        command = gpu_memory.compile_command(True, cls.program, None)
        result = subprocess.run([*command, "-Wall", "-Wextra", "-Werror"], capture_output=True,
                                text=True)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        cls.whole = cls.run_small()
        cls.whole_figures = cls.figures()

    def setUp(self):
        if not gpu_memory.compiler(True):
            self.skipTest("no C++ compiler is installed")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def run_program(cls, *words, breaks=""):
        environment = dict(os.environ, VIRTUAL_CUDA=breaks)
        return subprocess.run([cls.program, *words], capture_output=True, text=True,
                              env=environment, timeout=100)

    @classmethod
    def run_small(cls, *words, breaks=""):
        return cls.run_program(*gpu_memory.VIRTUAL_WORDS, "--json", cls.json, *words,
                               breaks=breaks)

    @classmethod
    def figures(cls):
        with open(cls.json) as file:
            return [json.loads(line) for line in file]

    def check_failure(self, result, code, text):
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertRegex(result.stderr, text)
        self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_all_figures(self):
        self.assertEqual(self.whole.returncode, 0, self.whole.stderr)
        figures = self.whole_figures
        self.assertEqual(figures[0], {"figure": "gpu", "name": "Virtual", "multiprocessors": 3})
        hops = [row for row in figures if row["figure"] == "hop"]
        self.assertEqual([row["way"] for row in hops], ["relaxed", "release", "ll", "ll16"])
        self.assertTrue(all(0 < row["least_ns"] <= row["ns"] <= row["most_ns"] for row in hops))
        fences = [row for row in figures if row["figure"] == "fence"]
        self.assertEqual([row["load"] for row in fences], ["idle", "own", "block", "gpu"])
        self.assertTrue(all(row["system_ns"] > 0 and row["device_ns"] > 0 for row in fences))
        for name in ("copy", "reduce"):
            rows = [row for row in figures if row["figure"] == name]
            self.assertEqual([(row["blocks"], row["unroll"]) for row in rows],
                             [(blocks, unroll) for blocks in (1, 2, 3) for unroll in UNROLLS])
            self.assertTrue(all(row["gbs"] > 0 for row in rows))

    def test_the_table_is_aligned(self):
        tables = {}
        for line in self.whole.stdout.splitlines()[1:]:
            if not line.startswith(" "):
                rows = tables.setdefault(line, [len(line)])
            rows.append(len(line))
        self.assertEqual(len(tables), 4)
        for head, lengths in tables.items():
            self.assertEqual(len(set(lengths)), 1, head)

    def test_some_figures(self):
        self.assertEqual(self.run_small("--only", "flags").returncode, 0)
        self.assertEqual({row["figure"] for row in self.figures()}, {"gpu", "hop"})

    def test_a_flag_that_does_not_arrive(self):
        self.check_failure(self.run_small("--only", "flags", breaks="lost"), 1,
                           "flags: the kernel ended itself after 5 s")

    def test_a_torn_store(self):
        self.check_failure(self.run_small("--only", "flags", breaks="torn"), 1,
                           r"flags: \d+ values are wrong")
        # What was measured before is there.
        self.assertEqual([row["way"] for row in self.figures()[1:]], ["relaxed", "release", "ll"])

    def test_a_copy_that_is_not_whole(self):
        self.check_failure(self.run_small("--only", "copy", breaks="short"), 1,
                           r"copy: \d+ values are wrong")

    def test_no_gpu(self):
        self.check_failure(self.run_small(breaks="none"), 1, "no CUDA-capable device")

    def test_wrong_words(self):
        for words in (["--only", "flag"], ["--only", "copy,"], ["--bytes", "1x"], ["--bytes"],
                      ["--bytes", "64K"], ["--threads", "0"], ["--rounds", "-1"], ["--odd", "1"],
                      ["odd", "1"]):
            self.check_failure(self.run_program(*words), 2, "gpu_memory: .*see --help")

    def test_a_file_that_cannot_be_written(self):
        self.check_failure(self.run_program("--json", "/nonexistent/file"), 1, "/nonexistent/file")

    def test_help(self):
        result = self.run_program("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("gpu_memory --only flags,fences", result.stdout)


class Compiler(unittest.TestCase):
    def test_code_for_sm_90(self):
        if not gpus.find_program("nvcc"):
            self.skipTest("nvcc is not installed")
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            command = gpu_memory.compile_command(False, os.path.join(folder, "cubin"), "90")
            result = subprocess.run([*command, "-cubin", "-Werror=all-warnings"],
                                    capture_output=True, text=True)
            tap.figure("nvcc took %.1f s of 20" % (time.monotonic() - begin))
        self.assertEqual(result.returncode, 0, result.stderr)


tap.run()

"""bench/parallel-compare, overlap-compare and gradient-compare: layouts, limits, figures, gradients
in checkpoints, and runs of gpt train beside programs that claim to be PyTorch. Prints TAP.

    test_parallel_compare.py BENCH-FOLDER BUILD-FOLDER
"""
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import tap

BENCH, BUILD = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, BENCH)
from comparison import launch  # noqa: E402
from comparison.commands import gradient_compare as gradients  # noqa: E402
from comparison.commands import overlap_compare as overlap  # noqa: E402
from comparison.commands import parallel_compare as table  # noqa: E402
from comparison.contenders import checkpoint, first_step, launches, layouts  # noqa: E402
from comparison.contenders import trainers  # noqa: E402
from comparison.plots import bars  # noqa: E402

# Takes 1000 ms per step, with --ddp half of that; bound threads take 100 ms less.
CLAIMS = """
import json, os, sys
ms = (500 if "--ddp" in sys.argv else 1000) - 100 * (os.environ["OMP_PROC_BIND"] == "true")
assert sys.argv[sys.argv.index("--vocabulary") + 1] == "257"
if os.environ.get("RANK", "0") == "0":
    print(json.dumps({"version": "9.9+cpu"}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"ms": [ms] * int(line.split()[1])}), flush=True)
"""

# Instead of an interpreter: finds every gradient DISTANCE away.
GRADIENTS = """#!/usr/bin/env python3
import json, os, sys
assert all(map(os.path.getsize, sys.argv[2:]))
tensors = {"a": {"float32": 1e-7, "float64": float("DISTANCE")}}
print(json.dumps({"version": "9.9", "checkpoints": [{"tensors": tensors, "torch": 0.0}
                                                    for path in sys.argv[3:]]}))
"""
SIZES = {"vocabulary": 61, "context": 16, "layers": 2, "heads": 2, "width": 32}


def group(attainable, **speeds):
    speeds = {name.replace("_", " "): values for name, values in speeds.items()}
    ours = [name for name in speeds if not name.startswith("PyTorch")]
    return {"model": "mini:16x256", "parameters": 3300000,
            "layouts": {name: table.ROWS[name] for name in ours},
            "attainable": {name: attainable.get(name, 1.0) for name in ours},
            "tokens_per_s": speeds, "failures": {}, "left_out": {}}


class Figures(unittest.TestCase):
    def test_ratios_are_to_the_better_reference(self):
        one = group({}, one_rank=[100, 300, 200], dp2=[50, 150, 100], tp2=[90, 270, 180])
        self.assertEqual(table.reference(one), table.ONE_RANK)
        self.assertAlmostEqual(table.judge(one, "tp2").ratio.median, 0.9)
        self.assertAlmostEqual(table.judge(one, "dp2").ratio.median, 0.5)

    def test_a_row_passes_from_its_limit_on(self):
        one = group({"pp2 1f1b": 8 / 9}, one_rank=[1000], dp2=[900], pp2_1f1b=[756], tp2=[849])
        self.assertTrue(table.judge(one, "pp2 1f1b").passes)
        self.assertFalse(table.judge(one, "tp2").passes)
        self.assertTrue(table.judge(one, table.ONE_RANK).passes)
        self.assertFalse(table.passes(one))
        self.assertIn("MISSES", "\n".join(table.lines([one])))

    def test_the_baseline_need_not_pass(self):
        one = group({}, one_rank=[100], dp2=[100], naive_dp2=[10])
        self.assertTrue(table.passes(one))

    def test_without_a_reference_nothing_is_judged(self):
        one = group({}, tp2=[1.0])
        self.assertTrue(table.passes(one))
        self.assertIsNone(table.judge(one, "tp2").limit)

    def test_peers_need_not_pass(self):
        one = group({}, one_rank=[100], dp2=[100], PyTorch=[1])
        self.assertTrue(table.passes(one))
        self.assertEqual(table.judgements(one)[-1].name, "PyTorch")

    def test_the_plot_is_a_bar_per_row(self):
        drawn = table.draw([group({}, one_rank=[100], dp2=[50], PyTorch=[10])], ["a < b"])
        root = xml.etree.ElementTree.fromstring(drawn)
        widths = [float(e.get("width")) for e in root.iter("{http://www.w3.org/2000/svg}rect")
                if e.get("height") == str(bars.BAR_HEIGHT)]
        self.assertEqual(widths, [bars.BAR_WIDTH, bars.BAR_WIDTH / 2, bars.BAR_WIDTH / 10])


class Layouts(unittest.TestCase):
    def test_texts(self):
        layout = layouts.parse("a", "2x1 --tp 2 --sp")
        self.assertEqual(layout[2:], (2, 1, ("--tp", "2", "--sp")))
        self.assertEqual(layouts.value_of(layout, "--tp", "1"), "2")
        self.assertEqual(layouts.value_of(layout, "--pp", "1"), "1")
        for text in ("2", "0x1 --tp 2", "--tp 2", "ax1"):
            with self.assertRaises(ValueError):
                layouts.parse("a", text)

    def test_the_bubble_is_that_of_the_schedule(self):
        for name, left in (("pp2 1f1b", 8 / 9), ("pp2 zb-h1", 24 / 25), ("tp2", 1)):
            layout = layouts.parse(name, table.ROWS[name])
            self.assertAlmostEqual(layouts.attainable(BUILD, layout), left)

    def test_one_that_does_not_fit_is_named(self):
        with self.assertRaisesRegex(launch.Failure, "4 attention heads"):
            layouts.run(layouts.command(BUILD, layouts.parse("tp3", "3x1 --tp 3"),
                                        ["--data", BENCH]))


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_the_command_writes_its_figures(self):
        base = os.path.join(self.folder, "a")
        command = [sys.executable, os.path.join(BENCH, "parallel-compare"), "--build", BUILD]
        done = subprocess.run([*command, "--quick", "--rows", "pp2 1f1b", "--out", base],
                              capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)  # slow is no failure
        self.assertIn("tiny:16x64, 0.4 M parameters, 1 round", done.stdout)
        with open(base + ".json", encoding="utf-8") as file:
            speeds = json.load(file)["groups"][0]["tokens_per_s"]
        self.assertEqual(list(sorted(speeds)), ["dp2", "one rank", "pp2 1f1b"])
        xml.etree.ElementTree.parse(base + ".svg")
        again = subprocess.run([*command, "--from", base + ".json"], capture_output=True, text=True,
                               check=False)
        self.assertEqual((again.returncode, again.stdout), (done.returncode, done.stdout))

    def test_peers_and_failures_of_a_group(self):
        program = os.path.join(self.folder, "claims.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(CLAIMS)

        class Options:
            python, build, torch_program = [sys.executable], BUILD, program
            data = os.path.dirname(BENCH) + "/docs"
            rows = {table.ONE_RANK: table.ROWS[table.ONE_RANK], "tp3": "3x1 --tp 3"}

        class Progress:
            @staticmethod
            def step(*_):
                pass
        found = launches.Group(Options, trainers.Row("tiny", 2, 16),
                               launches.Effort(1, 0.2, False, 1), lambda text: None).run(Progress)
        self.assertEqual(list(found["failures"]), ["tp3"], found["failures"])
        self.assertIn("4 attention heads", found["failures"]["tp3"])
        speeds = found["tokens_per_s"]
        self.assertEqual(list(sorted(speeds)),
                         ["PyTorch 9.9, DDP2", "PyTorch 9.9, one rank", table.ONE_RANK])
        self.assertAlmostEqual(speeds["PyTorch 9.9, one rank"][0], 32 / 0.9)
        self.assertAlmostEqual(speeds["PyTorch 9.9, DDP2"][0], 32 / 0.4)


class Overlap(unittest.TestCase):
    def test_links(self):
        self.assertEqual(overlap.parse_link("shm").kind, overlap.SHARED)
        self.assertEqual(overlap.parse_link("paced:2.5"), (overlap.PACED, 2.5))
        for text in ("tcp", "tcp:fast", "10"):
            with self.assertRaises(ValueError):
                overlap.parse_link(text)

    def test_speedups_are_of_the_same_round(self):
        cells = [{"link": "shared memory", "layout": "tp2", "overlap": name, "ms": times,
                  "waited_ms": [1.0]} for name, times in (("off", [100, 300]), ("1", [50, 200]))]
        line = list(overlap.lines(cells))[2]
        self.assertEqual(line.split()[4:], ["125.0", "1.750", "1.50", "to", "2.00", "1.0"])

    def test_the_command_writes_its_figures(self):
        with tempfile.TemporaryDirectory() as folder:
            base = os.path.join(folder, "overlap")
            done = subprocess.run([os.path.join(BENCH, "overlap-compare"), "--build", BUILD,
                                   "--quick", "--settings", "off,2", "--links", "shm,paced:10",
                                   "--out", base], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(base + ".json", encoding="utf-8") as file:
                cells = json.load(file)["cells"]
            self.assertEqual([cell["overlap"] for cell in cells], ["off", "2"] * 4)
            self.assertTrue(all(cell["ms"][0] > 0 for cell in cells))
            with open(base + ".txt", encoding="utf-8") as file:
                self.assertEqual(file.read(), done.stdout)


class Gradients(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def compare(self, python, *more):
        sizes = [word for name, size in SIZES.items() for word in ("--" + name, str(size))]
        return subprocess.run([sys.executable, os.path.join(BENCH, "gradient-compare"), "--build",
                               BUILD, "--python", python, "--batch", "4", *sizes, "--layout",
                               "2x1 --pp 2 --accumulate 2", *more], capture_output=True, text=True,
                              check=False)

    def test_the_farthest_tensor_counts(self):
        found = {"tensors": {"a": {"float32": 1e-6, "float64": 2e-5},
                             "b": {"float32": 3e-6, "float64": 1e-7}}}
        self.assertEqual(gradients.largest(found, "float32"), (3e-6, "b"))
        self.assertTrue(gradients.passes(found, 2e-5))
        self.assertFalse(gradients.passes(found, 1e-5))
        found["tensors"]["a"]["float32"] = math.nan
        self.assertEqual(gradients.largest(found, "float32")[1], "a")
        self.assertFalse(gradients.passes(found, 1))

    def test_checkpoints_of_layouts_hold_the_same_step(self):
        self.check_same_step("1x1", "2x1 --tp 2 --sp")
        experts = " --experts 4 --moe-every 2 --shared-expert"
        self.check_same_step("1x1" + experts, "2x1 --dp 2 --ep 2" + experts)

    def check_same_step(self, *texts):
        first_step.write_corpus(self.folder, SIZES, 4, 1)
        saved = []
        for text in texts:
            path = os.path.join(self.folder, "a.ckpt")
            first_step.take_step(BUILD, layouts.parse(text, text), self.folder, SIZES, 4, path)
            saved.append(checkpoint.read(path))
        self.assertEqual(saved[0].position["step"], 1)
        self.assertEqual(saved[0].parameters, saved[1].parameters)
        for name, (shape, offset) in saved[0].tensors.items():
            one, other = (one.moments[offset:offset + checkpoint.count_of(shape)] for one in saved)
            norm = math.hypot(*one)
            self.assertGreater(norm, 0, name)
            self.assertLess(math.dist(one, other), 2e-6 * norm, name)

    def test_other_files_are_rejected(self):
        path = os.path.join(self.folder, "a")
        first_step.write_shard(path, [1] * 100)
        with self.assertRaisesRegex(ValueError, "is no checkpoint"):
            checkpoint.read(path)

    def test_the_exit_code_says_whether_gradients_are_equal(self):
        for distance, code, word in (("1e-5", 0, "passes"), ("2e-5", 1, "MISSES"),
                                     ("NaN", 1, "MISSES")):
            program = os.path.join(self.folder, "python")
            with open(program, "w", encoding="utf-8") as file:
                file.write(GRADIENTS.replace("DISTANCE", distance))
            os.chmod(program, 0o755)
            done = self.compare(program)
            self.assertEqual((done.returncode, done.stderr), (code, ""))
            self.assertIn(word, done.stdout)

    def test_an_interpreter_without_pytorch_is_a_failure(self):
        done = self.compare("false")
        self.assertEqual(done.returncode, 2)
        self.assertIn("false: exit code 1", done.stderr)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_pytorch_has_the_same_gradients(self):
        done = self.compare(sys.executable, "--layout", "2x1 --tp 2 --sp", "--layout",
                            "2x1 --cp 2")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    tap.run()

"""tools/gpu-check: its steps and tables with programs that claim what they are told to, and all of
it on the virtual GPUs. Prints TAP.

    test_gpu_check.py SOURCE-FOLDER BUILD-FOLDER
"""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

SOURCE, BUILD = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(SOURCE, "tests", "bench"), os.path.join(SOURCE, "bench")]
import tap  # noqa: E402
from comparison.contenders import gpu_budgets as budgets, gpu_memory, gpu_torch  # noqa: E402
from comparison.contenders import gpu_steps as steps, gpu_times as speed  # noqa: E402
from comparison.contenders import gpus as machines  # noqa: E402

TOOL = os.path.join(SOURCE, "tools", "gpu-check")

COLLBENCH = """#!/bin/sh
# Claims one good row, or does what FAKE says.
case $FAKE in
  wrong) echo '# Wrong elements    : 3 FAILED'; exit 1 ;;
  hang) exec sleep 100 ;;
  shared) echo 'rank 0: two processes share GPU 0 without MPS' >&2; exit 1 ;;
  long) exec sleep 3 ;;
esac
while [ $# -gt 0 ]; do
  [ "$1" = --json ] && json=$2
  shift
done
row='{"collective": "allreduce", "bytes": 8,
      "out_of_place": {"time_us": 2.0, "wrong": 0, "algo": "none"}, "in_place": null}'
[ -n "$json" ] && printf '{"rows": [%s]}' "$row" > "$json"
echo '# collective     algo                      rows   #wrong  mean busbw   best busbw'
echo '  allreduce      (chosen)                     4        0         0.02         0.02'
echo '# Wrong elements    : 0 OK'
"""
COLLRUN = """#!/bin/sh
# Starts two ranks, and ends when one of them has, after a while if FAKE_SLOW is set.
if [ "$FAKE" != long ]; then shift 2; exec "$@"; fi
sleep 100 & first=$!
sleep 100 & second=$!
wait $second
sleep "${FAKE_SLOW:-0}"
kill $first
exit 137
"""
PEER = """#!/bin/sh
[ "$2" = 1 ] && exit 0
echo '{"library": "NCCL 9.9.9"}'
echo '{"collective": "allreduce", "bytes": 8, "wrong": 0, "batch_us": [3.0, 5.0, 4.0]}'
echo '{"collective": "allreduce", "bytes": 64, "wrong": 2, "batch_us": [1.0]}'
"""
LIMIT = """#!/bin/sh
echo '{"gpus": [{"name": "Fake", "copy_gbs": 1000.0}], "peers": [[0.0]], "queue_us": 1.0}'
"""
ABORT = "#!/bin/sh\necho ${FAKE_MS:-12.5}\n"
PYTHON = """#!/bin/sh
case $FAKE in
  none) echo 'torch_check: this Python has no PyTorch' >&2; exit 3 ;;
  hang) exec sleep 100 ;;
esac
echo '{"check": "ddp", "outcome": "pass", "note": "3 steps"}'
echo '{"check": "capture", "outcome": "-", "note": "graphs are CUDA'"'"'s"}'
if [ "$FAKE" = wrong ]; then
  echo '{"check": "destroy", "outcome": "FAIL", "note": "rank 1: odd", "printed": ["a", "b"]}'
  exit 1
fi
"""


class Fakes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for name, text in (("bench/collbench", COLLBENCH), ("tools/collrun", COLLRUN),
                           ("bench/peer-nccl", PEER), ("bench/gpu_limit", LIMIT),
                           ("bench/gpu_abort", ABORT), ("python", PYTHON),
                           ("tests/gpu/standin/libstandin_kernel.so", "")):
            self.write(name, text)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def machine(self, fake="", seconds=30, **variables):
        machine = machines.Machine(self.folder, False, 1, time.monotonic() + seconds)
        machine.environment.update(variables, FAKE=fake)
        machine.python = machine.path("python")
        return machine

    def check(self, result, outcome, note):
        self.assertEqual(result.outcome, outcome, result.note)
        self.assertIn(note, result.note)

    def test_good_results_pass(self):
        for step in (steps.exact, steps.exact_processes, steps.graphs, steps.registered):
            self.check(step(self.machine(), 2, True), steps.PASS, "4 rows")

    def test_wrong_elements_fail(self):
        self.check(steps.exact(self.machine("wrong"), 2, True), steps.FAIL, "exit code 1")

    def test_a_step_that_hangs_fails(self):
        begin = time.monotonic()
        self.check(steps.graphs(self.machine("hang", 1), 2, True), steps.FAIL, "did not end")
        self.assertLess(time.monotonic() - begin, 50)

    def test_processes_that_are_refused_fail(self):
        machine = self.machine("shared")
        for one_gpu in (True, False):
            self.check(steps.exact_processes(machine, 2, one_gpu), steps.FAIL, "share GPU 0")

    def test_aborts(self):
        self.check(steps.abort(self.machine(), 2, True), steps.PASS, "12.5 ms")
        self.check(steps.abort(self.machine(FAKE_MS="2500"), 2, True), steps.FAIL, "2500.0 ms")

    def test_a_killed_rank(self):
        self.check(steps.kill_one(self.machine("long"), 2, False), steps.PASS, "others ended")
        self.check(steps.kill_one(self.machine("long", FAKE_SLOW="3"), 2, False), steps.FAIL,
                   "needed")

    def test_pytorch(self):
        result = gpu_torch.torch(self.machine(), 2, True)
        self.check(result, steps.PASS, "1 checks")
        self.assertRegex(result.shown, "ddp +pass +3 steps\ncapture +- +graphs")
        self.check(gpu_torch.torch(self.machine("none"), 2, True), steps.SKIP, "has no PyTorch")
        result = gpu_torch.torch(self.machine("wrong"), 2, True)
        self.check(result, steps.FAIL, "destroy: rank 1: odd")
        self.assertRegex(result.shown, "destroy +FAIL +rank 1: odd\n  a\n  b$")
        self.check(gpu_torch.torch(self.machine("hang", 1), 2, True), steps.FAIL, "did not end")

    def test_times(self):
        machine = self.machine()
        times, settings = speed.measure(machine, "libnccl.so.2", [2], 1)
        measured = speed.measure_limit(machine)
        rows = speed.table(times, settings, measured)
        self.assertEqual([(row["setting"], row["collective"], row["bytes"], row["coll_us"],
                           row["nccl_us"]) for row in rows],
                         [("2 threads on one GPU", "allreduce", 8, 2.0, 4.0),
                          ("2 threads on one GPU, windows", "allreduce", 8, 2.0, 4.0),
                          ("2 processes on one GPU", "allreduce", 8, 2.0, 4.0)])
        limit_us = speed.limit_us(speed.load_model(), measured, settings[0], "allreduce", 8)
        self.assertGreater(limit_us, 2.0)
        self.assertEqual([row["limit_us"] for row in rows], [None] * 3)  # which 2 us disprove
        self.assertEqual(times.nccl_name, "NCCL 9.9.9")
        self.assertEqual(rows[0]["rounds"], 2 * speed.ROUNDS)

    def test_a_failed_run_is_noted(self):
        times, _ = speed.measure(self.machine("shared"), None, [2], 1)
        self.assertEqual(times.rows, {})
        self.assertIn("share GPU 0", times.notes[0])

    # ---- budgets

    def test_a_step_that_takes_too_long_is_ended(self):
        machine = self.machine("hang", 1000)
        begin, limits = time.monotonic(), budgets.Budgets(machine)
        with mock.patch.dict(budgets.SECONDS, graphs=1):
            self.check(limits.run("graphs", steps.graphs, 2, True, 0), steps.FAIL,
                       "ended, as the step's 1 s were over: did not end within 1 s")
            self.check(limits.run("graphs", steps.graphs, 4, True, 0), steps.SKIP,
                       "not run: the step's 1 s are over")
            machine.environment["FAKE"] = ""
            self.check(limits.run("graphs", steps.graphs, 8, False, 0), steps.PASS, "4 rows")
        self.check(limits.run("exact", steps.exact, 2, True, 0), steps.PASS, "4 rows")
        self.assertLess(time.monotonic() - begin, 50)

    def test_time_that_is_kept(self):
        machine = self.machine("hang", 30)
        limits = budgets.Budgets(machine)
        self.check(limits.run("exact", steps.exact, 2, True, 29), steps.FAIL,
                   "ended, as the time of all steps was over")
        self.check(limits.run("graphs", steps.graphs, 2, True, 29), steps.SKIP, "no time left")
        self.assertGreater(machine.seconds_left(), 5)

    def test_the_next_step_goes_on(self):
        arguments = argparse.Namespace(call=None, only_speed=False, no_speed=True, ranks=[2],
                                       steps="graphs,registered", standin=False, minutes=5)
        with mock.patch.dict(budgets.SECONDS, graphs=1, registered=1):
            rows = load_tool().run_steps(arguments, self.machine("hang", 300))
        self.assertEqual([(row["step"], row["outcome"], row["budget"]) for row in rows],
                         [("graphs", steps.FAIL, 1), ("registered", steps.FAIL, 1)])

    def test_speed_is_ended(self):
        tool, machine = load_tool(), self.machine("hang", 300)
        arguments = argparse.Namespace(call="b", standin=False, nccl="libnccl.so.2", ranks=[2])
        with mock.patch.dict(budgets.SECONDS, speed=2), mock.patch.object(tool, "LAST_SECONDS", 0):
            measured = tool.run_speed(arguments, machine)
        self.assertEqual({row["coll_us"] for row in measured["rows"]}, {None})
        self.assertIn("the time was over before all rounds", measured["notes"][-1])
        self.assertGreater(machine.seconds_left(), 200)

    def test_calls_fit_into_their_time(self):
        both = []
        for call in budgets.CALLS.values():
            names = [*call.steps, *(["speed"] if call.has_speed else [])]
            self.assertLessEqual(sum(budgets.SECONDS[name] for name in names), call.seconds)
            both += names
        self.assertEqual(sorted(both), sorted([*load_tool().STEPS, "speed"]))
        self.assertEqual(sorted(both), sorted(budgets.SECONDS))


def load_tool():
    """tools/gpu-check as a module."""
    loader = importlib.machinery.SourceFileLoader("gpu_check", TOOL)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


class Shown(unittest.TestCase):
    ROWS = [{"setting": "2 threads on one GPU", "collective": "allreduce", "bytes": size,
             "coll_us": size / 10, "nccl_us": size / 5, "limit_us": size / 20}
            for size in (8, 64, 8192)]

    def test_a_drawing(self):
        text = load_tool().draw({"revision": "a < b", "speed": {"rows": self.ROWS, "nccl": "N"}})
        self.assertEqual(text.count("<polyline"), 3)
        self.assertIn("a &lt; b", text)
        self.assertIsNone(load_tool().draw({"revision": "", "speed": {"rows": [], "nccl": ""}}))

    def test_the_table_has_a_line_per_setting_and_collective(self):
        lines = list(load_tool().speed_lines(self.ROWS))
        self.assertEqual(lines[0].split(), ["times", "in", "us", "8", "B", "8", "KiB"])
        self.assertRegex(lines[1], r"^2 threads on one GPU  allreduce  0\.800 2x .* 819\.2 2x ")


    def test_names_of_results(self):
        tool, machine = load_tool(), argparse.Namespace(gpus=1)
        rows = [{}, {"figures": [{"figure": "gpu", "name": "NVIDIA H200"}]}]
        limit = {"limit": {"gpus": [{"name": "NVIDIA X (Y)"}]}}
        for call, output, measured, found in (("a", None, None, "gpu-h200-x1-a"),
                                              (None, None, None, "gpu-h200-x1"),
                                              ("a", "/tmp/name", None, "name")):
            arguments = argparse.Namespace(call=call, output=output)
            name = tool.result_name(arguments, machine, tool.gpu_name(rows, measured))
            self.assertEqual(os.path.basename(name), found)
        self.assertEqual(tool.gpu_name([], limit), "NVIDIA X (Y)")
        self.assertEqual(tool.gpu_name([], None), "gpu")


class Tool(unittest.TestCase):
    def run_tool(self, *words, **variables):
        environment = dict(os.environ, **variables)
        return subprocess.run([TOOL, "--build", BUILD, "--no-build", *words], text=True,
                              capture_output=True, env=environment, timeout=200)

    def test_no_gpu(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is a GPU here")
        # By meson's path the stand-in would be found, which has GPUs.
        result = self.run_tool(LD_LIBRARY_PATH="")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn("no GPU can be checked here", result.stderr)

    def test_wrong_words(self):
        result = self.run_tool("--steps", "exat")
        self.assertEqual(result.returncode, 2)
        self.assertIn("exact, processes", result.stderr)

    def test_calls(self):
        for words in (["--call", "c"], ["--call", "a", "--steps", "exact"],
                      ["--call", "b", "--no-speed"]):
            result = self.run_tool(*words)
            self.assertEqual(result.returncode, 2)
            self.assertIn("--call", result.stderr)

    def test_a_build_without_programs(self):
        result = self.run_tool("--standin", "--build", "/nonexistent")
        self.assertEqual(result.returncode, 2)
        self.assertIn("is missing", result.stderr)

    def test_the_memory_of_virtual_gpus(self):
        standin = os.path.join(BUILD, "tests", "gpu", "standin")
        environment = dict(os.environ, LD_LIBRARY_PATH=standin, COLL_STANDIN_STRICT="1")
        result = subprocess.run([os.path.join(BUILD, "bench", "gpu_limit"), "1M", "2"], text=True,
                                capture_output=True, env=environment, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual(len(document["gpus"]), 2)
        self.assertGreater(document["peers"][0][1], 0)

    def test_all_steps_on_virtual_gpus(self):
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "gpu")
            result = self.run_tool("--standin", "--ranks", "2", "--output", output)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            with open(output + ".json") as file:
                document = json.load(file)
        self.assertTrue(document["virtual"])
        self.assertNotIn("FAIL", [row["outcome"] for row in document["steps"]])
        found = {row["step"]: row for row in document["steps"]}
        if gpu_memory.compiler(True):
            self.assertEqual(found["compile"]["outcome"], "pass")
            self.assertIn("hop", {row["figure"] for row in found["memory"]["figures"]})
            self.assertRegex(result.stdout, r"memory .* pass .* s of 350 ")
            self.assertIn("12 B with a flag in 16 B", result.stdout)


tap.run()

"""tools/gpu-speed: times of small plans, worked out by hand, and that docs/gpu-speed.md has
the tables that it prints. Prints TAP.

    test_gpu_speed.py SOURCE-FOLDER BUILD-FOLDER
"""
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import unittest

SOURCE, BUILD = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, os.path.join(SOURCE, "tests", "bench"))
import tap  # noqa: E402

TOOL = os.path.join(SOURCE, "tools", "gpu-speed")
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("gpu_speed", TOOL)
speed = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_speed", loader))
loader.exec_module(speed)

HALVES = """plan allgather by-hand
ranks 2
parts 1
reach own

rank 0
  copy output[0+1] <- input[0+1]
  send 1 <- input[0+1]
  recv 1 -> output[1+1]
rank 1
  copy output[1+1] <- input[0+1]
  send 0 <- input[0+1]
  recv 0 -> output[0+1]
end
"""
PULL = """plan broadcast by-hand
ranks 2
parts 1
reach read

rank 0
  signal 1
  copy output[0+1] <- input[0+1]
rank 1
  wait 0
  copy output[0+1] <- 0.input[0+1]   # over the link
end
"""
STUCK = "plan x y\nranks 2\nparts 1\nrank 0\n  wait 1\nrank 1\n  wait 0\nend\n"
LANES = """plan x y
ranks 1
parts 2
rank 0
lane 0
  after 1:0
  copy output[0+1] <- input[0+1]
lane 1
  copy scratch[0+2] <- input[0+2]
end
"""
STEP, LAUNCH = speed.LATENCIES["step"], speed.LATENCIES["launch"]


def machine(gpus, ranks):
    """Memory of 100 bytes per microsecond, links of 10, flags of 1 microsecond."""
    speeds = speed.Speeds("8xh100" if gpus > 1 else "one-h100", ranks, False)
    speeds.gpus, speeds.hbm, speeds.flag = gpus, 100.0, 1.0
    speeds.nvlink = 10.0 if gpus > 1 else None
    return speeds


class Times(unittest.TestCase):
    def check(self, text, speeds, chunk, hbm, out, in_step):
        run = speed.Run(speeds, speed.Plan(text), chunk)
        self.assertAlmostEqual(run.us(), in_step)
        self.assertEqual(run.total.hbm, hbm)
        self.assertEqual(run.total.out, out)

    def test_messages_between_two_gpus(self):
        # Each GPU: 2 chunks by the copy, load for the send, the peer's store, 2 by the receive.
        # In step: copy 2/100, send over the link 1/10, flag, receive 2/100, of 1000 bytes.
        self.check(HALVES, machine(2, 2), 1000, [6000] * 2, [1000] * 2,
                   20 + 100 + 1 + 20 + 3 * STEP)

    def test_messages_on_one_gpu(self):
        # Both ranks together, each at half the speed: copy 40, send 40, flag, receive 40.
        self.check(HALVES, machine(1, 2), 1000, [12000], [0], 40 + 40 + 1 + 40 + 3 * STEP)

    def test_a_load_from_a_peer_leaves_the_peer(self):
        self.check(PULL, machine(2, 2), 1000, [3000, 1000], [1000, 0], 3 * STEP + 1 + 100)

    def test_a_lane_waits_for_a_step_of_another(self):
        # The lanes of a GPU divide its speed.
        self.check(LANES, machine(1, 1), 1000, [6000], [0], 80 + STEP + 1 + STEP + 40 + STEP)

    def test_a_plan_that_cannot_end_is_an_error(self):
        run = speed.Run(machine(2, 2), speed.Plan(STUCK), 1000)
        self.assertRaises(ValueError, run.us)

    def test_overlapped_is_not_more_than_in_step(self):
        overlapped, in_step = speed.plan_times(machine(2, 2), "allgather", speed.Plan(HALVES), 2000)
        latency = 1 + 3 * STEP
        self.assertAlmostEqual(overlapped, LAUNCH + latency + 100)
        self.assertAlmostEqual(in_step, LAUNCH + latency + 140)

    def test_the_limit(self):
        one, two = machine(1, 2), machine(2, 2)
        fixed = LAUNCH + STEP + 1
        self.assertAlmostEqual(speed.limit_us(one, "allreduce", 1000), fixed + 4000 / 100)
        self.assertAlmostEqual(speed.limit_us(one, "allgather", 1000), fixed + 3000 / 100)
        self.assertAlmostEqual(speed.limit_us(two, "allreduce", 1000), fixed + 1000 / 10)
        self.assertAlmostEqual(speed.limit_us(two, "alltoall", 1000), fixed + 500 / 10)


    def test_a_plan_that_beats_the_limit_is_an_error(self):
        idle = speed.Plan("parts 1\nreach own\nrank 0\nlane 0\nend\n")
        with self.assertRaisesRegex(ValueError, "idle, allreduce of 1 KiB takes less than the lim"):
            speed.estimate(machine(1, 1), "allreduce", {"idle": idle}, 1024)


class Tool(unittest.TestCase):
    def run_tool(self, *words):
        return subprocess.run([TOOL, "--build", BUILD, *words], capture_output=True, text=True,
                              timeout=100)

    def test_the_page_has_the_tables(self):
        result = self.run_tool("--markdown")
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(os.path.join(SOURCE, "docs", "gpu-speed.md")) as file:
            page = file.read()
        self.assertTrue(page.endswith(result.stdout.rstrip("\n") + "\n"),
                        "make the end of docs/gpu-speed.md again: tools/gpu-speed --markdown")

    def test_all_plans(self):
        result = self.run_tool("--all", "--machines", "one-h100", "--ranks", "2", "--sizes", "1M",
                               "--collectives", "allgather")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("ring", result.stdout)

    def test_wrong_words(self):
        for words, text in ((["--machines", "a100"], "one-h100"), (["--sizes", "4Q"], "4Q"),
                            (["--collectives", "barrier"], "allreduce"),
                            (["--build", "/nonexistent"], "not built")):
            result = self.run_tool(*words)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(text, result.stderr)


tap.run()

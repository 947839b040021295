"""bench/peers/torch_check.py: what it says of PyTorch's gloo, whole and broken, and of ranks that
claim what they are told to. Prints TAP.

    test_torch_check.py SOURCE-FOLDER PYTHON, which has PyTorch, or does not
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

SOURCE = os.path.abspath(sys.argv.pop(1))
PYTHON = sys.argv.pop(1)
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(SOURCE, "tests", "bench"), os.path.join(SOURCE, "bench", "peers")]
import tap  # noqa: E402
import torch_check  # noqa: E402

PROGRAM = os.path.join(SOURCE, "bench", "peers", "torch_check.py")
# Runs the program behind a change of PyTorch.
BROKEN = """
import runpy, sys, torch, torch.distributed as dist
%s
sys.argv[0] = %r
runpy.run_path(sys.argv[0], run_name="__main__")
"""
BREAKS = {
    "allreduce": "dist.all_reduce = lambda values, group=None: None",
    "ddp": "torch.nn.parallel.DistributedDataParallel = lambda model, device_ids=None: model",
    "all_to_all": """
real = dist.all_to_all_single
dist.all_to_all_single = lambda output, sent, taken, parts: real(output, sent * 2, taken, parts)
""",
    "batch_isend_irecv": "dist.batch_isend_irecv = lambda operations: []",
    "destroy": "dist.destroy_process_group = lambda: None"}
FAKE = """
import json, sys, time
for word in sys.argv[1:]:
    if word == "hang":
        time.sleep(100)
    if word.startswith("exit"):
        print("the reason", file=sys.stderr)
        sys.exit(int(word[4:]))
    check, outcome = word.split("=")
    print(json.dumps({"check": check, "outcome": outcome, "note": "of " + check}), flush=True)
"""


def has_torch():
    text = "import torch.distributed as d, sys; sys.exit(not d.is_gloo_available())"
    return subprocess.run([PYTHON, "-c", text], capture_output=True).returncode == 0


class Ranks(unittest.TestCase):
    """What the parent makes of its ranks."""

    def run_fakes(self, *ranks, grace=60, wait=torch_check.wait_for_all):
        with tempfile.TemporaryDirectory() as self.folder, \
                mock.patch.object(torch_check, "GRACE_SECONDS", grace), \
                mock.patch.object(torch_check, "wait_for_all", wait):
            commands = [[sys.executable, "-c", FAKE, *words.split()] for words in ranks]
            rows = torch_check.run_ranks(commands, dict(os.environ), ["ddp", "destroy"], 60,
                                         self.folder)
        return {row["check"]: row for row in rows}

    def test_all_pass(self):
        rows = self.run_fakes(*["start=pass ddp=begin ddp=pass destroy=begin destroy=pass"] * 2)
        self.assertEqual([(name, row["outcome"]) for name, row in rows.items()],
                         [("ddp", "pass"), ("destroy", "pass")])

    def test_one_fails(self):
        rows = self.run_fakes("start=pass ddp=pass destroy=pass", "start=pass ddp=FAIL exit1")
        self.assertEqual(rows["ddp"], {"check": "ddp", "outcome": "FAIL",
                                       "note": "rank 1: of ddp", "printed": ["the reason"]})
        self.assertEqual(rows["destroy"]["outcome"], "pass")

    def test_one_crashes_and_the_other_waits(self):
        begin = time.monotonic()
        rows = self.run_fakes("start=pass ddp=begin hang", "start=pass ddp=begin exit7", grace=0.5)
        self.assertLess(time.monotonic() - begin, 50)
        self.assertEqual(rows["ddp"]["note"], "rank 1: exit code 7")
        self.assertEqual(rows["ddp"]["printed"], ["the reason"])
        self.assertEqual(rows["destroy"]["note"], "not run")

    def test_all_wait(self):
        wait_for_all = torch_check.wait_for_all

        def expire_once_all_wait(processes, _):
            outputs = [os.path.join(self.folder, "out.%d" % rank) for rank in range(2)]
            while not all("ddp" in "".join(torch_check.read_lines(path)) for path in outputs):
                time.sleep(0.01)
            wait_for_all(processes, 0)

        begin = time.monotonic()
        rows = self.run_fakes(*["start=pass ddp=begin hang"] * 2, wait=expire_once_all_wait)
        self.assertLess(time.monotonic() - begin, 50)
        self.assertEqual(rows["ddp"]["note"], "rank 0: was ended here")

    def test_a_rank_that_does_not_start(self):
        rows = self.run_fakes("exit1", "start=begin exit9")
        self.assertEqual(rows["start"]["outcome"], "FAIL")
        self.assertEqual(rows["start"]["printed"], ["the reason"])

    def test_nothing_to_check(self):
        self.assertEqual(self.run_fakes(*["start=- exit3"] * 2)["start"]["outcome"], "-")

    def test_no_pytorch(self):
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run([sys.executable, "-I", "-S", PROGRAM], capture_output=True,
                                    text=True, cwd=folder)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("has no PyTorch", result.stderr)

    def test_wrong_words(self):
        for words in (["--only", "dpp"], ["--ranks", "0"], ["--library", "/etc/passwd"]):
            result = subprocess.run([sys.executable, PROGRAM, *words], capture_output=True,
                                    text=True)
            self.assertEqual(result.returncode, 2)
            self.assertIn(words[0], result.stderr)

    def test_a_refused_capture_is_found_behind_the_error_that_it_causes(self):
        try:
            try:
                raise ValueError("this call " + torch_check.CAPTURE_REFUSED)
            finally:
                raise OSError("the capture is over")
        except OSError as error:
            found = list(torch_check.all_texts(error))
        self.assertEqual(len(found), 2)
        self.assertIn(torch_check.CAPTURE_REFUSED, found[1])

    def test_which_library_is_called(self):
        self.assertRegex(torch_check.library_of("getpid"), r"/libc[.-].*so")
        self.assertIsNone(torch_check.library_of("ncclGetVersion"))

    def test_the_library_says_that(self):
        folder = os.path.join(SOURCE, "libcoll", "device", "cuda")
        for name in ("end_engine.c", "copy_launch.c"):
            with open(os.path.join(folder, name)) as file:
                self.assertIn(torch_check.CAPTURE_REFUSED, file.read())


class Gloo(unittest.TestCase):
    def setUp(self):
        if "COLL_TEST_FULL" not in os.environ:
            self.skipTest("a soak runs it: PyTorch takes its time to start")
        if not has_torch():
            self.skipTest("%s has no PyTorch with gloo" % PYTHON)

    def test_all_checks_pass(self):
        result = subprocess.run([PYTHON, PROGRAM, "--device", "cpu", "--ranks", "3", "--json",
                                 "--seconds", "200"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        rows = {row["check"]: row["outcome"] for row in map(json.loads,
                                                            result.stdout.splitlines())}
        self.assertEqual(rows, {name: "-" if name in ("library", "capture") else "pass"
                                for name in torch_check.CHECKS})

    def test_wrong_results_are_found(self):
        """All breaks at once: a check that fails keeps none from those behind it."""
        options = argparse.Namespace(ranks=2, device="cpu", library=None, only=list(BREAKS))
        text = BROKEN % ("\n".join(BREAKS.values()), PROGRAM)
        with tempfile.TemporaryDirectory() as folder:
            commands = [[PYTHON, "-c", text, *torch_check.rank_command(
                options, rank, os.path.join(folder, "store"))[2:]] for rank in range(2)]
            rows = torch_check.run_ranks(commands, torch_check.rank_environment(options), BREAKS,
                                         200, folder)
        self.assertEqual({row["check"]: row["outcome"] for row in rows},
                         dict.fromkeys(BREAKS, "FAIL"), rows)


tap.run()

"""tools/tally.py, which tools/test prints its results with: counts of cases, and why they were
skipped. Prints TAP.

    test_tally.py SOURCES
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SOURCES = sys.argv[1]
del sys.argv[1]
sys.path.insert(0, os.path.join(SOURCES, "tests", "bench"))
import tap  # noqa: E402


def run_tally(*arguments):
    """What is printed, and the exit code."""
    script = os.path.join(SOURCES, "tools", "tally.py")
    done = subprocess.run([sys.executable, script, *arguments],
                          capture_output=True, text=True, check=False)
    return done.stdout, done.returncode


def write_log(file, result, output, errors=""):
    json.dump({"name": "libcoll:logic / a test", "result": result, "stdout": output,
               "stderr": errors, "duration": 1.0}, file)
    file.flush()
    return file.name


def tally(result, output, errors=""):
    """What is printed about one program, and the exit code."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
        return run_tally(write_log(log, result, output, errors))


def tally_again(first, second):
    """The same of a program whose first run failed."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as log, \
            tempfile.NamedTemporaryFile("w", suffix=".json") as again:
        return run_tally("--again", write_log(again, *second), write_log(log, *first))


class Tally(unittest.TestCase):
    def test_cases(self):
        text, code = tally("OK", "1..2\nok 1 - a\nok 2 - b\n")
        self.assertIn("\n2 passed, 0 failed\n", text)
        self.assertNotIn("|", text)
        self.assertEqual(code, 0)

    def test_failed_cases(self):
        text, code = tally("FAIL", "1..3\nok 1 - a\nnot ok 2 - b\n# err: why\n")
        self.assertIn("1 passed, 2 failed", text)  # the third did not run
        self.assertIn("| # err: why", text)
        self.assertEqual(code, 1)

    def test_skipped_program(self):
        text, code = tally("SKIP", "1..0 # SKIP there is no srun (Debian: slurm-client)\n")
        self.assertIn("| skipped: there is no srun (Debian: slurm-client)", text)
        self.assertIn("0 passed, 0 failed, 1 skipped", text)
        self.assertEqual(code, 0)

    def test_skipped_cases(self):
        text, code = tally("OK", "1..4\nok 1 - a\nok 2 - b # SKIP no root\n"
                                 "ok 3 - c # SKIP no root\nok 4 - d # SKIP\n")
        self.assertIn("| 2 skipped: no root\n", text)
        self.assertIn("| skipped: no reason is given\n", text)
        self.assertIn("1 passed, 0 failed, 3 skipped", text)
        self.assertEqual(code, 0)

    def test_skipped_cases_of_criterion(self):
        summary = ("[====] Synthesis: Tested: 2 | Passing: 2 | Failing: 0 | Crashing: 0 \n")
        text, code = tally("OK", "TAP version 13\n1..3\n# Criterion v2.4.1\nok - a::b  (0.00s)\n"
                           "ok - a::c  (0.00s)\nok - a::d  # SKIP no device\n", summary)
        self.assertIn("| skipped: no device\n", text)
        self.assertIn("2 passed, 0 failed, 1 skipped", text)
        self.assertEqual(code, 0)

    def test_cases_that_a_filter_leaves_out(self):
        text, code = tally("OK", "TAP version 13\n1..2\nok - a::b  (0.00s)\n"
                           "ok - a::c  # SKIP test was skipped\n")
        self.assertIn("\n1 passed, 0 failed\n", text)
        self.assertEqual(code, 0)

    def test_figures(self):
        text, _ = tally("OK", "1..1\n# figure: bandwidth 3 of 4 GB/s\nok 1 - a\n")
        self.assertIn("| figure: bandwidth 3 of 4 GB/s\n", text)

    def test_names_of_failed_programs(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
            text, code = run_tally("--failed", write_log(log, "FAIL", "1..1\nnot ok 1 - a\n"))
        self.assertEqual((text, code), ("a test\n", 0))

    def test_a_failure_that_does_not_repeat(self):
        text, code = tally_again(("FAIL", "1..1\nnot ok 1 - a\n# late\n"),
                                 ("OK", "1..1\nok 1 - a\n"))
        self.assertIn("flaky: failed at first", text)
        self.assertIn("| # late", text)
        self.assertIn("1 passed, 0 failed, 1 flaky\n", text)
        self.assertEqual(code, 0)

    def test_a_failure_that_repeats(self):
        failure = ("FAIL", "1..1\nnot ok 1 - a\n")
        text, code = tally_again(failure, failure)
        self.assertIn("0 passed, 1 failed\n", text)
        self.assertEqual(code, 1)


if __name__ == "__main__":
    tap.run()

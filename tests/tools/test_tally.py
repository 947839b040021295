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


def tally(result, output):
    """What is printed about one program, and the exit code."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
        json.dump({"name": "libcoll / a test", "result": result, "stdout": output,
                   "duration": 1.0}, log)
        log.flush()
        script = os.path.join(SOURCES, "tools", "tally.py")
        done = subprocess.run([sys.executable, script, log.name],
                              capture_output=True, text=True, check=False)
    return done.stdout, done.returncode


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


if __name__ == "__main__":
    tap.run()

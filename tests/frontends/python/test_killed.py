"""A killed rank under the package coll: the others are told who it was. Prints TAP.

    test_killed.py SOURCES BUILD-FOLDER [clock]; with `clock`, they must be told in time
"""
import os
import sys
import unittest

SOURCES, BUILD, HAS_CLOCK = sys.argv[1], sys.argv[2], "clock" in sys.argv[3:]
del sys.argv[1:]
sys.path[:0] = [os.path.join(SOURCES, "tests", room) for room in ("bench", "frontends")]
sys.dont_write_bytecode = True
import deaths  # noqa: E402
import programs  # noqa: E402
import tap  # noqa: E402

run = programs.Programs(BUILD).run
sys.path.insert(0, programs.Programs(BUILD).package)


class Killed(unittest.TestCase):
    """Each way of ranks/killed.py."""

    def ends(self, way, code):
        done = run(3, "killed.py", way)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(deaths.check(self, done.stdout, HAS_CLOCK), 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("checked"), 2, done.stdout)

    def test_in_a_call(self):
        self.ends("call", 128 + 9)

    def test_in_a_large_call(self):
        self.ends("large", 128 + 9)

    def test_on_a_stream(self):
        self.ends("stream", 128 + 9)

    def test_in_a_group(self):
        self.ends("group", 128 + 9)

    def test_in_a_split(self):
        self.ends("split", 128 + 9)

    def test_in_a_receive(self):
        self.ends("receive", 128 + 9)

    def test_between_calls(self):
        self.ends("between", 128 + 9)

    def test_by_an_exception_that_nobody_catches(self):
        self.ends("exception", 1)

    def test_by_an_exception_in_a_block(self):
        self.ends("block", 0)


if __name__ == "__main__":
    programs.skip_without("numpy", "coll")
    tap.run()

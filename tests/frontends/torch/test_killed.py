"""A killed rank under the front end for PyTorch: the others are told who it was. Prints TAP.

    test_killed.py PACKAGE [clock], where PACKAGE is the folder that has coll_torch; with `clock`,
    they must be told in time
"""
import os
import signal
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE, HAS_CLOCK = os.path.abspath(sys.argv[1]), "clock" in sys.argv[2:]
del sys.argv[1:]
sys.path[:0] = [PACKAGE, os.path.join(HERE, "..", "..", "bench")]
sys.dont_write_bytecode = True
import ranks  # noqa: E402
import deaths  # noqa: E402
import killed  # noqa: E402
import tap  # noqa: E402


class Killed(unittest.TestCase):
    """Each way of killed.py."""

    def named(self, way):
        codes, name = [0, -signal.SIGKILL, 0], "rank 1"
        if way == "any_source":  # the last rank that could send is the one
            codes, name = [0, -signal.SIGKILL, -signal.SIGKILL], "any rank"
        results = ranks.run(3, "killed", way)
        self.assertEqual(results.codes, codes, results)
        for rank, output in enumerate(results.outputs):
            count = deaths.check(self, output, HAS_CLOCK, name)
            self.assertEqual(count > 0, codes[rank] == 0, results)


for each in killed.WAYS:
    setattr(Killed, f"test_{each}", lambda self, way=each: self.named(way))

if __name__ == "__main__":
    tap.run()

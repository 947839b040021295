"""Tests of bench/paced: the rule of a cell, the topologies, and the order of two algorithms over
paced links. Prints TAP.

    test_paced.py BENCH-FOLDER BUILD-FOLDER

"""
import os
import subprocess
import sys
import tempfile
import unittest

import tap

sys.path.insert(0, sys.argv.pop(1))
BUILD = sys.argv.pop(1)
from comparison.commands import paced as table  # noqa: E402
from comparison.contenders import algorithms, topologies  # noqa: E402


def cell(chosen, **times):
    """times: ring=[us of each launch]; [] if it was slow in one call."""
    return {"topology": "torus", "ranks": 16, "collective": "allreduce", "bytes": 1024,
            "chosen": chosen,
            "algorithms": {name: {"predicted_us": 900, "once_us": 2000, "paced_us": paced_us,
                                  "unpaced_us": [30, 90]} for name, paced_us in times.items()}}


class Rule(unittest.TestCase):
    def test_the_fastest_is_right(self):
        judged = table.judge(cell("ring", ring=[1000], tree=[1200], line=[]))
        self.assertEqual((judged.fastest, judged.ratio, judged.ok), ("ring", 1, True))

    def test_within_ten_percent_is_right(self):
        self.assertTrue(table.judge(cell("ring", ring=[1090], tree=[1000])).ok)
        self.assertFalse(table.judge(cell("ring", ring=[1110], tree=[1000])).ok)

    def test_a_disturbed_launch_does_not_count(self):
        judged = table.judge(cell("ring", ring=[5000, 1000], tree=[1200]))
        self.assertEqual(judged.chosen_us, 1000)

    def test_share_without_pacing(self):
        self.assertAlmostEqual(table.judge(cell("ring", ring=[1000], tree=[600])).unpaced, 0.05)
        self.assertFalse(table.is_right([cell("ring", ring=[500])]))

    def test_nine_of_ten(self):
        right, wrong = cell("ring", ring=[1000]), cell("ring", ring=[2000], tree=[1000])
        self.assertTrue(table.is_right([right] * 9 + [wrong]))
        self.assertFalse(table.is_right([right] * 8 + [wrong]))


class Links(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.files = topologies.write_all(self.folder.name, topologies.ALL)

    def test_topologies(self):
        for path in self.files.values():
            subprocess.run([os.path.join(BUILD, "tools", "colltopo"), "check", path], check=True,
                           stdout=subprocess.DEVNULL)

    def test_links_are_slow(self):
        for make, _ in topologies.ALL.values():
            for link in make().links:
                self.assertLess(link["gigabytes_per_s"], 0.2)
                self.assertGreater(link["latency_us"], 200)

    def test_order_of_two_algorithms(self):
        """Doubling has fewer steps, the two-way ring moves less over the busiest link."""
        pair = algorithms.Pair(BUILD, ("torus", self.files["torus"], 16), "allgather",
                            [1024, 65536], 3)
        for found in pair.cells():
            size, names = found["bytes"], ["doubling", "biring"]
            times = pair.time(names, [size], 3)
            predicted = min(names, key=lambda name: found["algorithms"][name]["predicted_us"])
            self.assertEqual(predicted, "doubling" if size == 1024 else "biring")
            tap.figure("%d bytes, %s is predicted: %s" % (size, predicted, times))


if __name__ == "__main__":
    tap.run()

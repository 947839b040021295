"""Tests of the table of bench/rdma-compare. Prints TAP.

    test_rdma_compare.py BENCH-FOLDER

"""
import sys
import unittest

import tap

sys.path.insert(0, sys.argv.pop(1))
from comparison.commands import rdma_compare as table  # noqa: E402

PRINTED = """1 perftest write 1048576 9e6
1 perftest send 1048576 8e6
1 libcoll broadcast 1048576 8.1e6
2 perftest write 1048576 inf
2 perftest send 1048576 5e6
2 libcoll broadcast 1048576 6e6
3 perftest write 1048576 8e6
3 perftest send 1048576 10e6
3 libcoll broadcast 1048576 7e6
1 perftest latency 8 2500
1 libcoll latency 8 2100
"""


class Table(unittest.TestCase):
    def setUp(self):
        self.bandwidth, self.latency = table.rows_of(PRINTED)

    def test_a_failed_measurement_has_no_value(self):
        self.assertEqual(self.bandwidth["values"]["perftest write"], [9e6, None, 8e6])
        self.assertEqual(table.median_of(self.bandwidth, "perftest write"), 8.5e6)

    def test_the_share_is_of_the_better_program_of_each_round(self):
        self.assertAlmostEqual(table.share(self.bandwidth), 0.9)  # of 0.9, 1.2 and 0.7
        self.assertEqual(table.verdict(self.bandwidth), "ok")

    def test_a_lower_share_misses_the_target(self):
        self.bandwidth["values"]["libcoll broadcast"] = [8e6, 4e6, 7e6]
        self.assertEqual(table.verdict(self.bandwidth), "missed")

    def test_a_row_without_perftest_is_not_measured(self):
        rows = table.rows_of("1 libcoll broadcast 4194304 8e6")
        self.assertEqual(table.verdict(rows[0]), "not measured")

    def test_other_lines_are_refused(self):
        with self.assertRaises(ValueError):
            table.rows_of("Couldn't listen to port 18515")

    def test_all_rows_are_shown(self):
        shown = table.text_of({
            "rows": [self.bandwidth, self.latency], "began": "now", "load": {"before": 0},
            "machine": {"processor": "P", "cores": 2, "caches": {}}, "settings": {"rounds": 3}})
        self.assertIn("8.50", shown)
        self.assertIn("2500.00", shown)


if __name__ == "__main__":
    tap.run()

"""Tests of bench/mpi-layer: the rows that collbench measures for it, and its verdicts. Prints TAP.

    test_mpi_layer.py BENCH-FOLDER

"""
import sys
import unittest

import tap

BENCH = sys.argv.pop(1)
sys.path.insert(0, BENCH)
from comparison import table  # noqa: E402
from comparison.commands import mpi_layer as report  # noqa: E402
from comparison.contenders import collbench, mpis  # noqa: E402


def row(verb="allreduce", size=65536, new=10.0, own=10.0, rounds=7):
    return {"mpi": "openmpi", "verb": verb, "bytes": size, "way": "libcoll", "times_us": {
        "old": [20.0] * rounds, "new": [new] * rounds, "copy": [20.0] * rounds,
        "collbench": [own] * rounds}}


def document(rows):
    return {"rows": rows}


class Rows(unittest.TestCase):
    def test_collbench_is_asked_for_the_blocking_verbs(self):
        commands = collbench.commands_for("build", 3, ["bcast", "ibcast", "gatherv"], [8, 64], 10)
        self.assertEqual([(asked, blocks) for _, asked, blocks in commands],
                         [({"bcast": "broadcast"}, 1), ({"gatherv": "gather"}, 3)])
        sizes = [command[command.index("--sizes") + 1] for command, _, _ in commands]
        self.assertEqual(sizes, ["8,64", "24,192"])

    def test_one_row_of_collbench_is_that_of_several_verbs(self):
        rows = [{"collective": "reduce_scatter", "bytes": 64, "out_of_place": {"time_us": 1.5}},
                {"collective": "barrier", "bytes": 0, "out_of_place": {"time_us": 0.5}}]
        self.assertEqual(collbench.times_of(rows, {name: collbench.WHOLE[name] for name in (
            "reduce_scatter", "reduce_scatter_block", "barrier")}, 1),
            {("reduce_scatter", 64): 1.5, ("reduce_scatter_block", 64): 1.5, ("barrier", 0): 0.5})

    def test_bytes_are_those_of_a_block(self):
        rows = [{"collective": "gather", "bytes": 24, "out_of_place": {"time_us": 2.0}}]
        self.assertEqual(collbench.times_of(rows, {"gatherv": "gather"}, 3), {("gatherv", 8): 2.0})


class Names(unittest.TestCase):
    def test_a_folder_has_another_name_than_the_mpi_of_debian(self):
        self.assertEqual(mpis.name_of("/build-mpis/openmpi", "Open MPI 5.0.11"), "openmpi-5")
        self.assertEqual(mpis.name_of("/build-mpis/intelmpi", "Intel MPI 2021.18.1"), "intelmpi")


class Verdicts(unittest.TestCase):
    def judged(self, rows):
        found = report.judge_all(document(rows))
        return [each["verb"] for each in report.behind(found)], report.summary_line(found)

    def test_as_fast_within_ten_percent(self):
        behind, summary = self.judged([row(new=10.9)])
        self.assertEqual(behind, [])
        self.assertIn("PASS", summary)
        self.assertIn("of 1 blocking ones of 32 KiB or more, 0 are behind", summary)

    def test_behind_beyond_them(self):
        behind, summary = self.judged([row(new=11.1)])
        self.assertEqual(behind, ["allreduce"])
        self.assertIn("FAIL", summary)
        self.assertIn("0 are slower", summary)

    def test_rows_with_a_root_may_take_a_quarter_longer(self):
        rows = [row(verb="bcast", new=12.4), row(verb="reduce", new=12.6)]
        self.assertEqual(self.judged(rows)[0], ["reduce"])

    def test_no_verdict_of_small_rows_and_irregular_verbs(self):
        behind, summary = self.judged([row(size=4096, new=15.0), row(verb="gatherv", new=15.0)])
        self.assertEqual(behind, [])
        self.assertIn("PASS", summary)

    def test_no_verdict_of_few_rounds_or_without_collbench(self):
        few = row(new=15.0, rounds=3)
        former = row(new=15.0)
        del former["times_us"]["collbench"]
        self.assertEqual(self.judged([few, former])[0], [])

    def test_an_interval_that_reaches_below_is_not_behind(self):
        unsure = row(new=15.0)
        unsure["times_us"]["new"][:2] = [10.0, 10.0]
        self.assertEqual(self.judged([unsure])[0], [])

    def test_the_table_shows_it(self):
        lines = list(table.lines(report.columns(), report.judge_all(document([row(new=15.0)]))))
        self.assertIn("with / collbench", lines[0])
        self.assertRegex(lines[-1], r"allreduce +64K +20.0 +15.0 +10.0 .* 1\.500 .*BEHIND$")


if __name__ == "__main__":
    tap.run()

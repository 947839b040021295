"""bench/ab: its statistics, its rule, the names of rows, and what it shows of results. Prints TAP.

    test_ab_results.py BENCH-FOLDER
"""
import random
import sys
import unittest
import xml.etree.ElementTree

import tap

sys.path.insert(0, sys.argv.pop(1))
from comparison import judgement as verdict, launch, rounds, rows, table  # noqa: E402
from comparison.commands import ab  # noqa: E402
from comparison.contenders import sides  # noqa: E402
from comparison.plots import speeds  # noqa: E402


def times(old=1.0, new=1.0, copy=1.0, spread=0.01, count=20):
    """Every side's times around the one given, in an order that differs from side to side."""
    values = [1 + spread * (2 * i / (count - 1) - 1) for i in range(count)]
    made = {}
    for seed, (side, middle) in enumerate((("old", old), ("new", new), ("copy", copy))):
        shuffled = random.Random(seed).sample(values, count)
        made[side] = [middle * value for value in shuffled]
    return made


def row(name="allreduce/2/coll/4K", **sides):
    collective, ranks, memory, _ = name.split("/")
    return {"name": name, "collective": collective, "ranks": int(ranks), "memory": memory,
            "bytes": 4096, "times_us": times(**sides),
            "algorithms": {"old": ["ring"], "new": ["ring"], "copy": ["ring"]}}


def verdict_of(reason=None, **sides):
    return verdict.judge(times(**sides), reason).verdict


class Statistics(unittest.TestCase):
    def test_interval_of_known_samples(self):
        # Tables of the sign test: the k-th value from either end, n: k.
        for count, rank in ((6, 1), (8, 1), (9, 2), (12, 3), (20, 6), (25, 8), (50, 18),
                            (100, 40)):
            values = list(range(1, count + 1))
            random.Random(count).shuffle(values)
            self.assertEqual(rounds.interval(values), (rank, count + 1 - rank), count)

    def test_no_interval_of_five(self):
        for count in range(rounds.ROUNDS_MIN):
            self.assertIsNone(rounds.interval([1.0] * count))

    def test_it_holds_the_median_19_times_in_20(self):
        generator = random.Random(7)
        for count in (6, 9, 20):
            held = 0
            for _ in range(2000):
                low, high = rounds.interval([generator.expovariate(1) for _ in range(count)])
                held += low <= 0.6931 <= high
            self.assertGreater(held, 0.94 * 2000, count)

    def test_ratios_are_of_the_same_round(self):
        # The machine is three times as slow in every other round; NEW is always 10 % slower.
        old = [1, 3] * 6
        judgement = verdict.judge({"old": old, "new": [1.1 * us for us in old], "copy": old})
        self.assertEqual(judgement.same, (1, 1, 1))
        for value in judgement.speed:
            self.assertAlmostEqual(value, 1 / 1.1)
        self.assertEqual(judgement.verdict, verdict.LOST)

    def test_rows_taken_together(self):
        # One row is 20 % slower, the other as fast; the first round was slow for all of OLD.
        one = {"old": [3, 1, 1, 1, 1, 1], "new": [1.25] * 6, "copy": [1] * 6}
        two = {"old": [3, 1, 1, 1, 1, 1, 1], "new": [1] * 7, "copy": [1] * 7}
        new, same = verdict.speeds_together([one, two])
        self.assertAlmostEqual(new.median, 0.8 ** 0.5)
        self.assertAlmostEqual(new.low, 0.8 ** 0.5)
        self.assertAlmostEqual(same.high, 3)
        self.assertEqual(verdict.speeds_together([]), (None, None))

    def test_nothing_of_a_row_that_was_not_measured(self):
        self.assertIsNone(verdict.judge({"old": [], "new": [], "copy": []}))


class Rule(unittest.TestCase):
    def test_slower_has_lost_and_faster_has_gained(self):
        self.assertEqual(verdict_of(new=1.1), verdict.LOST)
        self.assertEqual(verdict_of(new=0.9), verdict.GAINED)
        self.assertEqual(verdict_of(new=1.0), verdict.EVEN)

    def test_the_whole_interval_must_lie_below(self):
        self.assertEqual(verdict_of(new=1.04, spread=0.001), verdict.LOST)
        self.assertEqual(verdict_of(new=1.025, spread=0.001), verdict.EVEN)
        self.assertEqual(verdict_of(new=1.04, spread=0.1), verdict.EVEN)

    def test_what_the_copy_does_too_is_no_loss(self):
        self.assertEqual(verdict_of(new=1.1, copy=1.1), verdict.EVEN)
        self.assertEqual(verdict_of(new=1.1, copy=1.05), verdict.LOST)
        self.assertEqual(verdict_of(new=0.9, copy=0.9), verdict.EVEN)

    def test_short_rows_may_take_five_ns_more(self):
        self.assertEqual(verdict_of(old=0.05, new=0.0545, copy=0.05), verdict.EVEN)
        self.assertEqual(verdict_of(old=0.05, new=0.056, copy=0.05), verdict.LOST)
        self.assertEqual(verdict_of(old=0.05, new=0.056, copy=0.056), verdict.EVEN)
        self.assertEqual(verdict_of(old=0.05, new=0.044, copy=0.05), verdict.GAINED)
        # The same 4 ns are 4 % of a row that is not short.
        self.assertEqual(verdict_of(old=0.101, new=0.1055, copy=0.101, spread=0.001), verdict.LOST)

    def test_too_few_rounds_for_a_verdict(self):
        self.assertEqual(verdict_of(new=2, count=5), verdict.UNKNOWN)
        self.assertEqual(verdict_of(new=2, count=6), verdict.LOST)

    def test_a_reason_accepts_up_to_ten_percent(self):
        self.assertEqual(verdict_of("simpler", new=1.08), verdict.ACCEPTED)
        self.assertEqual(verdict_of("simpler", new=1.2), verdict.LOST)
        self.assertEqual(verdict_of("simpler", new=1.0), verdict.EVEN)

    def summary(self, lost, even, accepted=0):
        slower = verdict.judge(times(new=1.08))
        excused = verdict.judge(times(new=1.08), "simpler")
        return verdict.summarize([slower] * lost + [verdict.judge(times())] * even
                                 + [excused] * accepted + [None])

    def test_two_rows_in_a_hundred_may_lose(self):
        for lost, even, passes in ((0, 1, True), (1, 48, False), (1, 49, True), (2, 98, True),
                                   (3, 97, False), (3, 147, True)):
            self.assertIs(verdict.passes(self.summary(lost, even)), passes, (lost, even))

    def test_accepted_rows_do_not_count(self):
        summary = self.summary(0, 10, accepted=5)
        self.assertEqual((summary.judged, summary.lost, summary.accepted), (15, 0, 5))
        self.assertTrue(verdict.passes(summary))

    def test_counts_of_what_is_uncertain(self):
        found = [verdict.judge(times(new=1.0, spread=0.1)), verdict.judge(times(copy=1.1)),
                 verdict.judge(times(count=3))]
        summary = verdict.summarize(found)
        self.assertEqual((summary.judged, summary.unsure, summary.disturbed, summary.unknown),
                         (2, 1, 1, 1))


class Names(unittest.TestCase):
    UNITS = rows.units_of(["allreduce", "allgather", "barrier"], [2, 4], ["coll", "malloc"],
                          [4, 8, 4096, 1 << 20])

    def test_of_rows(self):
        names = rows.names_of(self.UNITS)
        self.assertEqual(names[:4], ["allreduce/2/coll/4", "allreduce/2/coll/8",
                                     "allreduce/2/coll/4K", "allreduce/2/coll/1M"])
        # An allgather among 4 has 16 bytes at least, so 4 and 8 are the same row.
        self.assertEqual([name for name in names if name.startswith("allgather/4/malloc")],
                         ["allgather/4/malloc/16", "allgather/4/malloc/4K",
                          "allgather/4/malloc/1M"])
        self.assertEqual(names[-2:], ["barrier/2", "barrier/4"])
        self.assertEqual(len(set(names)), len(names))

    def selected(self, *patterns):
        return rows.names_of(rows.select(self.UNITS, patterns))

    def test_patterns(self):
        self.assertEqual(self.selected("allreduce/2/coll/4"), ["allreduce/2/coll/4"])
        self.assertEqual(self.selected("barrier"), ["barrier/2", "barrier/4"])
        self.assertEqual(self.selected("*/4/coll/1M", "barrier/2"),
                         ["allreduce/4/coll/1M", "allgather/4/coll/1M", "barrier/2"])
        self.assertEqual(self.selected(), rows.names_of(self.UNITS))
        with self.assertRaisesRegex(ValueError, "'allredcue' is no row"):
            self.selected("barrier", "allredcue")

    def test_reasons(self):
        accepted = [("allreduce/2", "simpler"), ("*/malloc/*", "later")]
        self.assertEqual(rows.reason_for("allreduce/2/malloc/4", accepted), "simpler")
        self.assertEqual(rows.reason_for("allreduce/4/malloc/4", accepted), "later")
        self.assertIsNone(rows.reason_for("allreduce/4/coll/4", accepted))

    def test_results_must_be_what_was_asked_for(self):
        def outcome(time_us, wrong=0):
            return {"out_of_place": {"time_us": time_us, "wrong": wrong, "algo": "ring"},
                    "in_place": None}
        unit = rows.Unit("allreduce", 2, "coll", (4, 8))
        good = {"rows": [outcome(1.5), outcome(2)]}
        self.assertEqual(sides.read_outcomes(good, unit), {4: (1.5, "ring"), 8: (2, "ring")})
        for bad in ([outcome(1)], [outcome(1), outcome(1, wrong=3)], [outcome(1), outcome(0)],
                    [outcome(1), {"out_of_place": None, "in_place": None}]):
            with self.assertRaises(launch.Failure):
                sides.read_outcomes({"rows": bad}, unit)


class Shown(unittest.TestCase):
    @staticmethod
    def found(*listed):
        return [(one, verdict.judge(one["times_us"], reason), reason) for one, reason in listed]

    def test_table(self):
        slow = row("allreduce/2/coll/8K", old=20, new=21.6, copy=20)
        slow["algorithms"]["new"] = ["tree"]
        unmeasured = row("allreduce/2/coll/1M", count=2)
        unmeasured["times_us"] = {side: [] for side in sides.SIDES}
        found = self.found((row(), None), (slow, "simpler"), (unmeasured, None),
                           (row("sendrecv/4/malloc/16", old=0.05, new=0.06, copy=0.05), None))
        lines = list(table.lines(ab.columns(), found))
        self.assertRegex(lines[3], r"^allreduce/2/coll/4K +1\.00 +1\.00 +[01]\.\d{3} .* 20$")
        self.assertRegex(lines[4], r"20\.0 +21\.6 +0\.9\d\d .* accepted  simpler; ring -> tree$")
        self.assertRegex(lines[5], r"not measured$")
        self.assertRegex(lines[6], r"LOST +\+1\d\.\d \(\+\d.* to \+1.*\) ns, A/A [+-]0\.\d")
        summary = verdict.summarize([judgement for _, judgement, _ in found])
        self.assertIn("FAIL: 1 of 3 rows lost, 0 may; 1 accepted, 0 gained",
                      "\n".join(ab.summary_lines(found, summary)))

    def test_plot_is_xml_with_every_row(self):
        names = ["allreduce/2/coll/4K", "allreduce/2/malloc/4K", "alltoall/4/malloc/8"]
        found = [(one, verdict.judge(one["times_us"])) for one in map(row, names)]
        barrier = dict(row("barrier/2/x/x", new=9), memory=None, bytes=0)
        found += [(barrier, verdict.judge(barrier["times_us"])), (row("reduce/2/coll/4"), None)]
        document = xml.etree.ElementTree.fromstring(speeds.draw(found, ["a < b", ""], ab.LABELS))
        space = "{http://www.w3.org/2000/svg}"
        titles = [element.text for element in document.iter(space + "title")]
        self.assertEqual(len(titles), 4)
        words = [element.text for element in document.iter(space + "text")]
        for name in ("allreduce/2/coll", "alltoall/4/malloc", "barrier/2", "a < b", "4K"):
            self.assertIn(name, words)


if __name__ == "__main__":
    tap.run()

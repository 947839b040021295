"""Tests of bench/compare: medians, best settings, ratios, limits, verdicts, table and plot. Prints
TAP.

    test_comparison.py BENCH-FOLDER

"""
import sys
import unittest
import xml.etree.ElementTree

import tap

sys.path.insert(0, sys.argv.pop(1))
from comparison import core_latency, figures, launch, progress, sizes, survey, table  # noqa: E402
from comparison import peer_table  # noqa: E402
from comparison.commands import compare  # noqa: E402
from comparison.contenders import collectives  # noqa: E402
from comparison.plots import times  # noqa: E402


def row(collective="allreduce", size=1 << 20, ranks=2, limit=True, **times):
    """times: coll=[...], openmpi_copy=[...] for "openmpi/copy"."""
    made = {"ranks": ranks, "collective": collective, "bytes": size, "limit": {},
            "times_us": {name.replace("_", "/", 1): list(us) for name, us in times.items()}}
    if limit:
        made["limit"] = {"mapped_us": [50, 40, 60], "staged_us": [66], "barrier_us": [0.1, 5, 0.1],
                         "round_trip_us": [0.3], "one_way_us": [0.01]}
    return made


class Times(unittest.TestCase):
    def test_median_over_rounds(self):
        measured = row(coll=[5, 1, 100], malloc=[2, 4])
        self.assertEqual(figures.time_us(measured, "coll"), 5)
        self.assertEqual(figures.time_us(measured, "malloc"), 3)
        self.assertIsNone(figures.time_us(measured, "gloo/default"))

    def test_each_peer_at_its_best_setting(self):
        measured = row(coll=[1], openmpi_copy=[30, 10, 20], openmpi_ucx=[19, 19, 500],
                       mpich_default=[25])
        self.assertEqual(figures.best_settings(measured),
                         {"openmpi": (19, "openmpi/ucx"), "mpich": (25, "mpich/default")})
        self.assertEqual(figures.best_peer(measured), (19, "openmpi/ucx"))
        self.assertEqual(figures.best_peer_us(measured), 19)
        self.assertIsNone(figures.best_peer(row(coll=[1])))

    def test_ratio(self):
        measured = row(coll=[2], malloc=[4], mpich_default=[30], openmpi_default=[20])
        self.assertEqual(figures.ratio(measured, "coll"), 10)
        self.assertEqual(figures.ratio(measured, "malloc"), 5)
        self.assertIsNone(figures.ratio(row(coll=[2]), "coll"))
        self.assertIsNone(figures.ratio(row(mpich_default=[2]), "coll"))

    def test_ratio_of_times_of_the_same_round(self):
        # The machine was slow in rounds two and three, for libcoll in part of the time only.
        measured = row(coll=[2, 4, 4, 2, 2], openmpi_copy=[10, 20, 10, 10, 10],
                       openmpi_default=[9], mpich_default=[11, 16, 30, 30, 30])
        self.assertEqual(figures.ratio(measured, "coll"), 4.5)

    def test_no_ratio_without_a_common_round(self):
        self.assertIsNone(figures.ratio(row(coll=[], mpich_default=[2]), "coll"))


class Plain(unittest.TestCase):
    """Plain copies."""

    def test_mapped(self):
        self.assertAlmostEqual(figures.plain_us(row(), "coll"), 50.2)
        # With a root, two synchronizations are one round trip.
        self.assertAlmostEqual(figures.plain_us(row("broadcast"), "coll"), 50.3)

    def test_staged(self):
        self.assertAlmostEqual(figures.plain_us(row(), "malloc"), 66.1)
        # With a root, flags go in one direction.
        self.assertAlmostEqual(figures.plain_us(row("broadcast"), "malloc"), 66.01)

    def test_memory_that_can_be_mapped_may_be_staged(self):
        small = row(size=64)
        small["limit"].update(mapped_us=[0.01], staged_us=[0.02])
        self.assertAlmostEqual(figures.mapped_us(small), 0.21)
        self.assertAlmostEqual(figures.plain_us(small, "coll"), 0.12)

    def test_staged_copies_take_at_least_the_baseline_message(self):
        measured = row()
        measured["limit"]["crossing_us"] = [80, 300, 90]
        self.assertAlmostEqual(figures.plain_us(measured, "malloc"), 90)
        self.assertAlmostEqual(figures.plain_us(measured, "coll"), 50.2)

    def test_none_without_mapped_times(self):
        measured = row(coll=[1])
        del measured["limit"]["mapped_us"]
        self.assertIsNone(figures.plain_us(measured, "coll"))

    def test_best_peer_over_plain_copies(self):
        measured = row(coll=[100], malloc=[100], gloo_default=[502])
        self.assertAlmostEqual(figures.peer_over_plain(measured, "coll"), 10)
        self.assertIsNone(figures.peer_over_plain(row(coll=[1]), "coll"))
        self.assertIsNone(figures.peer_over_plain(row(limit=False, gloo_default=[1]), "coll"))

    def test_plain_copies_over_ours(self):
        measured = row(coll=[100.4], malloc=[66.1])
        self.assertAlmostEqual(figures.plain_over_ours(measured, "coll"), 0.5)
        self.assertAlmostEqual(figures.plain_over_ours(measured, "malloc"), 1)
        self.assertIsNone(figures.plain_over_ours(row(limit=False, coll=[1]), "coll"))


class Targets(unittest.TestCase):
    def wanted(self, *call, **options):
        target = figures.target_of(row(*call, **options))
        return target and (target.times["coll"], target.times["malloc"])

    def test_targets(self):
        self.assertEqual(self.wanted("allreduce", 4), (3, 3))
        self.assertEqual(self.wanted("allreduce", 1024), (3, 3))
        self.assertIsNone(self.wanted("allreduce", 2048))
        self.assertEqual(self.wanted("allreduce", 4096), (10, 4))
        self.assertEqual(self.wanted("allreduce", 64 << 20), (10, 4))
        self.assertIsNone(self.wanted("allreduce", 256 << 20))
        self.assertEqual(self.wanted("reduce", 64 << 10), (8, 4))
        self.assertIsNone(self.wanted("reduce", 16 << 10))
        self.assertEqual(self.wanted("scatter", 1 << 20), (2.5, 1.3))
        self.assertEqual(self.wanted("scatter", 8), (2, 2))
        self.assertEqual(self.wanted("allreduce", 4096, ranks=8), (3, 3))
        self.assertIsNone(self.wanted("allgather", 1 << 20, ranks=4))

    def test_verdicts(self):
        measured = row(size=4096, coll=[1], malloc=[2.6], gloo_default=[10])
        self.assertIs(figures.verdict(measured, "coll"), figures.PASS)
        self.assertIs(figures.verdict(measured, "malloc"), figures.BEYOND)
        del measured["limit"]
        self.assertIs(figures.verdict(measured, "malloc"), figures.FAIL)
        slow = row(size=1 << 20, coll=[60], malloc=[300], gloo_default=[600], limit=True)
        self.assertIs(figures.verdict(slow, "coll"), figures.PASS)
        self.assertIs(figures.verdict(slow, "malloc"), figures.FAIL)
        self.assertIsNone(figures.verdict(row("reduce", 4096, coll=[1], gloo_default=[9]), "coll"))

    def test_plain_verdicts(self):
        big = 16 << 20
        self.assertIs(figures.plain_verdict(row(size=big, coll=[62]), "coll"), figures.PASS)
        self.assertIs(figures.plain_verdict(row(size=big, coll=[63]), "coll"), figures.FAIL)
        self.assertIsNone(figures.plain_verdict(row(size=big, malloc=[63]), "malloc"))
        self.assertIsNone(figures.plain_verdict(row(size=1 << 20, coll=[63]), "coll"))

    def test_summary_names_the_worst(self):
        rows = [row(size=4096, coll=[1], mpich_default=[20], limit=False),
                row(size=65536, coll=[1], mpich_default=[7], limit=False)]
        summaries = figures.summarize(rows)
        self.assertEqual(len(summaries), 1)
        summary = summaries[0]
        self.assertEqual((summary.memory, summary.rows, summary.passed, summary.beyond,
                          summary.worst), ("coll", 2, 1, 0, 7))
        self.assertIs(summary.worst_row, rows[1])
        self.assertIs(figures.summary_verdict(summary), figures.FAIL)

    def test_summary_of_rows_beyond_the_machine(self):
        rows = [row(size=1 << 20, coll=[60], mpich_default=[600]),
                row(size=4 << 20, coll=[60], mpich_default=[499])]
        summary, = [s for s in figures.summarize(rows) if not s.over_plain]
        self.assertEqual((summary.passed, summary.beyond), (1, 1))
        self.assertIs(figures.summary_verdict(summary), figures.BEYOND)

    def test_collectives_with_a_target(self):
        self.assertEqual(figures.collectives_with_target(2), list(figures.COLLECTIVES))
        self.assertEqual(figures.collectives_with_target(8), ["allreduce"])
        self.assertEqual(figures.collectives_with_target(3), list(figures.COLLECTIVES))


class Merging(unittest.TestCase):
    def test_rows_measured_twice_appear_once_and_in_order(self):
        def taken(collective, size, when):
            return {"ranks": 2, "collective": collective, "bytes": size, "when": when}
        again = [taken("broadcast", 16, "again")]
        before = [taken("broadcast", 16, "before"), taken("broadcast", 4, "before"),
                  taken("allreduce", 16, "before"), {**taken("allreduce", 4, "before"), "ranks": 4}]
        self.assertEqual([(row["ranks"], row["collective"], row["bytes"], row["when"])
                          for row in figures.first_of_each(again + before)],
                         [(2, "allreduce", 16, "before"), (2, "broadcast", 4, "before"),
                          (2, "broadcast", 16, "again"), (4, "allreduce", 4, "before")])


class Texts(unittest.TestCase):
    def test_sizes(self):
        self.assertEqual(sizes.parse_sizes("4..1K"), [4, 16, 64, 256, 1024])
        self.assertEqual(sizes.parse_sizes("1M,4,1M"), [4, 1 << 20])
        for wrong in ("", "0", "8..4", "x", "4.."):
            with self.assertRaises(ValueError, msg=wrong):
                sizes.parse_sizes(wrong)

    def test_whole_elements_of_every_rank(self):
        self.assertEqual(sizes.size_for("allreduce", 2, 4), 4)
        self.assertEqual(sizes.size_for("allgather", 2, 4), 8)
        self.assertEqual(sizes.size_for("alltoall", 3, 1 << 20), 1048572)

    def test_figures_as_text(self):
        self.assertEqual([table.time_text(us) for us in (0.1234, 1.234, 12.34, 12345.6, None)],
                         ["0.123", "1.23", "12.3", "12346", "-"])
        self.assertEqual([sizes.size_text(n) for n in (4, 1024, 48 << 20)],
                         ["4 B", "1 KiB", "48 MiB"])
        self.assertEqual([times.decade_text(n) for n in (-2, 0, 2, 4, 6)],
                         ["10 ns", "1 µs", "100 µs", "10 ms", "1 s"])


class Measuring(unittest.TestCase):
    @staticmethod
    def survey(rounds=2, found=()):
        return compare.Survey(2, "allgather", [4, 4096], found, (rounds, 30),
                              core_latency.CoreLatency(lambda: 0.06, lambda _: None))

    def test_only_settings_near_the_best_run_again(self):
        names = ("coll", "mpich/default", "mpich/posix", "gloo/default", "openmpi/copy")
        made = self.survey(found=[collectives.Contender(name, [], "") for name in names])
        self.assertEqual(made.sizes, [8, 4096])
        for size, times in ((8, (9, 1, 1.1, 5, 2)), (4096, (9, 5, 9, 3, 4))):
            for name, time_us in zip(names, times):
                made.rows["allgather", size]["times_us"][name] = [time_us]
        made.drop_slow()
        self.assertEqual([c.name for c in made.running], list(names))
        made.rows["allgather", 8]["times_us"]["mpich/posix"] = [1.3]
        made.drop_slow()
        self.assertEqual([c.name for c in made.running],
                         ["coll", "mpich/default", "gloo/default", "openmpi/copy"])

    def test_estimate_grows_with_the_rounds(self):
        found = [collectives.Contender("mpich/%d" % i, [], "") for i in range(8)]
        found.append(collectives.Limit("build", 2))
        one, two = (self.survey(rounds, found).seconds() for rounds in (1, 2))
        self.assertAlmostEqual(one, 9 * self.survey(1, found).launch_seconds())
        self.assertTrue(1.5 * one < two < 2 * one)
        self.assertEqual(progress.clock_text(100.2), "1:40")

    def test_more_ranks_than_cores_share_them_evenly_or_are_unbound(self):
        self.assertEqual(collectives.placements(2, [0, 2, 4]), {"": "0,2"})
        self.assertEqual(collectives.placements(4, [0, 2]), {"": "0,0,2,2", "-any": "any"})
        self.assertEqual(collectives.placements(5, [0, 2]), {"": "any"})

    def test_wrong_or_missing_results_are_failures(self):
        key, other = ("allreduce", 4), ("allreduce", 16)
        self.assertEqual(survey.check({key: 1.5}, [key]), {key: 1.5})
        with self.assertRaisesRegex(launch.Failure, "4.* instead of .*4, 16"):
            survey.check({key: 1.5}, [key, other])
        peer = collectives.Contender("mpich/default", [], "peer")
        line = '{"collective":"allreduce","bytes":4,"wrong":2,"batch_us":[3]}\n'
        with self.assertRaisesRegex(launch.Failure, "2 wrong elements in allreduce of 4 bytes"):
            peer.run(lambda *_: line, ["allreduce"], [4], 30)

    def test_times_before_a_failure_are_used(self):
        def fail(*_):
            line = '{"collective":"allreduce","bytes":%d,"wrong":%d,"batch_us":[3]}\n'
            raise launch.Failure("no end", line % (4, 0) + line % (8, 1) + '{"bytes":16,')
        with self.assertRaises(launch.Failure) as caught:
            peer = collectives.Contender("mpich/default", [], "peer")
            peer.run(fail, ["allreduce"], [4, 8], 30)
        self.assertEqual(caught.exception.times, {("allreduce", 4): 3})
        found = [collectives.Contender("mpich/default", [], "peer")]
        made = self.survey(rounds=1, found=found)
        found[0].run = lambda *_: fail()
        shown = progress.Progress(1)
        shown.say = lambda _: None
        self.assertEqual(made.run(shown)[0]["times_us"], {})
        self.assertEqual(made.running, [])
        self.assertIn("no end", made.failures[0]["reason"])

    def test_a_peer_s_batches(self):
        peer = collectives.Contender("mpich/default", [], "peer")
        output = ('{"library":"M  Version:   5"}\nnoise\n'
                  '{"collective":"allreduce","bytes":4,"wrong":0,"batch_us":[9,1,2]}\n')
        self.assertEqual(peer.run(lambda *_: output, ["allreduce"], [4], 30),
                         {("allreduce", 4): 2})
        self.assertEqual(peer.library, "M 5")


class CoreLatencies(unittest.TestCase):
    """Cores with a varying latency: first the values of `ahead`, then always `later`."""

    def latency_of(self, ahead, later):
        self.ahead, self.slept = list(ahead), 0

        def sleep(seconds):
            self.slept += seconds
        return core_latency.CoreLatency(lambda: self.ahead.pop(0) if self.ahead else later, sleep)

    def test_a_launch_waits_for_the_usual_latency(self):
        for usual, other in ((0.06, 0.3), (0.3, 0.06)):
            latency = self.latency_of([usual] * 3 + [other, other, 1.1 * usual], later=other)
            latency.begin_round()
            self.assertEqual([latency.wait_until_usual_us() for _ in range(3)], [usual] * 3)
            self.assertEqual(latency.wait_until_usual_us(), 1.1 * usual)
            self.assertEqual(self.slept, 2 * core_latency.PAUSE_SECONDS)
            self.assertEqual(latency.usual_us(), usual)

    def test_waiting_is_limited(self):
        latency = self.latency_of([0.06] * 100, later=0.3)
        latency.begin_round()
        for _ in range(100):
            latency.wait_until_usual_us()
        self.assertEqual([latency.wait_until_usual_us() for _ in range(9)], [0.3] * 9)
        self.assertEqual(self.slept, core_latency.WAIT_SECONDS_MAX)

    def test_a_lasting_latency_becomes_usual(self):
        latency = self.latency_of([0.06] * 3, later=0.3)
        latency.begin_round()
        for _ in range(9):
            latency.wait_until_usual_us()
        self.assertEqual((latency.usual_us(), self.slept), (0.3, 3 * core_latency.PAUSE_SECONDS))

    def test_outliers_of_a_round(self):
        near, far, moved = (core_latency.Launch(None, {}, flags)
                            for flags in ((0.06, 0.07), (0.3, 0.3), (0.06, 0.3)))
        self.assertEqual(core_latency.outliers([near, near, far, moved]), [far, moved])
        self.assertEqual(core_latency.outliers([far, near, far]), [near])
        self.assertEqual(core_latency.outliers([near, near]), [])
        self.assertEqual(core_latency.outliers([near, far]), [far])
        self.assertEqual(core_latency.outliers([far, near, far, near]), [far, far])

    def test_a_rare_latency_is_not_waited_for(self):
        latency = self.latency_of([0.3, 0.06], later=0.3)
        latency.begin_round()
        self.assertEqual([latency.wait_until_usual_us() for _ in range(9)][2:], [0.3] * 7)
        self.assertEqual((latency.usual_us(), self.slept), (0.3, 0))

    def round_of(self, ahead, later):
        """Runs a round; the time of "coll" and "mpich/default" is the number of their runs."""
        runs, key = {"coll": 0, "mpich/default": 0}, ("allgather", 8)
        found = [collectives.Contender(name, [], "") for name in runs]
        found.append(collectives.Limit("build", 2))
        made = compare.Survey(2, "allgather", [8], found, (1, 30), self.latency_of(ahead, later))

        def launch_one(contender, _):
            if contender.name == collectives.LIMIT:
                return {key: {"barrier_us": 0.06}}
            runs[contender.name] += 1
            return {key: runs[contender.name]}
        made.launch = launch_one
        made.run(progress.Progress(1))
        measured = made.rows[key]["times_us"]
        return [measured["coll"], measured["mpich/default"]], made

    def test_an_outlier_runs_again(self):
        # coll before and after, mpich, limit; then coll again
        measured, made = self.round_of([0.06, 0.3, 0.06, 0.06, 0.06], later=0.06)
        self.assertEqual(measured, [[2], [1]])
        self.assertEqual((made.launches, made.outlier_launches), (3, 0))
        self.assertEqual(made.rows["allgather", 8]["limit"]["barrier_us"], [0.06])

    def test_a_round_of_similar_latency_runs_once(self):
        measured, made = self.round_of([0.3], later=0.3)
        self.assertEqual(measured, [[1], [1]])
        self.assertEqual(made.outlier_launches, 0)

    def test_remaining_outliers_are_counted(self):
        measured, made = self.round_of([0.06, 0.06, 0.06, 0.06, 0.06, 0.3], later=0.3)
        self.assertEqual(measured, [[1], [1]])
        self.assertEqual(made.outlier_launches, 1)


class Shown(unittest.TestCase):
    ROWS = [row(size=size, coll=[t], malloc=[2 * t], openmpi_copy=[12 * t], gloo_default=[40 * t])
            for size, t in ((4096, 1), (65536, 10), (1 << 20, 60), (16 << 20, 900))]

    @staticmethod
    def text_of(rows):
        style = table.Style(False)
        return "\n".join([*peer_table.lines("allreduce, 2 ranks", rows, style),
                          *peer_table.summary_lines(rows, style)])

    def test_table_shows_pass_and_fail(self):
        text = self.text_of(self.ROWS)
        self.assertNotIn("\x1b", text)
        self.assertRegex(text, r"(?m)^ +4 KiB .* 12\.0x +pass +6\.00x +pass ")
        self.assertEqual(text.count("Open MPI, copy"), len(self.ROWS))
        self.assertEqual(len({len(line) for line in text.splitlines()[3:7]}), 1)

    def test_what_libcoll_beats_is_no_limit(self):
        text = self.text_of([row(size=16 << 20, coll=[25.1], gloo_default=[200])])
        self.assertRegex(text, r" copies \(us\), / ours\n")
        self.assertRegex(text, r" 50\.2 +2\.00x\n")
        self.assertIn(">= 0.8x over plain copies", text)
        for word in ("%", "limit", "possible"):
            self.assertNotIn(word, text)

    def test_table_shows_beyond(self):
        text = self.text_of([row(size=1 << 20, malloc=[100], gloo_default=[200])])
        self.assertRegex(text, r" 2\.00x  beyond +3\.03x ")
        self.assertIn("beyond   0 of  1 rows,  1 beyond  malloc", text)

    def test_plot_is_xml_with_every_line(self):
        document = xml.etree.ElementTree.fromstring(peer_table.draw(
            ["a < b"], [self.ROWS], compare.ranks_text, 2))
        space = "{http://www.w3.org/2000/svg}"
        self.assertEqual(len(document.findall(space + "polyline")), 5)
        words = [element.text for element in document.findall(space + "text")]
        for name in ("allreduce", "libcoll", "Open MPI", "Gloo", "plain copies", "12×", "a < b"):
            self.assertIn(name, words)

    def test_labels_do_not_overlap(self):
        moved = times.spread([10, 11, 12, 99], 14, 0, 100)
        self.assertTrue(all(b - a >= 14 for a, b in zip(moved, moved[1:])), moved)
        self.assertTrue(0 <= min(moved) and max(moved) <= 100, moved)


if __name__ == "__main__":
    tap.run()

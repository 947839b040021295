"""bench/ab: its statistics, its rule, the names of rows, builds of revisions, and whole runs: of
programs that claim the times they are told to, and of the real ones for a moment. Prints TAP.

    test_ab.py BENCH-FOLDER BUILD-FOLDER
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

import tap

BENCH, BUILD = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, BENCH)
from abtest import builds, plot, rounds, rows, table, verdict  # noqa: E402


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
            self.assertEqual(verdict.interval(values), (rank, count + 1 - rank), count)

    def test_no_interval_of_five(self):
        for count in range(verdict.ROUNDS_MIN):
            self.assertIsNone(verdict.interval([1.0] * count))

    def test_it_holds_the_median_19_times_in_20(self):
        generator = random.Random(7)
        for count in (6, 9, 20):
            held = 0
            for _ in range(2000):
                low, high = verdict.interval([generator.expovariate(1) for _ in range(count)])
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
        self.assertEqual(rounds.read_outcomes(good, unit), {4: (1.5, "ring"), 8: (2, "ring")})
        for bad in ([outcome(1)], [outcome(1), outcome(1, wrong=3)], [outcome(1), outcome(0)],
                    [outcome(1), {"out_of_place": None, "in_place": None}]):
            with self.assertRaises(rounds.configurations.Failure):
                rounds.read_outcomes({"rows": bad}, unit)


class Shown(unittest.TestCase):
    @staticmethod
    def found(*listed):
        return [(one, verdict.judge(one["times_us"], reason), reason) for one, reason in listed]

    def test_table(self):
        slow = row("allreduce/2/coll/8K", old=20, new=21.6, copy=20)
        slow["algorithms"]["new"] = ["tree"]
        unmeasured = row("allreduce/2/coll/1M", count=2)
        unmeasured["times_us"] = {side: [] for side in rounds.SIDES}
        found = self.found((row(), None), (slow, "simpler"), (unmeasured, None),
                           (row("sendrecv/4/malloc/16", old=0.05, new=0.06, copy=0.05), None))
        lines = list(table.Table(found).lines())
        self.assertRegex(lines[2], r"^allreduce/2/coll/4K +1\.00 +1\.00 +[01]\.\d{3} .* 20$")
        self.assertRegex(lines[3], r"20\.0 +21\.6 +0\.9\d\d .* accepted  simpler; ring -> tree$")
        self.assertRegex(lines[4], r"not measured$")
        self.assertRegex(lines[5], r"LOST +\+1\d\.\d \(\+\d.* to \+1.*\) ns, A/A [+-]0\.\d")
        summary = verdict.summarize([judgement for _, judgement, _ in found])
        self.assertIn("FAIL: 1 of 3 rows lost, 0 may; 1 accepted, 0 gained",
                      "\n".join(table.summary_lines(found, summary)))

    def test_plot_is_xml_with_every_row(self):
        names = ["allreduce/2/coll/4K", "allreduce/2/malloc/4K", "alltoall/4/malloc/8"]
        found = [(one, verdict.judge(one["times_us"])) for one in map(row, names)]
        barrier = dict(row("barrier/2/x/x", new=9), memory=None, bytes=0)
        found += [(barrier, verdict.judge(barrier["times_us"])), (row("reduce/2/coll/4"), None)]
        document = xml.etree.ElementTree.fromstring(plot.draw(found, ["a < b", ""]))
        space = "{http://www.w3.org/2000/svg}"
        titles = [element.text for element in document.iter(space + "title")]
        self.assertEqual(len(titles), 4)
        words = [element.text for element in document.iter(space + "text")]
        for name in ("allreduce/2/coll", "alltoall/4/malloc", "barrier/2", "a < b", "4K"):
            self.assertIn(name, words)


# ---- builds --------------------------------------------------------------------------------------

COLLRUN = '#!/bin/sh\nshift 2\nexec "$@"\n'
COLLBENCH = r"""#!/bin/sh
# Claims CLAIMED_US for every row; fails or hangs at the collective that is named.
[ -n "$LAUNCHES" ] && echo "$1" >> "$LAUNCHES"
collective=$1
sizes=0
while [ $# -gt 0 ]; do
  case $1 in
    --sizes) sizes=$2 ;;
    --json) json=$2 ;;
  esac
  shift
done
if [ "$collective" = "$FAILS_AT" ]; then
  echo "rank 1: out of luck" >&2
  exit 3
fi
[ "$collective" = "$HANGS_AT" ] && exec sleep 100
rows=
for size in $(echo "$sizes" | tr , ' '); do
  rows="$rows,{\"in_place\": null,
    \"out_of_place\": {\"time_us\": $CLAIMED_US, \"wrong\": 0, \"algo\": \"none\"}}"
done
printf '{"rows": [%s]}' "${rows#,}" > "$json"
"""


class Temporary(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.cache = os.path.join(self.folder, "cache")

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def make_claiming_build(self, name):
        self.write(name + "/tools/collrun", COLLRUN, 0o755)
        self.write(name + "/bench/collbench", COLLBENCH, 0o755)
        return os.path.join(self.folder, name)


class Builds(Temporary):
    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
                       cwd=self.folder, check=True, stdout=subprocess.DEVNULL)

    def commit(self, subject):
        self.git("add", ".")
        self.git("commit", "-q", "--allow-empty", "-m", subject)

    def make_repository(self):
        for tool in ("git", "meson", "ninja"):
            if not shutil.which(tool):
                self.skipTest("no " + tool)
        self.write("meson.build", "project('x')\nsubdir('bench')\nsubdir('tools')\n")
        for folder, name, text in (("bench", "collbench", COLLBENCH), ("tools", "collrun",
                                                                       COLLRUN)):
            self.write("%s/%s.sh" % (folder, name), text, 0o755)
            self.write(folder + "/meson.build",
                       "custom_target(output: '%s', input: '%s.sh', build_by_default: true,\n"
                       "  command: ['cp', '@INPUT@', '@OUTPUT@'])\n" % (name, name))
        self.git("init", "-q")
        self.commit("first")

    def find(self, named):
        said = []
        return builds.find(self.folder, self.cache, named, said.append), said

    def test_a_revision_is_built_once(self):
        self.make_repository()
        build, said = self.find("HEAD")
        self.assertEqual((len(build.commit), build.subject, len(said)), (40, "first", 2))
        self.assertTrue(builds.is_build(build.folder))
        self.assertEqual(os.listdir(self.cache), [build.commit])
        again, said = self.find(build.commit[:10])
        self.assertEqual((again.folder, said), (build.folder, []))

    def test_a_revision_that_does_not_build_says_why(self):
        self.make_repository()
        self.write("bench/meson.build", "nonsense()\n")
        self.commit("broken")
        with self.assertRaisesRegex(builds.Trouble, '(?s)log ends with.*Unknown function.*nons'):
            self.find("HEAD")
        self.assertTrue(all(name.endswith(".log") for name in os.listdir(self.cache)))
        self.assertEqual(self.find("HEAD~1")[0].subject, "first")

    def test_what_is_neither(self):
        reason = ("neither a build folder nor a git revision" if shutil.which("git")
                  else "there is no git here; install it, or name build folders")
        with self.assertRaisesRegex(builds.Trouble, reason):
            self.find("no-such-thing")
        os.mkdir(os.path.join(self.folder, "empty"))
        with self.assertRaisesRegex(builds.Trouble, "lacks bench/collbench or tools/collrun"):
            self.find(os.path.join(self.folder, "empty"))

    def test_only_the_builds_used_last_are_kept(self):
        for index in range(builds.COMMITS_KEPT + 3):
            folder = self.make_claiming_build("cache/%02d" % index)
            os.utime(folder, (index, index))
            os.utime(self.write("cache/%02d.log" % index, ""), (index, index))
        builds.drop_oldest(self.cache)
        self.assertEqual(sorted(os.listdir(self.cache)),
                         ["%02d%s" % (index, end) for index in range(3, builds.COMMITS_KEPT + 3)
                          for end in ("", ".log")])

    def test_folders_of_killed_runs_are_removed_and_those_of_others_kept(self):
        os.makedirs(os.path.join(self.cache, "run-left-behind"))
        with builds.temporary(self.cache) as one:
            with builds.temporary(self.cache) as two:
                self.assertEqual(sorted([one, two]),
                                 sorted(os.path.join(self.cache, name)
                                        for name in os.listdir(self.cache)))
        self.assertEqual(os.listdir(self.cache), [])

    def test_sides_are_copies_with_their_own_library(self):
        build = builds.Build("x", BUILD, "", "", [])
        copies = builds.copy_sides(build, build, self.folder)
        self.assertEqual(len({len(path) for path in copies.values()}), 1)
        self.assertEqual(len(set(copies.values())), 3)
        for path in copies.values():
            self.assertTrue(builds.is_build(path))
        # Without the library the linker finds none, or the one of another build.
        shutil.rmtree(os.path.join(copies["new"], "libcoll"))
        broken = build._replace(folder=copies["new"])
        with self.assertRaisesRegex(builds.Trouble, "would not load the library of its own"):
            builds.copy_sides(build, broken, os.path.join(self.folder, "again"))


class Rounds(Temporary):
    """Launches that take one second each of a clock that only they move."""

    UNIT = rows.Unit("allreduce", 2, "coll", (4, 8))

    def launch(self, command, environment, limit_s):
        self.now += 1
        self.assertLess(self.now, 1000, "no end")
        self.launched.append((command, environment))
        with open(command[command.index("--json") + 1], "w", encoding="utf-8") as file:
            outcome = {"time_us": 2.0, "wrong": 0, "algo": "ring"}
            json.dump({"rows": [{"out_of_place": outcome}] * 2}, file)

    def run_survey(self, seconds, rounds_made=None, units=(UNIT,)):
        self.now, self.launched = 0, []
        sides = [rounds.Side(name, os.path.join(self.folder, name), "build", {"SIDE": name})
                 for name in rounds.SIDES]
        for side in sides:
            os.makedirs(side.folder, exist_ok=True)
        effort = rounds.Effort(seconds, rounds_made, 10, "out", ["-d", "int8"], 60, 1)
        survey = rounds.Survey(sides, units, effort, self.launch, lambda: self.now)
        survey.run(rounds.measure.Progress(survey.work()))
        return survey

    def test_they_are_made_until_the_time_is_spent(self):
        survey = self.run_survey(61)
        self.assertEqual((self.now, survey.rounds), (60, 20))
        for one in survey.rows.values():
            self.assertEqual(one["times_us"], {side: [2.0] * 20 for side in rounds.SIDES})

    def test_one_is_made_however_little_time_there_is(self):
        other = self.UNIT._replace(ranks=4)
        survey = self.run_survey(1, units=(self.UNIT, other))
        self.assertEqual((self.now, survey.rounds), (6, 1))

    def test_or_as_many_as_asked_for(self):
        self.assertEqual(self.run_survey(1, rounds_made=8).rounds, 8)
        self.assertEqual(self.now, 24)

    def test_each_has_every_side_in_random_order(self):
        self.run_survey(1, rounds_made=100)
        order = [environment["SIDE"] for _, environment in self.launched]
        turns = [tuple(order[at:at + 3]) for at in range(0, len(order), 3)]
        self.assertTrue(all(sorted(turn) == sorted(rounds.SIDES) for turn in turns))
        self.assertEqual(len(set(turns)), 6)

    def test_commands(self):
        self.run_survey(1, rounds_made=2)
        for number, checks in ((0, "1"), (-1, "0")):
            command, environment = self.launched[number]
            folder = os.path.join(self.folder, environment["SIDE"])
            self.assertEqual(command, [
                folder + "/tools/collrun", "-n", "2", folder + "/bench/collbench", "allreduce",
                "--mem", "coll", "--sizes", "4,8", "-n", "1000000", "--time-ms", "10", "--place",
                "out", "-c", checks, "-d", "int8", "--json", folder + "/rows.json"])
            self.assertTrue(environment["LD_LIBRARY_PATH"].startswith(folder + "/libcoll"))


# ---- whole runs ----------------------------------------------------------------------------------

class Runs(Temporary):
    """Options for OLD (1 us) and NEW as the test wants it."""

    def start(self, old, new, *options):
        self.json = os.path.join(self.folder, "x.json")
        command = [sys.executable, os.path.join(BENCH, "ab"), old, new, "--cache", self.cache,
                   "--json", self.json, *options]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_claiming(self, *options, rounds_made=6):
        build = self.make_claiming_build("claiming")
        with self.start(build, build, "--quick", "--rounds", str(rounds_made), "--mem", "coll",
                        "--env", "CLAIMED_US=1", *options) as process:
            output, errors = process.communicate()
        return process.returncode, output, errors

    def document(self):
        with open(self.json, encoding="utf-8") as file:
            return json.load(file)

    def test_even(self):
        code, output, errors = self.run_claiming("--rows", "allreduce", "--rows", "barrier")
        self.assertEqual(code, 0, errors)
        self.assertIn("PASS: 0 of 5 rows lost", output)
        self.assertEqual(os.listdir(self.cache), [])
        found = self.document()
        self.assertTrue(found["passed"])
        self.assertEqual((found["rounds"], len(found["rows"])), (6, 5))

    def test_slower(self):
        base = os.path.join(self.folder, "out", "slow")
        code, output, _ = self.run_claiming("--rows", "allreduce", "--new-env", "CLAIMED_US=1.08",
                                            "--out", base)
        self.assertEqual(code, 1)
        self.assertIn("FAIL: 4 of 4 rows lost, 0 may", output)
        self.assertRegex(output, r"\nallreduce/2/coll +0\.926 .* 1\.000 .*\n\n")
        self.assertRegex(output, r"NEW: .*CLAIMED_US=1\.08")
        self.assertEqual(sorted(os.listdir(os.path.dirname(base))),
                         ["slow.json", "slow.svg", "slow.txt"])
        self.again(base + ".json")

    def again(self, path):
        """--from judges anew, with other reasons."""
        run = subprocess.run([sys.executable, os.path.join(BENCH, "ab"), "--from", path,
                              "--accept", "allreduce/2=simpler"], capture_output=True, text=True,
                             check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("accepted  simpler", run.stdout)
        self.assertIn("PASS: 0 of 4 rows lost, 0 may; 4 accepted", run.stdout)

    def test_failing_and_hanging_rows_do_not_end_the_others(self):
        code, output, errors = self.run_claiming(
            "--rows", "*/4", "--rows", "allgather/2/coll/8", "--new-env", "FAILS_AT=allreduce",
            "--old-env", "HANGS_AT=sendrecv", "--limit", "2")
        self.assertEqual(code, 2, errors)
        self.assertIn("FAILED: NEW, allreduce/2/coll, round 1: exit code 3: rank 1: out of luck",
                      output)
        self.assertRegex(output, r"\n  CLAIMED_US=1 FAILS_AT=allreduce \S+tools/collrun -n 2 "
                         r"\S+bench/collbench allreduce .*\n  \| rank 1: out of luck\n")
        self.assertRegex(output, r"FAILED: (OLD|COPY), sendrecv/2/coll, round 2: "
                         r"did not finish within 2 s")
        self.assertIn("PASS: 0 of 1 row lost", output)
        self.assertEqual(len(self.document()["failures"]), 4)

    def test_too_few_rounds(self):
        code, output, _ = self.run_claiming("--rows", "barrier", rounds_made=5)
        self.assertEqual(code, 2)
        self.assertIn("too few rounds for an interval (6): 1 row", output)

    def test_what_cannot_run_at_all_is_known_at_once(self):
        code, _, errors = self.run_claiming("--new-env", "FAILS_AT=barrier")
        self.assertEqual(code, 2)
        self.assertRegex(errors, "NEW .* cannot run: exit code 3: rank 1: out of luck")

    def test_mistakes_are_explained(self):
        for options, reason in ((("--rows", "allredcue"), "'allredcue' is no row"),
                                (("--accept", "barrier"), "not of the form NAME=VALUE"),
                                (("--accept", "gather=x"), "'gather' is no row"),
                                (("--collectives", "gaster"), "unknown 'gaster'")):
            code, _, errors = self.run_claiming(*options)
            self.assertEqual(code, 2)
            self.assertIn(reason, errors)

    def test_interrupted(self):
        build = self.make_claiming_build("claiming")
        launches = self.write("launches", "")
        with self.start(build, build, "--quick", "--rounds", "1000000", "--env", "CLAIMED_US=1",
                        "--env", "LAUNCHES=" + launches, "--rows", "barrier") as process:
            while os.path.getsize(launches) < 10 * len("barrier\n") and process.poll() is None:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate()
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("interrupted; this is what was measured so far", output)
        self.assertRegex(output, r"barrier/2 +1\.00 +1\.00")
        self.assertEqual(os.listdir(self.cache), [])

    def test_the_built_tree_against_itself(self):
        with self.start(BUILD, BUILD, "--quick", "--rounds", "6", "--time-ms", "2",
                        "--rows", "allreduce/2/*/64K", "--rows", "barrier") as process:
            output, errors = process.communicate()
        found = self.document()
        # Noise may make a build lose against itself; the exit code must say just what was found.
        self.assertEqual(process.returncode, 0 if found["passed"] else 1, output + errors)
        self.assertEqual([one["name"] for one in found["rows"]],
                         ["allreduce/2/coll/64K", "allreduce/2/malloc/64K", "barrier/2"])
        for one in found["rows"]:
            self.assertEqual([len(values) for values in one["times_us"].values()], [6] * 3)
            self.assertEqual(one["algorithms"]["old"], one["algorithms"]["copy"])
            self.assertTrue(one["algorithms"]["new"])


if __name__ == "__main__":
    tap.run()

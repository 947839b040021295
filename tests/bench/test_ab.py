"""bench/ab: builds of revisions, and whole runs: of programs that claim the times they are told to,
and of the real ones for a moment. Prints TAP.

    test_ab.py BENCH-FOLDER BUILD-FOLDER
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import tap

BENCH, BUILD = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, BENCH)
from comparison import launch, progress, rows  # noqa: E402
from comparison.contenders import builds, hosts, sides  # noqa: E402


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
        with self.assertRaisesRegex(launch.Trouble, '(?s)log ends with.*Unknown function.*nons'):
            self.find("HEAD")
        self.assertTrue(all(name.endswith(".log") for name in os.listdir(self.cache)))
        self.assertEqual(self.find("HEAD~1")[0].subject, "first")

    def test_what_is_neither(self):
        reason = ("neither a build folder nor a git revision" if shutil.which("git")
                  else "there is no git here; install it, or name build folders")
        with self.assertRaisesRegex(launch.Trouble, reason):
            self.find("no-such-thing")
        os.mkdir(os.path.join(self.folder, "empty"))
        with self.assertRaisesRegex(launch.Trouble, "lacks bench/collbench or tools/collrun"):
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
        with self.assertRaisesRegex(launch.Trouble, "would not load the library of its own"):
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
        running = [sides.Side(name, os.path.join(self.folder, name), "build", {"SIDE": name})
                 for name in sides.SIDES]
        for side in running:
            os.makedirs(side.folder, exist_ok=True)
        effort = sides.Effort(seconds, rounds_made, 10, "out", ["-d", "int8"], 60, 1)
        survey = sides.Survey(running, units, effort, sides.Place(launch.collrun, self.launch),
                              lambda: self.now)
        survey.run(progress.Progress(survey.work()))
        return survey

    def test_they_are_made_until_the_time_is_spent(self):
        survey = self.run_survey(61)
        self.assertEqual((self.now, survey.rounds), (60, 20))
        for one in survey.rows.values():
            self.assertEqual(one["times_us"], {side: [2.0] * 20 for side in sides.SIDES})

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
        self.assertTrue(all(sorted(turn) == sorted(sides.SIDES) for turn in turns))
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
            "--old-env", "HANGS_AT=sendrecv", "--limit", "5")
        self.assertEqual(code, 2, errors)
        self.assertIn("FAILED: NEW, allreduce/2/coll, round 1: exit code 3: rank 1: out of luck",
                      output)
        self.assertRegex(output, r"\n  CLAIMED_US=1 FAILS_AT=allreduce \S+tools/collrun -n 2 "
                         r"\S+bench/collbench allreduce .*\n  \| rank 1: out of luck\n")
        self.assertRegex(output, r"FAILED: (OLD|COPY), sendrecv/2/coll, round 2: "
                         r"did not finish within 5 s")
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

    def test_the_built_tree_between_hosts(self):
        try:
            with hosts.Hosts(2, self.folder):
                pass
        except (hosts.Unavailable, OSError) as reason:
            self.skipTest(str(reason))
        with self.start(BUILD, BUILD, "--net", "--rounds", "6", "--time-ms", "2", "--sizes", "64K",
                        "--new-env", "COLL_TRANSPORTS=tcp") as process:
            output, errors = process.communicate()
        found = self.document()
        self.assertEqual(process.returncode, 0 if found["passed"] else 1, output + errors)
        self.assertEqual([one["name"] for one in found["rows"]], [
            name + "/2/coll/64K" for name in ("allreduce", "allgather", "sendrecv")])
        self.assertRegex(output, "between hosts that are .*\n.*\nNEW: .* COLL_TRANSPORTS=tcp\n")


if __name__ == "__main__":
    tap.run()

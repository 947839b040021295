"""What all comparisons share: turns and medians, tables, pictures, the frame of a command; and the
tables in bench/results, which are what the commands make of the figures beside them. Prints TAP.

    test_results.py BENCH-FOLDER
"""
import glob
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import types
import unittest
import xml.etree.ElementTree

import tap

BENCH = os.path.abspath(sys.argv.pop(1))
ROOT = os.path.dirname(BENCH)
sys.path.insert(0, BENCH)
from comparison import command, idle, launch, rounds, table  # noqa: E402
from comparison.plots import bars, page  # noqa: E402

COMMANDS = [name for name in os.listdir(BENCH) if os.path.isfile(os.path.join(BENCH, name))
            and "." not in name]


class Recorded(unittest.TestCase):
    """Figures and tables in bench/results."""

    def test_tables_are_those_of_the_figures(self):
        for path in sorted(glob.glob(os.path.join(BENCH, "results", "*.json"))):
            with open(path, encoding="utf-8") as file:
                tool = json.load(file)["tool"].split()
            if not tool[0].startswith("bench/"):
                continue
            made = subprocess.run([*tool, "--from", path], cwd=ROOT, text=True,
                                  capture_output=True, check=False)
            with open(path[:-len("json")] + "txt", encoding="utf-8") as file:
                self.assertEqual(made.stdout.rstrip("\n"), file.read().rstrip("\n"), path)

    def test_no_share_is_above_a_hundred_percent(self):
        for path in glob.glob(os.path.join(BENCH, "results", "*.txt")):
            with open(path, encoding="utf-8") as file:
                self.assertNotRegex(file.read(), r"\b(10[1-9]|1[1-9]\d|[2-9]\d\d) ?%", path)

    def test_some_page_shows_each(self):
        pages = ""
        for folder in (ROOT, os.path.join(ROOT, "docs")):
            for path in glob.glob(os.path.join(folder, "*.md")):
                with open(path, encoding="utf-8") as file:
                    pages += file.read()
        results = os.listdir(os.path.join(BENCH, "results"))
        shown = {name for name in results if "results/" + name in pages}
        bases = {os.path.splitext(name)[0] for name in shown}
        kept = {base + ".json" for base in bases}  # what the tables and pictures are made of
        self.assertEqual(sorted(set(results) - shown - kept), [])

    def test_figures_of_another_command_are_refused(self):
        path = os.path.join(BENCH, "results", "torch.json")
        for name in ("ab", "compare", "paced", "train-compare"):
            made = subprocess.run([os.path.join(BENCH, name), "--from", path], text=True,
                                  capture_output=True, check=False)
            self.assertEqual((made.returncode, made.stdout), (2, ""))
            self.assertIn("torch.json holds no figures of bench/" + name, made.stderr)


class Commands(unittest.TestCase):
    def test_each_has_a_module_with_its_name(self):
        for name in COMMANDS:
            module = importlib.import_module("comparison.commands." + name.replace("-", "_"))
            self.assertEqual(module.NAME, "bench/" + name)
            self.assertTrue(module.__doc__)

    def test_exit_codes(self):
        def raising(trouble):
            def main():
                raise trouble
            return main
        for main, code in ((lambda: 1, 1), (raising(launch.Failure("no end")), command.FAILED),
                           (raising(OSError("no file")), command.FAILED),
                           (raising(KeyboardInterrupt()), command.INTERRUPTED)):
            with tempfile.TemporaryFile("w+") as errors, self.assertRaises(SystemExit) as ended:
                before, sys.stderr = sys.stderr, errors
                try:
                    command.end_with(main, "bench/x")
                finally:
                    sys.stderr = before
            self.assertEqual(ended.exception.code, code)

    def test_files_that_the_options_ask_for(self):
        with tempfile.TemporaryDirectory() as folder:
            base = os.path.join(folder, "new", "a")
            options = types.SimpleNamespace(out=base, json=os.path.join(folder, "b.json"))
            command.save(options, {"tool": "x"}, "text\n\n", None)
            self.assertEqual(sorted(os.listdir(folder)), ["b.json", "new"])
            self.assertEqual(sorted(os.listdir(os.path.dirname(base))), ["a.json", "a.txt"])
            with open(base + ".txt", encoding="utf-8") as file:
                self.assertEqual(file.read(), "text\n")
            self.assertEqual(command.read(base + ".json", "x"), {"tool": "x"})
            with self.assertRaisesRegex(ValueError, "no figures of y"):
                command.read(base + ".json", "y")


class Rounds(unittest.TestCase):
    def test_turns_are_in_random_order(self):
        order, seen = rounds.shuffled(random.Random(1)), set()
        for _ in range(50):
            found = rounds.take_turns("abc", lambda names: order(names), str.upper)
            self.assertEqual(sorted(found), [("a", "A"), ("b", "B"), ("c", "C")])
            seen.add(tuple(name for name, _ in found))
        self.assertEqual(len(seen), 6)

    def test_every_other_round_is_reversed(self):
        self.assertEqual([rounds.take_turns("ab", rounds.alternating(number), len)[0][0]
                          for number in range(3)], ["a", "b", "a"])

    def test_a_failure_ends_the_round_or_is_told(self):
        def measure(name):
            if name == "b":
                raise launch.Failure("no end")
            return name
        with self.assertRaises(launch.Failure):
            rounds.take_turns("abc", list, measure)
        told = []
        self.assertEqual(rounds.take_turns("abc", list, measure, lambda *how: told.append(how)),
                         [("a", "a"), ("c", "c")])
        self.assertEqual([(name, str(failure)) for name, failure in told], [("b", "no end")])
        self.assertEqual(rounds.take_turns("ab", list, measure, lambda *_: "so far"),
                         [("a", "a"), ("b", "so far")])

    def test_the_user_ends_them(self):
        made = []

        def one_round(number):
            if number == 2:
                raise KeyboardInterrupt
            made.append(number)
        self.assertTrue(rounds.repeat(5, one_round))
        self.assertEqual(made, [0, 1])
        self.assertFalse(rounds.repeat(2, one_round))

    def test_quotients_are_of_rounds_that_have_both(self):
        self.assertEqual(rounds.quotients([1, None, 6, 8], [2, 2, 3]), [0.5, 2])
        self.assertIsNone(rounds.median([None]))


class Idle(unittest.TestCase):
    """On a machine whose first processor has other work."""

    def setUp(self):
        self.cpus = sorted(os.sched_getaffinity(0))
        self.slept, self.said, self.shown = [], [], []
        self.say, self.show = self.said.append, self.shown.append

    def wait(self, seconds_max, *busy):
        """busy: the share of each window."""
        shares = iter(busy)
        ticks = dict.fromkeys(self.cpus, (0, 0))

        def sleep(seconds):
            self.slept.append(seconds)
            work = {self.cpus[0]: round(100 * seconds * next(shares))}
            for cpu, (free, everything) in ticks.items():
                all_ticks = 100 * seconds
                ticks[cpu] = free + all_ticks - work.get(cpu, 0), everything + all_ticks
        return idle.wait(self, seconds_max, lambda: dict(ticks), sleep)

    def test_no_wait_where_there_is_no_other_work(self):
        self.assertIsNone(self.wait(300, 0.09))
        self.assertEqual((self.slept, self.said, self.shown), ([3], [], []))

    def test_it_waits_for_the_busiest_processor(self):
        self.assertIsNone(self.wait(300, 0.8, 0.11, 0.1))
        self.assertEqual((self.slept, self.said), ([3] * 3, []))
        self.assertRegex(self.shown[1], "^waiting for idle processors, up to 294 s more: 89 %")

    def test_it_does_not_wait_forever(self):
        self.assertEqual(self.wait(300, *[0.5] * 100)[0], 0.5)
        self.assertEqual(sum(self.slept), 300)
        self.assertRegex(self.said[0], "the processors are busy .50 %.* idle.: measuring all the")
        self.assertEqual(self.wait(0, 0.25)[0], 0.75)

    def test_waiting_for_a_disk_is_no_work_and_guests_count_once(self):
        times = idle.processor_times("cpu  9 9 9 9 9 9 9 9 9 9\n"
                                     "cpu0 10 1 2 80 5 1 0 1 10 0\nintr 1 2\ncpu11 0 0 0 3\n")
        self.assertEqual(times, {0: (85, 100), 11: (3, 3)})


class Tables(unittest.TestCase):
    def test_columns_are_as_wide_as_what_they_hold(self):
        columns = [table.Column("name", lambda row: row[0], left=True),
                   table.Column("time\n(us)", lambda row: (row[1], table.BOLD), group="a group"),
                   table.Column("", lambda row: row[2], left=True, group="a group")]
        lines = list(table.lines(columns, [("allreduce", "1.5", "x"), ("b", "10.25", "")]))
        self.assertEqual(lines, ["           a group",
                                 "            time",
                                 "name        (us)",
                                 "allreduce    1.5  x",
                                 "b          10.25"])

    def test_colors_only_where_asked_for(self):
        columns = [table.Column("", lambda row: (row, table.BOLD), 3)]
        for colored, line in ((False, "  x"), (True, table.BOLD + "  x" + table.PLAIN)):
            self.assertEqual(list(table.lines(columns, ["x"], style=table.Style(colored)))[-1],
                             line)


class Pictures(unittest.TestCase):
    def test_words_are_escaped_and_panels_apart(self):
        drawn = bars.draw("a < b", ["c & d", ""], [bars.Group("g", [
            bars.Bar("one", 1, "1", page.OURS, 2), bars.Bar("two", 2, "2", page.PEER, None)])])
        words = {element.text for element in xml.etree.ElementTree.fromstring(drawn).iter()}
        self.assertTrue({"a < b", "c & d", "g", "one", "two"} <= words)
        grid = page.Grid(2, (100, 50), (1, 2, 3, 4), 10)
        self.assertEqual([grid.place_of(index) for index in range(3)],
                         [(1, 13), (104, 13), (1, 70)])


if __name__ == "__main__":
    tap.run()

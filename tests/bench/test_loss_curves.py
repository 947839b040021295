"""bench/loss-curves: the table and the plot of logs with known losses, and its error messages.
Prints TAP.

    test_loss_curves.py BENCH-FOLDER
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import tap

BENCH = sys.argv.pop(1)


def run(*arguments):
    return subprocess.run([os.path.join(BENCH, "loss-curves"), *arguments], text=True,
                          capture_output=True, check=False)


class LossCurves(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def log(self, name, held_out, skipped=0):
        path = os.path.join(self.folder.name, name)
        records = [{"record": "setup"}]
        records += [{"record": "step", "step": i + 1, "loss": 3 - i / 100, "skipped": i < skipped}
                    for i in range(100)]
        records.append({"record": "evaluation", "step": 100, "loss": held_out})
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
        return path

    def test_compares_held_out_losses_with_the_first_run(self):
        result = run("a=" + self.log("a", 2.0), "b=" + self.log("b", 2.01, skipped=3))
        rows = [line.split() for line in result.stdout.splitlines()]
        self.assertEqual(rows[1], ["a", "100", "2.0000", "+0.000%", "0"])
        self.assertEqual(rows[2], ["b", "100", "2.0100", "+0.500%", "3"])

    def test_draws_every_run(self):
        plot = os.path.join(self.folder.name, "plot.svg")
        result = run("a=" + self.log("a", 2.0), "b=" + self.log("b", 2.01), "--plot", plot)
        self.assertEqual(result.returncode, 0, result.stderr)
        tree = xml.etree.ElementTree.parse(plot)
        self.assertEqual(len(tree.findall(".//{*}polyline")), 2)
        self.assertEqual(len(tree.findall(".//{*}circle")), 2)

    def test_names_a_file_that_is_no_log(self):
        path = os.path.join(self.folder.name, "text")
        with open(path, "w", encoding="utf-8") as file:
            file.write("no log\n")
        for argument, message in (("a=" + path, "is not a log of gpt train"),
                                  ("a=/nowhere", "is not a log of gpt train"),
                                  ("text", "is not NAME=LOG")):
            result = run(argument)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(message, result.stderr)


if __name__ == "__main__":
    tap.run()

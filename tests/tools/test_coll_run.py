"""python -m coll.run finds the program among the options of collrun, all of which it knows. Prints
TAP.

    test_coll_run.py SOURCES
"""
import importlib.util
import os
import re
import sys
import unittest

SOURCES = sys.argv[1]
del sys.argv[1]
sys.path.insert(0, os.path.join(SOURCES, "tests", "bench"))
import tap  # noqa: E402

SPEC = importlib.util.spec_from_file_location(
    "run", os.path.join(SOURCES, "libcoll", "frontends", "python", "coll", "run.py"))
run = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(run)


def source(name):
    with open(os.path.join(SOURCES, "tools", "collrun", name), encoding="utf-8") as file:
        return file.read()


def listed(text, name):
    """The words of a list of names in mpirun_options.c."""
    found = re.search(r"\b%s\[\] = \{(.*?)NULL\}" % name, text, re.DOTALL)
    return set(re.findall(r'"([^"]+)"', found.group(1)))


class TestCollRun(unittest.TestCase):
    def test_the_program(self):
        for line in ("-n 4 | a.py", "-n4 | a.py x", "-np 4 | a.py", "--prefix -n 2 | -m x",
                     "-n=2 | a.py", "-x A -xB=1 -H a,b | a.py", "--mca a b -n 2 | -c pass",
                     "-host a,b -ppn 2 --allow-run-as-root | a.py", "--hosts=a | a.py",
                     "-genv A B | a.py", "-n 2 -- | -x", "-Ha,b -n 2 | a.py", "-n 2 |"):
            options, _, program = line.partition("|")
            words = options.split() + program.split()
            self.assertEqual(run.program_index(words), len(options.split()), line)

    def test_the_options_without_a_value_and_with_two(self):
        mpirun, own = source("mpirun_options.c"), source("settings.c")
        flags = listed(mpirun, "prefixes") | listed(mpirun, "unused") | set(
            re.findall(r'"([\w-]+)", BASE_OPTION_FLAG', mpirun + own))
        self.assertEqual(flags - run.FLAGS, set())
        self.assertEqual(listed(mpirun, "variables") | listed(mpirun, "settings"), run.PAIRS)


if __name__ == "__main__":
    tap.run()

"""Runs the unit tests of the main script and prints TAP, one line per test, which meson counts."""
import sys
import unittest


def figure(text):
    """What was measured. No test fails for it."""
    print("# figure: " + text, flush=True)


class Result(unittest.TextTestResult):
    def print_line(self, test, good, more=""):
        name = test.id().split(".", 1)[1].replace("_", " ")
        print("%s %d - %s%s" % ("ok" if good else "not ok", self.testsRun, name, more), flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.print_line(test, True)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.print_line(test, True, " # SKIP " + reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.print_line(test, False)

    def addError(self, test, err):
        super().addError(test, err)
        self.print_line(test, False)


def run():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    print("1..%d" % suite.countTestCases(), flush=True)
    result = unittest.TextTestRunner(resultclass=Result, verbosity=0).run(suite)
    sys.exit(not result.wasSuccessful())

"""Runs the unit tests of the main script and prints TAP: a line per test, as meson counts them."""
import sys
import unittest


class Result(unittest.TextTestResult):
    def tell(self, test, good, more=""):
        name = test.id().split(".", 1)[1].replace("_", " ")
        print("%s %d - %s%s" % ("ok" if good else "not ok", self.testsRun, name, more), flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell(test, True)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.tell(test, True, " # SKIP " + reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tell(test, False)

    def addError(self, test, err):
        super().addError(test, err)
        self.tell(test, False)


def run():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    print("1..%d" % suite.countTestCases(), flush=True)
    result = unittest.TextTestRunner(resultclass=Result, verbosity=0).run(suite)
    sys.exit(not result.wasSuccessful())

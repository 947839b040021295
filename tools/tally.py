"""Reads meson's testlog.json. Prints a line per test program with its time, the processor's time if
that is known, and the number of its test cases; the last output of failed programs, why cases were
skipped and the figures that tests print ("# figure: ..."); and at the end "N passed, N failed, N
skipped". The exit code is 1 if a case failed.

    tally.py [--again LOG] LOG
    tally.py --failed LOG
    tally.py --skipped LOG

Cases are counted in the output of a program: TAP lines, or the summary line of Criterion. A program
without either is one case. A program that fails has at least one failed case.

--again: what failed in LOG was run once more, with this result. A program that then passed counts
as passed; its first failure is printed, and "N flaky" stands at the end of the last line.
--failed: prints the names of the programs that failed, and nothing else.
--skipped: prints a line for each skipped case: its program, the reason and how often.
"""
import argparse
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))

from comparison import output  # noqa: E402

LINES_SHOWN = 40
TAP_CASE = re.compile(r"^(not )?ok\b[^#\n]*(# *skip)?", re.MULTILINE | re.IGNORECASE)
TAP_PLAN = re.compile(r"^1\.\.(\d+)( *# *skip)?", re.MULTILINE | re.IGNORECASE)
TAP_REASON = re.compile(r"^(?:ok\b|1\.\.0)[^#\n]*# *skip[: ]*(.*)", re.MULTILINE | re.IGNORECASE)
NOT_CHOSEN = re.compile(r"^ok - .*# SKIP test was skipped\n", re.MULTILINE)
PROCESSOR = re.compile(r"^# processor: ([0-9.]+) s$", re.MULTILINE)
FIGURE = re.compile(r"^# figure: .*", re.MULTILINE)
CRITERION = re.compile(r"Tested: \S*?(\d+)\S* \| Passing: \S*?(\d+)\S* \| Failing: \S*?(\d+)\S* "
                       r"\| Crashing: \S*?(\d+)")


def output_of(test):
    """What it printed, without the cases that a filter of Criterion left out. They are no skipped
    ones: another program has them."""
    return NOT_CHOSEN.sub("", test.get("stdout") or "")


def count_cases(test):
    """(passed, failed, skipped) of one test program."""
    good = test["result"] in ("OK", "EXPECTEDFAIL")
    output, errors = output_of(test), test.get("stderr") or ""
    passed = failed = skipped = 0
    plan, summary = TAP_PLAN.search(output), CRITERION.search(errors)
    if plan:
        for bad, skip in TAP_CASE.findall(output):
            skipped += bool(skip)
            failed += bool(bad) and not skip
            passed += not bad and not skip
        skipped += bool(plan.group(2))  # all cases: there is no line of any
        others = len(NOT_CHOSEN.findall(test.get("stdout") or ""))
        failed += max(0, int(plan.group(1)) - passed - failed - skipped - others)  # did not run
    elif summary:
        _, passed, failed, crashed = (int(n) for n in summary.groups())
        failed += crashed
    elif test["result"] == "SKIP":
        skipped = 1
    elif good:
        passed = 1
    if not good and test["result"] != "SKIP" and failed == 0:
        failed = 1
    return passed, failed, skipped


def name_of(test):
    return test["name"].split(" / ")[-1]


def describe(test, counts, note=""):
    passed, failed, skipped = counts
    parts = ["%d passed" % passed]
    if failed:
        parts.append("%d failed" % failed)
    if skipped:
        parts.append("%d skipped" % skipped)
    how = "" if test["result"] in ("OK", "FAIL", "SKIP") else "  " + test["result"].lower()
    mark = "FAIL" if failed else "ok"
    processor = PROCESSOR.findall(test.get("stdout") or "")
    used = " %7.1f s" % float(processor[-1]) if processor else ""
    return "%-5s %-24s %7.1f s%s  %s%s%s" % (mark, name_of(test), test["duration"], used,
                                             ", ".join(parts), how, note)


def skip_reasons(test):
    """A line for each reason why cases were skipped, with their number."""
    reasons = TAP_REASON.findall(output_of(test))
    lines = []
    for why in dict.fromkeys(reasons):
        times = reasons.count(why)
        lines.append("      | %sskipped: %s\n" % ("%d " % times if times > 1 else "",
                                               why or "no reason is given"))
    return "".join(lines)


def last_lines(test):
    output = (test.get("stdout") or "") + (test.get("stderr") or "")
    lines = [line for line in output.split("\n") if line.strip() and not line.startswith("ok ")]
    return "".join("      | %s\n" % line for line in lines[-LINES_SHOWN:])


def figures(test):
    return "".join("      | %s\n" % line[2:] for line in FIGURE.findall(test.get("stdout") or ""))


def read_log(path):
    with open(path, encoding="utf-8") as file:
        return sorted((json.loads(line) for line in file), key=lambda test: test["name"])


def report(test, again):
    """Prints a program. Returns its counts, and whether it failed first and then passed."""
    counts = count_cases(test)
    first, flaky = test, False
    if counts[1] and name_of(test) in again:
        test = again[name_of(test)]
        counts = count_cases(test)
        flaky = counts[1] == 0
    print(describe(test, counts, "  flaky: failed at first" if flaky else ""))
    print(skip_reasons(test), end="")
    print(last_lines(first) if counts[1] or flaky else "", end="")
    print(figures(test), end="")
    return counts, flaky


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", metavar="LOG")
    parser.add_argument("--failed", action="store_true")
    parser.add_argument("--skipped", action="store_true")
    parser.add_argument("log")
    options = parser.parse_args()
    tests = read_log(options.log)
    if options.failed:
        print("".join("%s\n" % name_of(test) for test in tests if count_cases(test)[1]), end="")
        return 0
    if options.skipped:
        print("".join("%s: %s" % (name_of(test), line.strip(" |"))
                      for test in tests for line in skip_reasons(test).splitlines(True)), end="")
        return 0
    again = {name_of(test): test for test in read_log(options.again)} if options.again else {}
    total, flaky_programs = [0, 0, 0], 0
    for test in tests:
        counts, flaky = report(test, again)
        total = [a + b for a, b in zip(total, counts)]
        flaky_programs += flaky
    skipped = ", %d skipped" % total[2] if total[2] else ""
    flaky = ", %d flaky" % flaky_programs if flaky_programs else ""
    print("\n%d passed, %d failed%s%s" % (total[0], total[1], skipped, flaky))
    return 1 if total[1] or not tests else 0


if __name__ == "__main__":
    output.check("tools/tally.py")
    sys.exit(main())

"""Reads meson's testlog.json. Prints a line per test program with the number of its test cases, the
last output of failed programs and the output of the suite "slow", and at the end "N passed, N
failed". The exit code is 1 if a case failed. Under a program with skipped cases, a line per reason.

Cases are counted in the output of a program: TAP lines, or the summary line of Criterion. A program
without either is one case. A program that fails has at least one failed case.
"""
import json
import re
import sys

LINES_SHOWN = 40
TAP_CASE = re.compile(r"^(not )?ok\b[^#\n]*(# *skip)?", re.MULTILINE | re.IGNORECASE)
TAP_PLAN = re.compile(r"^1\.\.(\d+)( *# *skip)?", re.MULTILINE | re.IGNORECASE)
TAP_REASON = re.compile(r"^(?:ok\b|1\.\.0)[^#\n]*# *skip[: ]*(.*)", re.MULTILINE | re.IGNORECASE)
CRITERION = re.compile(r"Tested: \S*?(\d+)\S* \| Passing: \S*?(\d+)\S* \| Failing: \S*?(\d+)\S* "
                       r"\| Crashing: \S*?(\d+)")


def count_cases(test):
    """(passed, failed, skipped) of one test program."""
    good = test["result"] in ("OK", "EXPECTEDFAIL")
    output, errors = test.get("stdout") or "", test.get("stderr") or ""
    passed = failed = skipped = 0
    plan, summary = TAP_PLAN.search(output), CRITERION.search(errors)
    if plan:
        for bad, skip in TAP_CASE.findall(output):
            skipped += bool(skip)
            failed += bool(bad) and not skip
            passed += not bad and not skip
        skipped += bool(plan.group(2))  # all cases: there is no line of any
        failed += max(0, int(plan.group(1)) - passed - failed - skipped)  # did not run
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


def describe(test, counts):
    passed, failed, skipped = counts
    name = test["name"].split(" / ")[-1]
    parts = ["%d passed" % passed]
    if failed:
        parts.append("%d failed" % failed)
    if skipped:
        parts.append("%d skipped" % skipped)
    how = "" if test["result"] in ("OK", "FAIL", "SKIP") else "  " + test["result"].lower()
    mark = "FAIL" if failed else "ok"
    return "%-5s %-24s %7.1f s  %s%s" % (mark, name, test["duration"], ", ".join(parts), how)


def skip_reasons(test):
    """A line for each reason why cases were skipped, with their number."""
    reasons = TAP_REASON.findall(test.get("stdout") or "")
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


def report(test):
    """The standard output of a program of the suite "slow", which prints statistics."""
    output = test.get("stdout") or ""
    if TAP_PLAN.search(output) or not re.match(r"\S*slow ", test["name"]):
        return ""
    return "".join("      | %s\n" % line for line in output.strip().split("\n") if output.strip())


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        tests = [json.loads(line) for line in file]
    total = [0, 0, 0]
    for test in sorted(tests, key=lambda test: test["name"]):
        counts = count_cases(test)
        total = [a + b for a, b in zip(total, counts)]
        print(describe(test, counts))
        print(skip_reasons(test), end="")
        print(last_lines(test) if counts[1] else report(test), end="")
    skipped = ", %d skipped" % total[2] if total[2] else ""
    print("\n%d passed, %d failed%s" % (total[0], total[1], skipped))
    return 1 if total[1] or not tests else 0


if __name__ == "__main__":
    sys.exit(main())

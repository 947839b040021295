"""For the tests of all front ends in which a rank is killed. The other ranks print `lost after
SECONDS s: SENTENCE`; the clock starts where the rank kills itself."""
import re
import time

PROMISE = 2.0  # seconds


def waits(pid, table):
    """Whether a process waits in a call, by the table of ranks that coll_comm_dump writes."""
    rows = [line.split() for line in table.splitlines()]
    return any(row[2] == str(pid) and "for" in row for row in rows)


def await_end(pid):
    """Waits until a process has ended, although nobody may have waited for it."""
    while True:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                if file.read().rsplit(")", 1)[1].split()[0] in "ZX":
                    return
        except (FileNotFoundError, ProcessLookupError):  # the latter, if it ends once opened
            return
        time.sleep(0.001)


def check(test, output, has_clock, name="rank 1"):
    """The number of ranks' lines. Fails the test unless each names the rank and, with a clock, came
    in time."""
    lines = re.findall(r"lost after ([\d.]+) s: (.*)", output)
    for _, sentence in lines:
        test.assertIn(name, sentence)
    if has_clock and lines:
        worst = max(float(seconds) for seconds, _ in lines)
        print(f"# figure: {worst:.2f} s of {PROMISE} s", flush=True)
        test.assertLess(worst, PROMISE, output)
    return len(lines)

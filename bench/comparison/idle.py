"""Waits until the processors are idle, so that no other program disturbs what is measured next."""
import os
import time

IDLE_MIN = 0.9  # share of the time, of each processor
WINDOW_SECONDS = 3
WAIT_SECONDS_MAX = 300
TIMES = 8  # user nice system idle iowait irq softirq steal; what follows is part of these
IDLE_TIMES = slice(3, 5)


def processor_times(text):
    """{processor: (idle, all)} in ticks since the start, of the text of /proc/stat."""
    found = {}
    for line in text.splitlines():
        name, *counts = line.split()
        if name.startswith("cpu") and name != "cpu":
            ticks = list(map(int, counts[:TIMES]))
            found[int(name[len("cpu"):])] = sum(ticks[IDLE_TIMES]), sum(ticks)
    return found


def read_times():
    with open("/proc/stat", encoding="ascii") as file:
        return processor_times(file.read())


def idle_shares(read, sleep):
    """Of each processor that this process may use, over the next seconds."""
    before = read()
    sleep(WINDOW_SECONDS)
    after = read()
    shares = []
    for cpu in sorted(os.sched_getaffinity(0) & before.keys() & after.keys()):
        idle, ticks = (late - early for early, late in zip(before[cpu], after[cpu]))
        shares.append(idle / ticks if ticks else 1.0)
    return shares


def shares_text(shares):
    """"12 % and 98 % idle"."""
    return " and ".join("%.0f %%" % (100 * share) for share in shares) + " idle"


def wait(progress, seconds_max=WAIT_SECONDS_MAX, read=read_times, sleep=time.sleep):
    """Returns None once all processors are idle. Returns the idle share of each if they are still
    busy after so many seconds; one window is always measured."""
    for waited in range(0, max(seconds_max, WINDOW_SECONDS), WINDOW_SECONDS):
        shares = idle_shares(read, sleep)
        if min(shares, default=1) >= IDLE_MIN:
            return None
        progress.show("waiting for idle processors, up to %d s more: %s" % (
            max(seconds_max - waited - WINDOW_SECONDS, 0), shares_text(shares)))
    progress.say("the processors are busy (%s): measuring all the same" % shares_text(shares))
    return [round(share, 3) for share in shares]

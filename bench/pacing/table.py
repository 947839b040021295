"""Cells as an aligned table, and whether the model orders algorithms right."""
import collections

WITHIN = 1.10          # the chosen algorithm's time over the fastest one's
UNPACED_SHARE = 0.05   # of the same call over paced links
SHARE_OF_CELLS = 0.90  # that must be right

Judged = collections.namedtuple("Judged", "chosen_us fastest fastest_us ratio unpaced ok")


def judge(cell):
    """Of the medians of an algorithm's launches the least counts."""
    found = cell["algorithms"]
    times = {name: min(one["paced_us"]) for name, one in found.items() if one["paced_us"]}
    fastest = min(times, key=times.get)
    ratio = times[cell["chosen"]] / times[fastest]
    unpaced = max(min(found[name]["unpaced_us"]) / times[name]
                  for name in (cell["chosen"], fastest))
    return Judged(times[cell["chosen"]], fastest, times[fastest], ratio, unpaced, ratio <= WITHIN)


def passes(cell):
    """Whether there is no reason to measure it again."""
    judged = judge(cell)
    return judged.ok and judged.unpaced <= UNPACED_SHARE


def size_text(size):
    return "%d MiB" % (size >> 20) if size >> 20 else "%d KiB" % (size >> 10)


HEAD = ("topology", "collective", "size", "predicted fastest", "predicted", "measured",
        "truly fastest", "measured", "ratio", "unpaced", "")
UNITS = ("", "", "", "", "(ms)", "(ms)", "", "(ms)", "", "", "")
LAYOUT = "%-10s  %-10s %8s  %-18s %9s %9s  %-18s %9s %6s %8s  %s"


def line(cell):
    judged = judge(cell)
    return LAYOUT % (
        cell["topology"], cell["collective"], size_text(cell["bytes"]), cell["chosen"],
        "%.2f" % (cell["algorithms"][cell["chosen"]]["predicted_us"] / 1e3),
        "%.2f" % (judged.chosen_us / 1e3), judged.fastest, "%.2f" % (judged.fastest_us / 1e3),
        "%.2f" % judged.ratio, "%.1f %%" % (100 * judged.unpaced), "ok" if judged.ok else "no")


def head():
    return [(LAYOUT % HEAD).rstrip(), (LAYOUT % UNITS).rstrip()]


def count_right(cells):
    return sum(judge(cell).ok for cell in cells)


def count_disturbed(cells):
    return sum(judge(cell).unpaced > UNPACED_SHARE for cell in cells)


def summary(cells):
    most = max(judge(cell).unpaced for cell in cells)
    return ("%d of %d cells within %.0f %%; unpaced %.1f %% of the time at most, above %.0f %% in "
            "%d cells" % (count_right(cells), len(cells), 100 * (WITHIN - 1), 100 * most,
                          100 * UNPACED_SHARE, count_disturbed(cells)))


def is_right(cells):
    return count_right(cells) >= SHARE_OF_CELLS * len(cells) and not count_disturbed(cells)

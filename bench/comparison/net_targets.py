"""Whether libcoll meets its targets between hosts, in each class of links. Pure functions on rows
(figures) that also have "gbit" and "congestion", of bench/compare --net."""
import collections

from comparison import figures
from comparison.contenders.hosts import UNSHAPED, Link, link_of, link_text
from comparison.sizes import KIB, MIB

ENOUGH_OF_TEN = 9  # rows
# Time of the best peer / ours: no row may be below. With several ranks on a host, calls of few
# bytes pass through shared memory as well.
RATIO_MIN, RATIO_MIN_SEVERAL, FEW_BYTES = 0.8, 0.77, 64 * KIB
LARGE = MIB

# level: rows level with the best peer or ahead of it; low: rows below their least ratio; worst: the
# least ratio; plain, plain_good: rows with a target over plain sockets, those that reach it.
Class = collections.namedtuple("Class", "name rows level low worst plain plain_good")


def ratio(row):
    return figures.ratio(row, "coll")


def ratio_min(row):
    several = row["per_host"] > 1 and row["bytes"] <= FEW_BYTES
    return RATIO_MIN_SEVERAL if several else RATIO_MIN


def judge(name, rows):
    ratios = [ratio(row) for row in rows]
    plain = [row for row in rows if figures.plain_verdict(row, "coll")]
    return Class(name, len(rows), sum(one >= 1 for one in ratios),
                 sum(one < ratio_min(row) for one, row in zip(ratios, rows)), min(ratios),
                 len(plain), sum(figures.plain_verdict(row, "coll") == figures.PASS
                                 for row in plain))


def classes(rows):
    """One Class for each class of links, and one for large calls over unshaped links."""
    compared = [row for row in rows if ratio(row) is not None]
    found = []
    for mine in figures.grouped(compared, link_of):
        link = link_of(mine[0])
        found.append(judge(link_text(*link), mine))
        large = [row for row in mine if row["bytes"] >= LARGE]
        if link == Link(UNSHAPED) and large:
            found.append(judge("%s, from 1 MiB" % link_text(*link), large))
    return found


def is_enough(good, rows):
    return 10 * good >= ENOUGH_OF_TEN * rows

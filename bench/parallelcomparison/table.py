"""The figures of bench/parallel-compare as text, and its rule: a layout passes with LIMIT of the
speed of the better one of the references, times the share of the time that the closed formula of
its schedule leaves beside the bubble. Ratios are of the same round; their medians stand with a 95 %
interval (abtest/verdict.py) where there are enough rounds for one."""
import collections
import statistics

from comparison import judgement as verdict
from parallelcomparison import survey

LIMIT = 0.85

# ratio: Estimate of the speed / that of the reference, None without one. limit: None for rows that
# need not pass.
Judgement = collections.namedtuple("Judgement", "name speed fastest ratio attainable limit passes")


def reference(group):
    """The name of the faster one of the references; None without figures of one."""
    speeds = group["tokens_per_s"]
    measured = [name for name in survey.REFERENCES if speeds.get(name)]
    return max(measured, key=lambda name: statistics.median(speeds[name]), default=None)


def judge(group, name):
    speeds, best = group["tokens_per_s"], reference(group)
    ratio = None
    if best is not None:
        ratio = verdict.estimate([own / other for own, other in zip(speeds[name], speeds[best])])
    attainable = group["attainable"].get(name)
    judged = name in group["layouts"] and name not in survey.BASELINES and ratio is not None
    limit = LIMIT * attainable if judged else None
    return Judgement(name, statistics.median(speeds[name]), max(speeds[name]), ratio, attainable,
                     limit, not judged or ratio.median >= limit)


def judgements(group):
    """In the order of measuring: layouts, then peers."""
    names = [*(name for name in group["layouts"] if name in group["tokens_per_s"]),
             *(name for name in group["tokens_per_s"] if name not in group["layouts"])]
    return [judge(group, name) for name in names]


def passes(group):
    return all(judgement.passes for judgement in judgements(group))


def number(value):
    return "-" if value is None else "%.2f" % value


def interval_text(ratio):
    if ratio is None or ratio.low is None:
        return ""
    return "%.2f to %.2f" % (ratio.low, ratio.high)


def verdict_text(judgement):
    if judgement.limit is None:
        return ""
    return "passes" if judgement.passes else "MISSES"


def row_line(group, row):
    return ("  %-26s %9.0f %9.0f %8s  %-14s %10s %6s  %-6s  %s" % (
        row.name, row.speed, row.fastest, number(row.ratio and row.ratio.median),
        interval_text(row.ratio), number(row.attainable), number(row.limit), verdict_text(row),
        group["layouts"].get(row.name, ""))).rstrip()


def group_lines(group):
    rounds = max(map(len, group["tokens_per_s"].values()), default=0)
    yield "%s, %.1f M parameters, %d round%s%s" % (
        group["model"], (group["parameters"] or 0) * 1e-6, rounds, "" if rounds == 1 else "s",
        ", interrupted" if group.get("interrupted") else "")
    if group["tokens_per_s"]:
        yield "  %-26s %9s %9s %8s  %-14s %10s %6s  %-6s  %s" % (
            "", "tokens/s", "fastest", "of the", "95 %", "attainable", "limit", "", "ranks x")
        yield "  %-26s %9s %9s %8s  %-14s %10s %6s  %-6s  %s" % (
            "", "(median)", "", "better", "interval", "", "", "", "threads, options")
    for judgement in judgements(group):
        yield row_line(group, judgement)
    for name, reason in group["failures"].items():
        yield "  %s failed: %s" % (name, reason)
    for name, reason in group["left_out"].items():
        yield "  %s left out: %s" % (name, reason)
    yield ""


def lines(groups):
    for group in groups:
        yield from group_lines(group)
    yield ("of the better: the speed / that of the better one of %s; attainable: the share of the "
           "time that" % " and ".join(survey.REFERENCES))
    yield "the bubble leaves by its formula; limit: %.2f of that" % LIMIT

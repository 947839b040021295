"""The figures of bench/train-compare as text. Ratios are of times of the same round; their medians
stand with a 95 % interval (abtest/verdict.py) where there are enough rounds for one."""
import statistics

from comparison import judgement as verdict
from traincomparison import survey


def ratio_to_ours(group, name):
    """The Estimate of the time of a program / that of libtrain in the same precision."""
    times = group["times_ms"]
    return verdict.estimate([peer / ours for peer, ours in zip(times[name], times[survey.OURS])])


def share_of_limit(group, name):
    """The median of the limit / the time of a program; None without a limit."""
    pairs = zip(group["limit_ms"], group["times_ms"][name])
    shares = [limit / ms for limit, ms in pairs if limit]
    return statistics.median(shares) if shares else None


def best_peer(group):
    """The fastest program that is not libtrain; None without one."""
    others = [name for name in group["times_ms"] if not name.startswith(survey.OURS)]
    return min(others, key=lambda name: statistics.median(group["times_ms"][name]), default=None)


def ordered(group):
    """libtrain, libtrain in float32, then the peers by time."""
    times = group["times_ms"]
    return sorted(times, key=lambda name: (name != survey.OURS, name != survey.OURS_FLOAT32,
                                           statistics.median(times[name])))


def interval_text(estimate):
    if estimate.low is None:
        return ""
    return "%.2f to %.2f" % (estimate.low, estimate.high)


def bound_text(group, name):
    bound = group["bound"].get(name)
    return "" if bound is None else "bound threads" if bound else "unbound threads"


def peer_line(group, name):
    times, ratio = group["times_ms"][name], ratio_to_ours(group, name)
    share = share_of_limit(group, name)
    return ("  %-26s %9.1f %9.1f %8.2f  %-14s %8s  %s" % (
        name, statistics.median(times), min(times), ratio.median, interval_text(ratio),
        "-" if share is None else "%.0f %%" % (100 * share), bound_text(group, name))).rstrip()


def group_lines(group):
    yield "%s, %s, %d rounds%s" % (group["row"], group["precision"], len(group["limit_ms"]),
                                   ", interrupted" if group.get("interrupted") else "")
    if group["times_ms"]:
        yield "  %-26s %9s %9s %8s  %-14s %8s" % ("", "median", "fastest", "time /", "95 %",
                                                  "share of")
        yield "  %-26s %9s %9s %8s  %-14s %8s" % ("", "(ms)", "(ms)", "libtrain", "interval",
                                                  "limit")
    for name in ordered(group):
        yield peer_line(group, name)
    limits = [limit for limit in group["limit_ms"] if limit]
    if limits:
        yield "  %-26s %9.1f %9.1f" % ("limit", statistics.median(limits), min(limits))
    for name, reason in group["failures"].items():
        yield "  %s failed: %s" % (name, reason)
    for name, reason in group.get("left_out", {}).items():
        yield "  %s left out: %s" % (name, reason)
    yield ""


def lines(groups):
    for group in groups:
        yield from group_lines(group)

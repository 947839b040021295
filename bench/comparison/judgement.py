"""The statistics of bench/ab and its rule. Pure functions over the times of a row:

    {"old": [one per round], "new": [...], "copy": [...]}                                    in us

A speed is a ratio of times of one round: OLD / NEW, so 0.9 is 10 % slower than OLD; the A/A speed
is OLD / COPY, of a build and a byte copy of it, and shows what the machine alone makes of a ratio.

The interval around a median is made of order statistics: of n sorted values, the k-th smallest and
the k-th largest, with the largest k for which 2 P(B < k) <= 5 %, where B is the number of heads of
n fair coins. It holds the true median with a probability of at least 95 %, whatever the
distribution of the values, and needs 6 of them."""
import collections
import math
import statistics

CONFIDENCE_PERCENT = 95
ROUNDS_MIN = 6  # 2 / 2^6 is the first power below 5 %

SPEED_MIN = 0.97
SHORT_US = 0.1  # rows that OLD does in less are judged by their difference in ns
SLOWER_NS_MAX = 5.0
ACCEPTED_SPEED_MIN = 0.90  # no reason accepts more than that
LOST_PERCENT_MAX = 2

LOST, ACCEPTED, GAINED, EVEN, UNKNOWN = "LOST", "accepted", "gained", "", "too few rounds"

Estimate = collections.namedtuple("Estimate", "median low high")

# speed, same: Estimate of OLD / NEW and of OLD / COPY. slower_ns, same_ns: of NEW - OLD and of
# COPY - OLD.
Judgement = collections.namedtuple("Judgement",
                                   "old_us new_us rounds speed same slower_ns same_ns verdict")

Summary = collections.namedtuple("Summary", "judged lost accepted gained unsure unknown disturbed")


# ---- statistics ----------------------------------------------------------------------------------

def interval(values):
    """(low, high), which hold the median of the distribution with a probability of at least 95 %;
    None where there are too few values for that."""
    ordered, count = sorted(values), len(values)
    rank, at_most = 0, 1  # at_most: of the 2^count outcomes of the coins, those with B <= rank
    while 2 * at_most * 100 <= (100 - CONFIDENCE_PERCENT) << count:
        rank += 1
        at_most += math.comb(count, rank)
    return (ordered[rank - 1], ordered[count - rank]) if rank > 0 else None


def estimate(values):
    """The median and its interval; None without values, and no interval of too few."""
    if not values:
        return None
    low, high = interval(values) or (None, None)
    return Estimate(statistics.median(values), low, high)


# ---- the rule ------------------------------------------------------------------------------------

def is_short(judgement):
    return judgement.old_us < SHORT_US


def has_lost(judgement):
    """Slower by more than is allowed, and by more than OLD and its copy differ."""
    if is_short(judgement):
        slower, same = judgement.slower_ns, judgement.same_ns
        return slower.median > SLOWER_NS_MAX and slower.low > same.high
    speed, same = judgement.speed, judgement.same
    return speed.high < SPEED_MIN and speed.high < same.low


def has_gained(judgement):
    """The reverse."""
    if is_short(judgement):
        slower, same = judgement.slower_ns, judgement.same_ns
        return slower.median < -SLOWER_NS_MAX and slower.high < same.low
    speed, same = judgement.speed, judgement.same
    return speed.low > 1 / SPEED_MIN and speed.low > same.high


def may_have_lost(judgement):
    """Whether the interval reaches to where a row has lost."""
    if is_short(judgement):
        return judgement.slower_ns.high > SLOWER_NS_MAX
    return judgement.speed.low < SPEED_MIN


def is_disturbed(judgement):
    """Whether the copy alone would have lost or gained, but for the comparison with itself."""
    if is_short(judgement):
        return abs(judgement.same_ns.median) > SLOWER_NS_MAX
    return judgement.same.high < SPEED_MIN or judgement.same.low > 1 / SPEED_MIN


def verdict_of(judgement, reason):
    if judgement.speed.low is None:
        return UNKNOWN
    if has_lost(judgement):
        acceptable = reason is not None and judgement.speed.high >= ACCEPTED_SPEED_MIN
        return ACCEPTED if acceptable else LOST
    return GAINED if has_gained(judgement) else EVEN


def judge(times_us, reason=None):
    """The Judgement of a row; None where it was not measured. reason: why a loss is accepted."""
    measured = list(zip(times_us["old"], times_us["new"], times_us["copy"]))
    if not measured:
        return None
    old, new, copy = zip(*measured)
    judgement = Judgement(
        statistics.median(old), statistics.median(new), len(old),
        estimate([a / b for a, b in zip(old, new)]), estimate([a / b for a, b in zip(old, copy)]),
        estimate([1e3 * (b - a) for a, b in zip(old, new)]),
        estimate([1e3 * (b - a) for a, b in zip(old, copy)]), None)
    return judgement._replace(verdict=verdict_of(judgement, reason))


def speeds_together(several):
    """(of NEW, of the copy): the Estimates of the geometric mean of several rows' speeds in a
    round, over the rounds that all of them have; (None, None) where there are none."""
    count = min((min(map(len, times_us.values())) for times_us in several), default=0)
    return tuple(estimate([statistics.geometric_mean(
        times_us["old"][index] / times_us[side][index] for times_us in several)
        for index in range(count)]) for side in ("new", "copy"))


def summarize(judgements):
    """How many rows came out how. unsure: not lost, but their interval does not exclude it.
    disturbed: see is_disturbed."""
    found = [judgement for judgement in judgements if judgement]
    judged = [judgement for judgement in found if judgement.verdict != UNKNOWN]
    counts = collections.Counter(judgement.verdict for judgement in judged)
    unsure = [judgement for judgement in judged
              if judgement.verdict in (EVEN, GAINED) and may_have_lost(judgement)]
    return Summary(len(judged), counts[LOST], counts[ACCEPTED], counts[GAINED], len(unsure),
                   len(found) - len(judged), sum(map(is_disturbed, judged)))


def lost_max(judged):
    """How many of so many rows may lose."""
    return judged * LOST_PERCENT_MAX // 100


def passes(summary):
    return summary.lost <= lost_max(summary.judged)

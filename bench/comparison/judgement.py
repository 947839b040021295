"""Whether rows got slower: the rule of comparisons in which every round runs OLD, NEW and OLD once
more. Pure functions over the times of a row:

    {"old": [one per round], "new": [...], "copy": [...]}                                    in us

A speed is a ratio of times of one round: OLD / NEW, so 0.9 is 10 % slower than OLD; the A/A speed
is OLD / COPY, and shows what the machine alone makes of a ratio."""
import collections
import statistics

from comparison import rounds

SIDES = ("old", "new", "copy")

# speed_min: below, a row has lost. short_us: rows that OLD does in less are judged by their
# difference in ns.
Rule = collections.namedtuple("Rule", "speed_min short_us")
BUILDS = Rule(0.97, 0.1)
SLOWER_NS_MAX = 5.0
ACCEPTED_SPEED_MIN = 0.90  # no reason accepts more than that
LOST_PERCENT_MAX = 2

LOST, ACCEPTED, GAINED, EVEN, UNKNOWN = "LOST", "accepted", "gained", "", "too few rounds"

# speed, same: Estimate of OLD / NEW and of OLD / COPY. slower_ns, same_ns: of NEW - OLD and of
# COPY - OLD.
Judgement = collections.namedtuple("Judgement",
                                   "old_us new_us rounds speed same slower_ns same_ns verdict")

Summary = collections.namedtuple("Summary", "judged lost accepted gained unsure unknown disturbed")


def is_short(judgement, rule=BUILDS):
    return judgement.old_us < rule.short_us


def has_lost(judgement, rule):
    """Slower by more than is allowed, and by more than OLD and its copy differ."""
    if is_short(judgement, rule):
        slower, same = judgement.slower_ns, judgement.same_ns
        return slower.median > SLOWER_NS_MAX and slower.low > same.high
    speed, same = judgement.speed, judgement.same
    return speed.high < rule.speed_min and speed.high < same.low


def has_gained(judgement, rule):
    """The reverse."""
    if is_short(judgement, rule):
        slower, same = judgement.slower_ns, judgement.same_ns
        return slower.median < -SLOWER_NS_MAX and slower.high < same.low
    speed, same = judgement.speed, judgement.same
    return speed.low > 1 / rule.speed_min and speed.low > same.high


def may_have_lost(judgement, rule):
    """Whether the interval reaches to where a row has lost."""
    if is_short(judgement, rule):
        return judgement.slower_ns.high > SLOWER_NS_MAX
    return judgement.speed.low < rule.speed_min


def is_disturbed(judgement, rule):
    """Whether the copy alone would have lost or gained, but for the comparison with itself."""
    if is_short(judgement, rule):
        return abs(judgement.same_ns.median) > SLOWER_NS_MAX
    return judgement.same.high < rule.speed_min or judgement.same.low > 1 / rule.speed_min


def verdict_of(judgement, reason, rule):
    if judgement.speed.low is None:
        return UNKNOWN
    if has_lost(judgement, rule):
        acceptable = reason is not None and judgement.speed.high >= ACCEPTED_SPEED_MIN
        return ACCEPTED if acceptable else LOST
    return GAINED if has_gained(judgement, rule) else EVEN


def judge(times_us, reason=None, rule=BUILDS):
    """The Judgement of a row; None where it was not measured. reason: why a loss is accepted."""
    measured = list(zip(*(times_us[side] for side in SIDES)))
    if not measured:
        return None
    old, new, copy = zip(*measured)
    judgement = Judgement(
        statistics.median(old), statistics.median(new), len(old),
        rounds.estimate(rounds.quotients(old, new)), rounds.estimate(rounds.quotients(old, copy)),
        rounds.estimate([1e3 * (b - a) for a, b in zip(old, new)]),
        rounds.estimate([1e3 * (b - a) for a, b in zip(old, copy)]), None)
    return judgement._replace(verdict=verdict_of(judgement, reason, rule))


def speeds_together(several):
    """(of NEW, of the copy): the Estimates of the geometric mean of several rows' speeds in a
    round, over the rounds that all of them have; (None, None) where there are none."""
    count = min((min(map(len, times_us.values())) for times_us in several), default=0)
    return tuple(rounds.estimate([statistics.geometric_mean(
        times_us["old"][index] / times_us[side][index] for times_us in several)
        for index in range(count)]) for side in ("new", "copy"))


def summarize(judgements, rule=BUILDS):
    """How many rows came out how. unsure: not lost, but their interval does not exclude it.
    disturbed: see is_disturbed."""
    found = [judgement for judgement in judgements if judgement]
    judged = [judgement for judgement in found if judgement.verdict != UNKNOWN]
    counts = collections.Counter(judgement.verdict for judgement in judged)
    unsure = [judgement for judgement in judged
              if judgement.verdict in (EVEN, GAINED) and may_have_lost(judgement, rule)]
    return Summary(len(judged), counts[LOST], counts[ACCEPTED], counts[GAINED], len(unsure),
                   len(found) - len(judged), sum(is_disturbed(one, rule) for one in judged))


def lost_max(judged):
    """How many of so many rows may lose."""
    return judged * LOST_PERCENT_MAX // 100


def passes(summary):
    return summary.lost <= lost_max(summary.judged)

"""Contenders that take turns, round after round, so that a disturbance of the machine affects all
of them, and the statistics of their times. Only times of the same round are compared: a machine may
be twice as slow for minutes."""
import collections
import math
import statistics

from comparison import launch

CONFIDENCE_PERCENT = 95
ROUNDS_MIN = 6  # of an interval: 2 / 2^6 is the first power below 5 %

Estimate = collections.namedtuple("Estimate", "median low high")


# ---- taking turns --------------------------------------------------------------------------------

def shuffled(chance):
    """Orders of a round: random ones. chance: random.Random."""
    return lambda contenders: chance.sample(contenders, len(contenders))


def alternating(number):
    """Every other round in reverse order."""
    return lambda contenders: contenders[::-1 if number % 2 else 1]


def take_turns(contenders, order, measure, failed=None):
    """One round: [(contender, what measure(contender) returned)]. failed(contender, failure) is
    told of a launch.Failure, and may return what counts all the same; without it, or if it raises,
    the round ends."""
    found = []
    for contender in order(list(contenders)):
        try:
            found.append((contender, measure(contender)))
        except launch.Failure as failure:
            if failed is None:
                raise
            partial = failed(contender, failure)
            if partial is not None:
                found.append((contender, partial))
    return found


def repeat(count, one_round):
    """one_round(number) so often. Whether the user ended it before."""
    try:
        for number in range(count):
            one_round(number)
    except KeyboardInterrupt:
        return True
    return False


# ---- statistics ----------------------------------------------------------------------------------

def interval(values):
    """(low, high), which hold the median of the distribution with a probability of at least 95 %,
    whatever the distribution; None where there are too few values for that.

    They are order statistics: of n sorted values, the k-th smallest and the k-th largest, with the
    largest k for which 2 P(B < k) <= 5 %, where B is the number of heads of n fair coins."""
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


def quotients(dividends, divisors):
    """Of each round that has both."""
    return [above / below for above, below in zip(dividends, divisors) if above and below]


def median(values):
    """Of those that were measured; None without any."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None

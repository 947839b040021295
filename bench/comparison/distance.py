"""How far apart two cores are. The host of a virtual machine may move its cores while they idle, to
others that share a cache or not: flags that crossed in 60 ns then take 300, while what goes by
memory may take half as long, and any two programs that ran before and after do not compare. So
launches are made while the cores are as far apart as they mostly are, which a pause may bring
about, and those of a round under the same conditions, if these last for long enough."""
import collections
import statistics
import time

ALIKE = 1.5
PAUSE_SECONDS = 0.5
PATIENCE_SECONDS = 10  # of a round

# found: what the launch measured; flags_us: a barrier's time before and after it.
Launch = collections.namedtuple("Launch", "contender found flags_us")


def alike(one_us, other_us):
    return max(one_us, other_us) <= ALIKE * min(one_us, other_us)


def usual_us(launches):
    """What most launches of a round found; the nearer of two."""
    return statistics.median_low(flag for launch in launches for flag in launch.flags_us)


def apart(launches):
    """Those of a round that found the cores nearer or farther apart than most did."""
    return [launch for launch in launches
            if not all(alike(flag, usual_us(launches)) for flag in launch.flags_us)]


class Distance:
    """measure() returns how long a barrier of flags takes now, in us."""

    def __init__(self, measure, sleep=time.sleep):
        self.measure, self.sleep = measure, sleep
        self.seen_us = []
        self.patience = 0

    def begin_round(self):
        self.patience = PATIENCE_SECONDS

    def now_us(self):
        self.seen_us.append(self.measure())
        return self.seen_us[-1]

    def usual_us(self):
        """What most looks found; the nearer of two."""
        return statistics.median_low(self.seen_us)

    def settled_us(self, wanted_us=None):
        """The distance, once it is the wanted one (by default the usual one), or once this round's
        patience is at its end."""
        flag_us = self.now_us()
        while not alike(flag_us, wanted_us or self.usual_us()) and self.patience > 0:
            self.sleep(PAUSE_SECONDS)
            self.patience -= PAUSE_SECONDS
            flag_us = self.now_us()
        return flag_us

"""The latency of a flag between two cores, which changes over time in a virtual machine. The
host may move virtual cores, while they idle, to physical cores that share a cache or that do
not. A flag that took 60 ns then takes 300 ns, while a copy through memory may take half as long,
so that programs that ran before and after cannot be compared. A launch therefore waits, for a
limited time, until the latency is the usual one, and a round repeats launches whose latency
differed from that of most others."""
import collections
import statistics
import time

SIMILAR_RATIO = 1.5
PAUSE_SECONDS = 0.5
WAIT_SECONDS_MAX = 10  # per round

# found: what the launch measured; flags_us: the time of a barrier before and after it.
Launch = collections.namedtuple("Launch", "contender found flags_us")


def is_similar(one_us, other_us):
    return max(one_us, other_us) <= SIMILAR_RATIO * min(one_us, other_us)


def usual_us(launches):
    """The median over the launches of a round, the lower one of two."""
    return statistics.median_low(flag for launch in launches for flag in launch.flags_us)


def outliers(launches):
    """The launches of a round whose latency differs from that of most."""
    return [launch for launch in launches
            if not all(is_similar(flag, usual_us(launches)) for flag in launch.flags_us)]


class CoreLatency:
    """measure() returns the time of a barrier of flags, in us."""

    def __init__(self, measure, sleep=time.sleep):
        self.measure, self.sleep = measure, sleep
        self.measured_us = []
        self.wait_seconds_left = 0

    def begin_round(self):
        self.wait_seconds_left = WAIT_SECONDS_MAX

    def now_us(self):
        self.measured_us.append(self.measure())
        return self.measured_us[-1]

    def usual_us(self):
        """The median of all measurements, the lower one of two."""
        return statistics.median_low(self.measured_us)

    def wait_until_usual_us(self, wanted_us=None):
        """Waits until the latency is similar to wanted_us (default: the usual one), or until the
        waiting time of this round is used up. Returns the latest latency."""
        flag_us = self.now_us()
        while not is_similar(flag_us, wanted_us or self.usual_us()) and self.wait_seconds_left > 0:
            self.sleep(PAUSE_SECONDS)
            self.wait_seconds_left -= PAUSE_SECONDS
            flag_us = self.now_us()
        return flag_us

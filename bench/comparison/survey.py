"""Rounds of collectives: contenders take turns at rows (see figures), peers with several settings.
Settings that were not near their peer's best one in the first round do not run again, and a
contender that failed does not either; what it measured before counts."""
from comparison import figures, launch, rounds
from comparison.contenders.collectives import LIMIT

SLOWER_MAX = 1.15  # times as slow as the peer's best setting in some row


class Survey:
    """rows: {(collective, bytes): row}. effort: (rounds, time in ms of the timed calls of a row in
    a launch). place: what failures say besides contender and reason. wait(progress): before each
    round; returns what disturbs it (idle.wait)."""

    def __init__(self, rows, running, effort, place, wait=lambda _progress: None):
        self.rows, self.running, self.place, self.wait = rows, list(running), place, wait
        self.rounds, self.time_ms = effort
        self.failures, self.disturbed = [], []

    def launch(self, contender, number):
        """{(collective, bytes): us, or of the limit {part or variant: us}} in that round."""
        raise NotImplementedError

    def where(self):
        return ", ".join("%s %s" % (value, name) if isinstance(value, int) else value
                         for name, value in self.place.items())

    def failed(self, contender, failure, progress):
        progress.say("%s, %s: %s" % (contender.name, self.where(), failure))
        self.failures.append({"contender": contender.name, "reason": str(failure), **self.place})
        self.running.remove(contender)
        return failure.times

    def one_round(self, number, progress):
        """[(contender, what it measured)]."""
        def launch_one(contender):
            try:
                return self.launch(contender, number)
            finally:
                progress.step("%s, round %d: %s" % (self.where(), number + 1, contender.name))
        return rounds.take_turns(self.running, rounds.alternating(number), launch_one,
                                 lambda *how: self.failed(*how, progress))

    def record(self, contender, found):
        for key, us in found.items():
            if key not in self.rows:
                continue
            row = self.rows[key]
            if contender.name == LIMIT:
                for part, part_us in us.items():
                    row["limit"].setdefault(part, []).append(part_us)
            else:
                row["times_us"].setdefault(contender.name, []).append(us)

    def is_near(self, row, name, best):
        return figures.time_us(row, name) <= SLOWER_MAX * best[figures.family_of(name)][0]

    def drop_slow(self):
        near = {LIMIT, *figures.OURS}
        for row in self.rows.values():
            best = figures.best_settings(row)
            near |= {name for name in row["times_us"]
                     if name not in figures.OURS and self.is_near(row, name, best)}
        self.running = [contender for contender in self.running if contender.name in near]

    def run(self, progress):
        """The rows."""
        for number in range(self.rounds):
            disturbance = self.wait(progress)
            if disturbance is not None:
                self.disturbed.append({"round": number + 1, "idle": disturbance, **self.place})
            for contender, found in self.one_round(number, progress):
                self.record(contender, found)
            if number == 0:
                self.drop_slow()
        return list(self.rows.values())


def check(found, keys):
    """Raises Failure where a contender did not measure these rows."""
    if sorted(found) != sorted(keys):
        raise launch.Failure("measured %s bytes instead of %s" % (
            sorted(size for _, size in found), sorted(size for _, size in keys)))
    return found

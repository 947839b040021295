"""Rounds of collectives: contenders take turns at rows (see figures), peers with several settings.
Settings that were not near their peer's best one in the first round do not run again, and a
contender that failed does not either; what it measured before counts."""
from comparison import core_latency, figures, launch, rounds
from comparison.contenders.collectives import LIMIT

SLOWER_MAX = 1.15  # times as slow as the peer's best setting in some row
ATTEMPTS_MAX = 3   # repetitions of launches with an unusual latency


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


class Steady(Survey):
    """A launch waits until the latency between the cores is the usual one, and those during which
    it differed from that of most launches of the round are repeated. latency: CoreLatency."""

    def __init__(self, rows, running, effort, place, latency, **waiting):
        super().__init__(rows, running, effort, place, **waiting)
        self.latency = latency
        self.launches = self.outlier_launches = 0

    def launch_seconds(self):
        """The estimated time of one launch."""
        return 1

    def timed_launch(self, contender, number, progress, wanted_us):
        before_us = self.latency.wait_until_usual_us(wanted_us)
        try:
            found = self.launch(contender, number)
        except launch.Failure as failure:
            found = self.failed(contender, failure, progress)
        return core_latency.Launch(contender, found, (before_us, self.latency.now_us()))

    def one_round(self, number, progress):
        to_run, launches, wanted_us = rounds.alternating(number)(list(self.running)), {}, None
        self.latency.begin_round()
        for attempt in range(ATTEMPTS_MAX):
            for contender in to_run:
                made = self.timed_launch(contender, number, progress, wanted_us)
                if contender not in launches or len(made.found) >= len(launches[contender].found):
                    launches[contender] = made
                progress.step("%s, round %d: %s" % (self.where(), number + 1, contender.name),
                              0 if attempt else self.launch_seconds())
            outliers = core_latency.outliers(launches.values())
            to_run = [made.contender for made in outliers if made.contender in self.running]
            wanted_us = core_latency.usual_us(launches.values())
        self.launches += len(launches)
        self.outlier_launches += len(outliers)
        return [(contender, made.found) for contender, made in launches.items()]


def counts(surveys):
    """Of launches."""
    return {"all": sum(each.launches for each in surveys),
            "apart": sum(each.outlier_launches for each in surveys)}


def apart_lines(document):
    """Says which share of the launches is not comparable. document["launches"]: counts()."""
    launches = document.get("launches")
    if launches and launches["apart"]:
        yield "%d of %d launches had a core-to-core latency unlike most of their round" \
            % (launches["apart"], launches["all"])


def merge_counts(documents):
    found = [document["launches"] for document in documents if "launches" in document]
    return {name: sum(count[name] for count in found) for name in ("all", "apart")}


def check(found, keys):
    """Raises Failure where a contender did not measure these rows."""
    if sorted(found) != sorted(keys):
        raise launch.Failure("measured %s bytes instead of %s" % (
            sorted(size for _, size in found), sorted(size for _, size in keys)))
    return found

"""Measures builds: round after round, each unit of rows in random order, and each unit by OLD, NEW
and the copy of OLD one right after the other, in random order too. A row's time in a round is
collbench's (the median of 10 batches). What a round measured of a unit counts only where all three
did."""
import collections
import json
import os
import random
import time

from comparison import launch, rounds, rows
from comparison.contenders import builds
from comparison.judgement import SIDES

ITERATIONS_MAX = 1000000  # the time limit ends a row's calls long before
ATTEMPTS_MAX = 2  # a unit that failed so often is left alone

# folder: of the programs that run. shown: the folder of the build, for commands in messages.
Side = collections.namedtuple("Side", "name folder shown environment")

# time_ms: of the timed calls of a row in a launch. limit_s: after which a launch has failed.
Effort = collections.namedtuple("Effort", "seconds rounds time_ms place arguments limit_s seed")


# start(folder, ranks): the words that start ranks of the build in the folder; run: launch.run, or
# the same for where these words start them.
Place = collections.namedtuple("Place", "start run")
HERE = Place(launch.collrun, launch.run)


def command(start, folder, unit, effort, checked, json_path):
    line = [*start(folder, unit.ranks), *launch.collbench(folder, unit.collective)]
    if unit.memory:
        place = effort.place
        line += ["--mem", unit.memory, "--sizes", ",".join(map(str, unit.sizes))]
    else:
        place = "out"
    return line + ["-n", str(ITERATIONS_MAX), "--time-ms", str(effort.time_ms), "--place", place,
                   "-c", "1" if checked else "0", *effort.arguments, "--json", json_path]


def read_outcomes(document, unit):
    """{size: (us, algorithm)}. Raises Failure where that is not what was asked for."""
    outcomes = [row["out_of_place"] or row["in_place"] for row in document["rows"]]
    if len(outcomes) != len(unit.sizes):
        raise launch.Failure("%d rows instead of %d" % (len(outcomes), len(unit.sizes)))
    for outcome in outcomes:
        if not outcome or not outcome["time_us"] > 0:
            raise launch.Failure("a row without a time")
        if outcome["wrong"]:
            raise launch.Failure("%d wrong elements" % outcome["wrong"])
    return {size: (outcome["time_us"], outcome["algo"])
            for size, outcome in zip(unit.sizes, outcomes)}


class Survey:
    """rows: {name: {"times_us": {side: [...]}, "algorithms": {side: [names]}, ...}}; failures: what
    went wrong; rounds: how many were completed."""

    def __init__(self, sides, units, effort, place=HERE, clock=time.monotonic):
        self.sides, self.units, self.effort = sides, list(units), effort
        self.place, self.clock = place, clock
        self.random = random.Random(effort.seed)
        self.rounds, self.failures, self.interrupted = 0, [], False
        self.attempts = collections.Counter()
        self.turn_s = 0
        self.rows = {rows.row_name(unit, size): {
            "name": rows.row_name(unit, size), "collective": unit.collective, "ranks": unit.ranks,
            "memory": unit.memory, "bytes": size, "times_us": {side: [] for side in SIDES},
            "algorithms": {side: [] for side in SIDES}} for unit in units for size in unit.sizes}

    def launch(self, side, unit):
        """{size: (us, algorithm)}. The first round also checks the results."""
        path = os.path.join(side.folder, "rows.json")
        environment = {**builds.library_variables(side.folder), **side.environment}
        line = command(self.place.start, side.folder, unit, self.effort, self.rounds == 0, path)
        self.place.run(line, environment, self.effort.limit_s)
        try:
            with open(path, encoding="utf-8") as file:
                return read_outcomes(json.load(file), unit)
        except (OSError, ValueError, KeyError, TypeError) as trouble:
            raise launch.Failure("no readable results: %r" % trouble) from None

    def note_failure(self, side, unit, failure, progress):
        shown = ["%s=%s" % pair for pair in side.environment.items()]
        shown += command(self.place.start, side.shown, unit, self.effort, self.rounds == 0,
                         "rows.json")
        found = {"side": side.name, "unit": rows.unit_name(unit), "round": self.rounds + 1,
                 "reason": str(failure), "command": " ".join(shown),
                 "output": (failure.output + failure.errors)}
        self.failures.append(found)
        self.attempts[unit] += 1
        progress.say("%s, %s: %s" % (found["side"], found["unit"], found["reason"]))
        if self.attempts[unit] == ATTEMPTS_MAX:
            self.units.remove(unit)
            progress.say("%s is left out from here on" % found["unit"])

    def measure(self, unit, progress):
        """The unit's turn in a round, by every side."""
        def launch_side(side):
            began = self.clock()
            try:
                return self.launch(side, unit)
            except launch.Failure as failure:
                self.note_failure(side, unit, failure, progress)
                raise
            finally:
                progress.step("round %d: %s" % (self.rounds + 1, rows.unit_name(unit)),
                              self.share_of(self.clock() - began))
        try:
            found = rounds.take_turns(self.sides, rounds.shuffled(self.random), launch_side)
        except launch.Failure:
            return
        for side, outcomes in found:
            for size, (time_us, algorithm) in outcomes.items():
                row = self.rows[rows.row_name(unit, size)]
                row["times_us"][side.name].append(time_us)
                if algorithm and algorithm not in row["algorithms"][side.name]:
                    row["algorithms"][side.name].append(algorithm)

    def share_of(self, seconds):
        """What a launch is worth to the progress line: seconds, or one launch of so many rounds."""
        return 1 if self.effort.rounds else seconds

    def work(self):
        """In the unit of share_of."""
        if self.effort.rounds:
            return self.effort.rounds * len(self.units) * len(self.sides)
        return self.effort.seconds

    def is_over(self, spent_s):
        """Whether one more turn, as long as the last one, would not fit. The first round does."""
        if self.effort.rounds or self.rounds == 0:
            return False
        return spent_s + self.turn_s > self.effort.seconds

    def one_round(self, began, progress):
        """False where the time ran out."""
        for unit in self.random.sample(self.units, len(self.units)):
            turn = self.clock()
            if self.is_over(turn - began):
                return False
            self.measure(unit, progress)
            self.turn_s = self.clock() - turn
        self.rounds += 1
        return True

    def warn(self, seconds, progress):
        """After the first round, which took so long."""
        if self.effort.rounds or seconds * rounds.ROUNDS_MIN <= self.effort.seconds:
            return
        progress.say("a round takes %.0f s, and a verdict %d rounds: --time %.0f, or fewer rows"
                     % (seconds, rounds.ROUNDS_MIN, 1.2 * seconds * rounds.ROUNDS_MIN))

    def run(self, progress):
        """Until the time is spent or the rounds are made, or the user interrupts."""
        began = self.clock()
        try:
            while self.units and self.rounds != self.effort.rounds:
                if not self.one_round(began, progress):
                    break
                if self.rounds == 1:
                    self.warn(self.clock() - began, progress)
        except KeyboardInterrupt:
            self.interrupted = True
        progress.clear()


def check_sides(sides, effort, place=HERE):
    """A barrier by each, so that what cannot run at all is known at once, and what libcoll measures
    of a machine once is measured. Raises Failure that says whose it is."""
    for side in sides:
        survey = Survey([side], [rows.Unit(rows.BARRIER, 2, None, (0,))],
                        effort._replace(arguments=[], time_ms=1), place)
        try:
            survey.launch(side, survey.units[0])
        except launch.Failure as failure:
            raise launch.Failure(
                "%s (%s) cannot run: %s\n%s" % (side.name.upper(), side.shown, failure,
                                                failure.errors.strip())) from None

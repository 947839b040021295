"""Runs the contenders in turn, round after round, so that what disturbs the machine disturbs all of
them, and collects their times as rows (see figures)."""
import json
import os
import signal
import subprocess
import sys
import time

from comparison import contenders, figures

LAUNCH_SECONDS_MOST = 30
BEHIND = 1.15  # a setting this far behind its family's best is not run in later rounds

# What a launch costs besides its timed calls, in seconds: to start, and to fill and check the
# largest buffers, by each rank in turn where cores lack.
LAUNCH_SECONDS, FILL_SECONDS_PER_GIB = 0.7, 1.5
KEPT_SHARE = 0.75  # of the contenders, after the first round


def run_command(command, environment):
    """Its standard output. Raises Failure with the last of its errors."""
    everything = dict(contenders.clean_environment(), **environment)
    with subprocess.Popen(command, env=everything, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        try:
            output, errors = process.communicate(timeout=LAUNCH_SECONDS_MOST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise contenders.Failure("no end within %d s" % LAUNCH_SECONDS_MOST, output) from None
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise
    if process.returncode != 0:
        lines = [line.strip() for line in errors.splitlines() if any(map(str.isalnum, line))]
        raise contenders.Failure("exit code %d: %s" % (process.returncode,
                                                       lines[0] if lines else "no message"),
                                 output)
    return output


def clock_text(seconds):
    return "%d:%02d" % divmod(round(seconds), 60)


class Progress:
    """One line on a terminal: how far, on what, and for how long yet."""

    def __init__(self, seconds):
        self.seconds, self.done = seconds, 0
        self.began = time.monotonic()
        self.shown = sys.stderr.isatty()

    def step(self, text, seconds):
        """What was thought to take `seconds` is done."""
        self.done += seconds
        if not self.shown:
            return
        left = (time.monotonic() - self.began) / self.done * max(self.seconds - self.done, 0)
        sys.stderr.write("\r\x1b[K%3d %%  %s left  %s" % (
            min(100 * self.done / self.seconds, 100), clock_text(left), text))
        sys.stderr.flush()

    def say(self, text):
        self.clear()
        print(text, file=sys.stderr)

    def clear(self):
        if self.shown:
            sys.stderr.write("\r\x1b[K")


class Survey:
    """One collective among one number of ranks at all of its sizes, by all contenders."""

    def __init__(self, build, ranks, collective, sizes, found, effort):
        """effort: (rounds, ms that a launch's timed calls of one size take)."""
        self.build, self.ranks, self.collective = build, ranks, collective
        self.sizes = sorted({figures.size_for(collective, ranks, size) for size in sizes})
        self.running = [c for c in found if collective in c.collectives]
        self.rounds, self.time_ms = effort
        self.failures = []
        self.rows = {size: {"ranks": ranks, "collective": collective, "bytes": size,
                            "times_us": {}, "limit": {}} for size in self.sizes}

    def launch_seconds(self):
        """What one launch is thought to take."""
        crowding = max(1, self.ranks / len(contenders.own_cores()))
        filling = 4 * self.sizes[-1] / (1 << 30) * FILL_SECONDS_PER_GIB * crowding
        calls = 1.3 * self.time_ms / 1000 * len(self.sizes)
        return (LAUNCH_SECONDS + filling) * crowding ** 0.5 + calls

    def seconds(self):
        later = max(3, KEPT_SHARE * len(self.running))
        return (len(self.running) + 1 + (self.rounds - 1) * (later + 1)) * self.launch_seconds()

    def try_out(self, contender, progress):
        """{bytes: us}; when it fails, only of what it had measured, and the contender is out."""
        try:
            return contender.run(run_command, self.collective, self.sizes, self.time_ms)
        except contenders.Failure as failure:
            progress.say("%s, %s, %d ranks: %s" % (contender.name, self.collective, self.ranks,
                                                   failure))
            self.running.remove(contender)
            self.failures.append({"contender": contender.name, "reason": str(failure),
                                  "ranks": self.ranks, "collective": self.collective})
            return failure.times

    def one_round(self, number, progress):
        where = "%s, %d ranks, round %d: " % (self.collective, self.ranks, number + 1)
        order = list(self.running)
        for contender in order if number % 2 == 0 else reversed(order):
            for size, time_us in self.try_out(contender, progress).items():
                self.rows[size]["times_us"].setdefault(contender.name, []).append(time_us)
            progress.step(where + contender.name, self.launch_seconds())
        self.measure_limit()
        progress.step(where + "limit", self.launch_seconds())

    def measure_limit(self):
        command = contenders.limit_command(self.build, self.ranks, self.collective, self.sizes)
        found = json.loads(run_command(command, {}))
        flags = {name: time for name, time in found.items() if name.endswith("_us")}
        for moves in found["moves"]:
            row = self.rows[moves.pop("bytes")]
            for name, time_us in dict(moves, **flags).items():
                row["limit"].setdefault(name, []).append(time_us)

    def drop_laggards(self):
        """Of each peer's settings keeps those near its best at one size at least."""
        near = set(figures.OURS)
        for row in self.rows.values():
            best = figures.best_settings(row)
            near |= {name for name in row["times_us"] if name not in figures.OURS
                     and figures.time_us(row, name) <= BEHIND * best[figures.family_of(name)][0]}
        self.running = [c for c in self.running if c.name in near]

    def run(self, progress):
        """The rows."""
        done = progress.done + self.seconds()
        for number in range(self.rounds):
            self.one_round(number, progress)
            if number == 0:
                self.drop_laggards()
        progress.done = done
        return list(self.rows.values())


def run_all(surveys):
    """The rows of all; of those before it where one is interrupted."""
    seconds = sum(survey.seconds() for survey in surveys)
    progress = Progress(seconds)
    progress.say("%d collectives to measure, in about %s min" % (len(surveys), clock_text(seconds)))
    rows = []
    try:
        for survey in surveys:
            rows += survey.run(progress)
    except KeyboardInterrupt:
        if not rows:
            raise
        progress.say("interrupted: only what was complete is shown")
    progress.clear()
    took = time.monotonic() - progress.began
    progress.say("measured in %s min" % clock_text(took))
    return rows

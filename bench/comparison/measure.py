"""Runs the contenders in turn, round after round, so that what disturbs the machine disturbs all of
them, and collects their times as rows (see figures)."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

from comparison import contenders, distance, figures

LAUNCH_SECONDS_MOST = 30
BEHIND = 1.15  # a setting this far behind its family's best is not run in later rounds

# What a launch costs besides its timed calls, in seconds: to start, and to fill and check the
# largest buffers, by each rank in turn where cores lack.
LAUNCH_SECONDS, FILL_SECONDS_PER_GIB = 0.8, 1.5
KEPT_SHARE = 0.75  # of the contenders, after the first round

LIMIT = "limit"  # has its turn as contenders have theirs

ATTEMPTS_MOST = 3  # to have a round's launches under the same conditions


def end_group(process, number):
    with contextlib.suppress(ProcessLookupError):  # it may have ended just now
        os.killpg(process.pid, number)


def run_command(command, environment, seconds_most=LAUNCH_SECONDS_MOST):
    """Its standard output. Raises Failure with the first of its errors."""
    everything = dict(contenders.clean_environment(), **environment)
    with subprocess.Popen(command, env=everything, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        try:
            output, errors = process.communicate(timeout=seconds_most)
        except subprocess.TimeoutExpired:
            end_group(process, signal.SIGKILL)
            output, errors = process.communicate()
            raise contenders.Failure("no end within %g s" % seconds_most, output,
                                     errors) from None
        except BaseException:
            end_group(process, signal.SIGTERM)
            raise
    if process.returncode != 0:
        lines = [line.strip() for line in errors.splitlines() if any(map(str.isalnum, line))]
        raise contenders.Failure("exit code %d: %s" % (process.returncode,
                                                       lines[0] if lines else "no message"),
                                 output, errors)
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


def barrier_us(build):
    """Of flags between two cores, just now; always the same where there is but one."""
    if len(contenders.own_cores()) < 2:
        return 1.0
    command = contenders.limit_command(build, 2, "broadcast", [4])
    return json.loads(run_command(command, {}))["barrier_us"]


class Survey:
    """One collective among one number of ranks at all of its sizes, by all contenders."""

    def __init__(self, build, ranks, collective, sizes, found, effort, cores):
        """effort: (rounds, ms that a launch's timed calls of one size take); cores: Distance."""
        self.build, self.ranks, self.collective = build, ranks, collective
        self.sizes = sorted({figures.size_for(collective, ranks, size) for size in sizes})
        self.running = [c for c in found if collective in c.collectives]
        self.rounds, self.time_ms = effort
        self.distance = cores
        self.failures = []
        self.launches = self.launches_apart = 0
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

    def limit(self, progress):
        """{bytes: {name: us}}; that a machine stood still for once does not end the survey."""
        command = contenders.limit_command(self.build, self.ranks, self.collective, self.sizes)
        try:
            output = run_command(command, {})
        except contenders.Failure as failure:
            progress.say("limit, %s, %d ranks: %s; once more" % (self.collective, self.ranks,
                                                                 failure))
            output = run_command(command, {})
        found = json.loads(output)
        flags = {name: time for name, time in found.items() if name.endswith("_us")}
        return {moves.pop("bytes"): dict(moves, **flags) for moves in found["moves"]}

    def launch(self, contender, progress, wanted_us):
        before_us = self.distance.settled_us(wanted_us)
        found = self.limit(progress) if contender is LIMIT else self.try_out(contender, progress)
        return distance.Launch(contender, found, (before_us, self.distance.now_us()))

    def one_round(self, number, progress):
        """Everyone in turn, every other round backwards; then again, a few times at most, those for
        which the cores were nearer or farther apart than for most."""
        where = "%s, %d ranks, round %d: " % (self.collective, self.ranks, number + 1)
        waiting = [*self.running, LIMIT][::-1 if number % 2 else 1]
        launches, wanted_us = {}, None
        self.distance.begin_round()
        for attempt in range(ATTEMPTS_MOST):
            for contender in waiting:
                name = contender if contender is LIMIT else contender.name
                launch = self.launch(contender, progress, wanted_us)
                if name not in launches or len(launch.found) >= len(launches[name].found):
                    launches[name] = launch
                progress.step(where + name, 0 if attempt else self.launch_seconds())
            odd = distance.apart(launches.values())
            waiting = [launch.contender for launch in odd
                       if launch.contender in (LIMIT, *self.running)]
            wanted_us = distance.usual_us(launches.values())
        self.launches += len(launches)
        self.launches_apart += len(odd)
        self.record(launches)

    def record(self, launches):
        for name, launch in launches.items():
            for size, found in launch.found.items():
                row = self.rows[size]
                if name != LIMIT:
                    row["times_us"].setdefault(name, []).append(found)
                    continue
                for figure, time_us in found.items():
                    row["limit"].setdefault(figure, []).append(time_us)

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

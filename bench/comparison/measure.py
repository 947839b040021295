"""Runs the configurations in turn, round after round, so that a disturbance of the machine
affects all of them, and collects their times as rows (see figures)."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

from comparison.contenders import collectives as configurations
from comparison import core_latency, figures

LAUNCH_SECONDS_MAX = 30
# Later rounds omit settings of a peer that take more than this times as long as its best one.
SLOWER_MAX = 1.15

# Time of a launch besides its timed calls, in seconds: to start it, and to fill and check the
# largest buffers. With fewer cores than ranks, ranks do the latter one after another.
LAUNCH_SECONDS, FILL_SECONDS_PER_GIB = 0.8, 1.5
REMAINING_FRACTION = 0.75  # of the configurations, after the first round

LIMIT = "limit"  # runs in each round like a configuration

ATTEMPTS_MAX = 3  # repetitions of launches with an unusual latency


def end_group(process, number):
    with contextlib.suppress(ProcessLookupError):  # it may have exited meanwhile
        os.killpg(process.pid, number)


def run_both(command, environment, seconds_max):
    """Returns standard output and standard error. Raises Failure with the latter's first line."""
    full_environment = dict(configurations.clean_environment(), **environment)
    with subprocess.Popen(command, env=full_environment, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        try:
            output, errors = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            end_group(process, signal.SIGKILL)
            output, errors = process.communicate()
            raise configurations.Failure("did not finish within %g s" % seconds_max, output,
                                     errors) from None
        except BaseException:
            end_group(process, signal.SIGTERM)
            raise
    if process.returncode != 0:
        lines = [line.strip() for line in errors.splitlines() if any(map(str.isalnum, line))]
        raise configurations.Failure("exit code %d: %s" % (process.returncode,
                                                       lines[0] if lines else "no message"),
                                 output, errors)
    return output, errors


def run_command(command, environment, seconds_max=LAUNCH_SECONDS_MAX):
    """Returns the standard output. Raises Failure with the first line of standard error."""
    return run_both(command, environment, seconds_max)[0]


def clock_text(seconds):
    return "%d:%02d" % divmod(round(seconds), 60)


class Progress:
    """A progress line on a terminal: percentage, remaining time, current step."""

    def __init__(self, seconds):
        self.seconds, self.done = seconds, 0
        self.began = time.monotonic()
        self.shown = sys.stderr.isatty()

    def step(self, text, seconds):
        """A step with an estimated time of `seconds` is done."""
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
    """The current time of a barrier between two cores; 1 on a machine with one core."""
    if len(configurations.own_cores()) < 2:
        return 1.0
    command = configurations.limit_command(build, 2, "broadcast", [4])
    return json.loads(run_command(command, {}))["barrier_us"]


class Survey:
    """Measures one collective with one number of ranks at all sizes, with all configurations."""

    def __init__(self, build, ranks, collective, sizes, found, effort, latency):
        """effort: (rounds, time in ms of the timed calls of one size in a launch);
        latency: CoreLatency."""
        self.build, self.ranks, self.collective = build, ranks, collective
        self.sizes = sorted({figures.size_for(collective, ranks, size) for size in sizes})
        self.running = list(found)
        self.rounds, self.time_ms = effort
        self.latency = latency
        self.failures = []
        self.launches = self.outlier_launches = 0
        self.rows = {size: {"ranks": ranks, "collective": collective, "bytes": size,
                            "times_us": {}, "limit": {}} for size in self.sizes}

    def launch_seconds(self):
        """The estimated time of one launch."""
        oversubscription = max(1, self.ranks / len(configurations.own_cores()))
        filling = 4 * self.sizes[-1] / (1 << 30) * FILL_SECONDS_PER_GIB * oversubscription
        calls = 1.3 * self.time_ms / 1000 * len(self.sizes)
        return (LAUNCH_SECONDS + filling) * oversubscription ** 0.5 + calls

    def seconds(self):
        later = max(3, REMAINING_FRACTION * len(self.running))
        return (len(self.running) + 1 + (self.rounds - 1) * (later + 1)) * self.launch_seconds()

    def run_configuration(self, configuration, progress):
        """{bytes: us}. If the configuration fails: what it measured before, and it does not run
        again."""
        try:
            return configuration.run(run_command, self.collective, self.sizes, self.time_ms)
        except configurations.Failure as failure:
            progress.say("%s, %s, %d ranks: %s" % (configuration.name, self.collective, self.ranks,
                                                   failure))
            self.running.remove(configuration)
            self.failures.append({"contender": configuration.name, "reason": str(failure),
                                  "ranks": self.ranks, "collective": self.collective})
            return failure.times

    def limit(self, progress):
        """{bytes: {name: us}}. Retries once, in case the machine stalled."""
        command = configurations.limit_command(self.build, self.ranks, self.collective, self.sizes)
        try:
            output = run_command(command, {})
        except configurations.Failure as failure:
            progress.say("limit, %s, %d ranks: %s; retrying" % (self.collective, self.ranks,
                                                                 failure))
            output = run_command(command, {})
        found = json.loads(output)
        flags = {name: time for name, time in found.items() if name.endswith("_us")}
        return {moves.pop("bytes"): dict(moves, **flags) for moves in found["moves"]}

    def launch(self, configuration, progress, wanted_us):
        before_us = self.latency.wait_until_usual_us(wanted_us)
        if configuration is LIMIT:
            found = self.limit(progress)
        else:
            found = self.run_configuration(configuration, progress)
        return core_latency.Launch(configuration, found, (before_us, self.latency.now_us()))

    def one_round(self, number, progress):
        """Runs all configurations and the limit, every other round in reverse order. Then
        repeats the launches during which the latency between cores differed from that of most
        launches."""
        where = "%s, %d ranks, round %d: " % (self.collective, self.ranks, number + 1)
        to_run = [*self.running, LIMIT][::-1 if number % 2 else 1]
        launches, wanted_us = {}, None
        self.latency.begin_round()
        for attempt in range(ATTEMPTS_MAX):
            for configuration in to_run:
                name = configuration if configuration is LIMIT else configuration.name
                launch = self.launch(configuration, progress, wanted_us)
                if name not in launches or len(launch.found) >= len(launches[name].found):
                    launches[name] = launch
                progress.step(where + name, 0 if attempt else self.launch_seconds())
            outliers = core_latency.outliers(launches.values())
            to_run = [launch.configuration for launch in outliers
                      if launch.configuration in (LIMIT, *self.running)]
            wanted_us = core_latency.usual_us(launches.values())
        self.launches += len(launches)
        self.outlier_launches += len(outliers)
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

    def drop_slow_settings(self):
        """Drops the settings of a peer that are not close to its best setting at any size."""
        near = set(figures.OURS)
        for row in self.rows.values():
            best = figures.best_settings(row)
            near |= {name for name in row["times_us"] if name not in figures.OURS
                     and (figures.time_us(row, name)
                          <= SLOWER_MAX * best[figures.family_of(name)][0])}
        self.running = [c for c in self.running if c.name in near]

    def run(self, progress):
        """The rows."""
        done = progress.done + self.seconds()
        for number in range(self.rounds):
            self.one_round(number, progress)
            if number == 0:
                self.drop_slow_settings()
        progress.done = done
        return list(self.rows.values())


def run_all(surveys):
    """Runs all surveys and returns their rows. If interrupted: the rows of completed surveys."""
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
        progress.say("interrupted: showing complete results only")
    progress.clear()
    took = time.monotonic() - progress.began
    progress.say("measured in %s min" % clock_text(took))
    return rows

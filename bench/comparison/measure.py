"""Runs the contenders in turn, round after round, so that what disturbs the machine disturbs all of
them, and collects their times as rows (see figures)."""
import json
import os
import signal
import subprocess
import sys
import time

from comparison import contenders, figures

# Sizes up to these are measured by one launch: like sizes need like numbers of calls.
CHUNK_ENDS = (figures.KIB, 64 * figures.KIB, 4 * figures.MIB)
PILOT_ITERATIONS, PILOT_WARMUPS = 20, 5
ITERATIONS_LEAST, ITERATIONS_MOST = 10, 20000
LAUNCH_SECONDS_MOST = 120
BEHIND = 1.5  # a setting this far behind its family's best is not run in later rounds


def chunks_of(sizes):
    """The sizes in groups that one launch measures."""
    groups = {}
    for size in sizes:
        groups.setdefault(sum(size > end for end in CHUNK_ENDS), []).append(size)
    return [groups[key] for key in sorted(groups)]


def iterations_for(slowest_us, target_ms):
    """Timed calls that take about the target."""
    wanted = round(target_ms * 1000 / max(slowest_us, 1e-3))
    return min(max(wanted, ITERATIONS_LEAST), ITERATIONS_MOST)


def warmups_for(iterations):
    return max(4, iterations // 5)


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
            process.communicate()
            raise contenders.Failure("no end within %d s" % LAUNCH_SECONDS_MOST) from None
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise
    if process.returncode != 0:
        lines = [line.strip() for line in errors.splitlines() if any(map(str.isalnum, line))]
        raise contenders.Failure("exit code %d: %s" % (process.returncode,
                                                       lines[0] if lines else "no message"))
    return output


class Progress:
    """One line on a terminal: how far, on what, and for how long yet."""

    def __init__(self, steps):
        self.steps, self.done = steps, 0
        self.began = time.monotonic()
        self.shown = sys.stderr.isatty()

    def step(self, text, steps=1):
        self.done += steps
        if not self.shown:
            return
        left = (time.monotonic() - self.began) / self.done * (self.steps - self.done)
        sys.stderr.write("\r\x1b[K%3d %%  %d:%02d left  %s"
                         % (100 * self.done // self.steps, left // 60, left % 60, text))
        sys.stderr.flush()

    def say(self, text):
        self.clear()
        print(text, file=sys.stderr)

    def clear(self):
        if self.shown:
            sys.stderr.write("\r\x1b[K")


class Chunk:
    """One collective at a few sizes, for all contenders."""

    def __init__(self, survey, collective, sizes):
        self.survey, self.collective, self.sizes = survey, collective, sizes
        self.running = [c for c in survey.contenders if collective in c.collectives]
        self.iterations = {}
        self.rows = {size: {"ranks": survey.ranks, "collective": collective, "bytes": size,
                            "times_us": {}, "limit": {}} for size in sizes}

    def try_out(self, contender, iterations, warmups):
        """{bytes: us}; None, and the contender is out, when it fails."""
        try:
            return contender.run(run_command, self.collective, self.sizes, iterations, warmups)
        except contenders.Failure as failure:
            self.survey.progress.say("%s, %s: %s" % (contender.name, self.collective, failure))
            self.running.remove(contender)
            self.survey.failures.append({"contender": contender.name, "reason": str(failure),
                                         "collective": self.collective, "sizes": self.sizes})
            return None

    def pilot(self):
        for contender in list(self.running):
            times = self.try_out(contender, PILOT_ITERATIONS, PILOT_WARMUPS)
            if times:
                slowest = max(times.values())
                self.iterations[contender.name] = iterations_for(slowest, self.survey.target_ms)
            self.survey.step(self, "pilot", contender.name)

    def one_round(self, number):
        order = list(self.running)
        for contender in order if number % 2 == 0 else reversed(order):
            iterations = self.iterations[contender.name]
            times = self.try_out(contender, iterations, warmups_for(iterations))
            for size, time_us in (times or {}).items():
                self.rows[size]["times_us"].setdefault(contender.name, []).append(time_us)
            self.survey.step(self, "round %d" % (number + 1), contender.name)
        self.measure_limit()
        self.survey.step(self, "round %d" % (number + 1), "limit")

    def measure_limit(self):
        sizes = sorted({*self.sizes, figures.SLOT_BYTES})
        command = contenders.limit_command(self.survey.build, self.survey.ranks, sizes)
        found = json.loads(run_command(command, {}))
        copies = {copy["bytes"]: copy for copy in found["copies"]}
        for size, row in self.rows.items():
            figures_us = {"cached_us": copies[size]["cached_us"],
                          "streamed_us": copies[size]["streamed_us"],
                          "slot_us": copies[figures.SLOT_BYTES]["cached_us"],
                          "barrier_us": found["barrier_us"],
                          "round_trip_us": found["round_trip_us"]}
            for name, time_us in figures_us.items():
                row["limit"].setdefault(name, []).append(time_us)

    def drop_laggards(self):
        """Of each peer's settings keeps those near its best at one size at least."""
        near = set(figures.OURS)
        for row in self.rows.values():
            best = figures.best_settings(row)
            near |= {name for name in row["times_us"] if name not in figures.OURS
                     and figures.time_us(row, name) <= BEHIND * best[figures.family_of(name)][0]}
        self.running = [c for c in self.running if c.name in near]

    def measure(self):
        before = self.survey.progress.done
        self.pilot()
        for number in range(self.survey.rounds):
            self.one_round(number)
            if number == 0:
                self.drop_laggards()
        self.survey.progress.done = before + self.survey.steps_of(self.collective)
        return list(self.rows.values())


class Survey:
    """All collectives and sizes that were asked for."""

    def __init__(self, build, ranks, found, rounds, target_ms):
        self.build, self.ranks, self.contenders = build, ranks, found
        self.rounds, self.target_ms = rounds, target_ms
        self.failures = []
        self.progress = None

    def steps_of(self, collective):
        """Launches of one chunk when no contender is dropped."""
        count = sum(collective in c.collectives for c in self.contenders)
        return count + self.rounds * (count + 1)

    def step(self, chunk, stage, name):
        self.progress.step("%s to %s, %s: %s" % (chunk.collective,
                                                 figures.size_text(chunk.sizes[-1]), stage, name))

    def run(self, collectives, sizes):
        plan = []
        for collective in collectives:
            own = sorted({figures.size_for(collective, self.ranks, size) for size in sizes})
            plan += [Chunk(self, collective, chunk) for chunk in chunks_of(own)]
        self.progress = Progress(sum(self.steps_of(chunk.collective) for chunk in plan))
        rows = []
        try:
            for chunk in plan:
                rows += chunk.measure()
        except KeyboardInterrupt:
            if not rows:
                raise
            self.progress.say("interrupted: only what was complete is shown")
        self.progress.clear()
        return rows

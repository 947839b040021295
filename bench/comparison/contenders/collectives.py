"""Libraries whose collectives are timed on one machine: libcoll with each kind of memory, each peer
with a few documented settings, and plain copies. A contender makes a command line from
(collectives, sizes, time) and parses times from the output."""
import contextlib
import json
import os
import statistics
import tempfile

from comparison import figures, launch
from comparison.contenders import peers

ITERATIONS_MAX = 20000
LIMIT = "limit"


class Contender:
    """name: "coll", "malloc", "family/setting" or LIMIT. `environment` is added to that of this
    process."""

    def __init__(self, name, start, program, environment=None, arguments=()):
        self.name = name
        self.start, self.program = list(start), list(program)
        self.environment = environment or {}
        self.arguments = list(arguments)
        self.library = None  # name and version that the program prints, once it has run

    def command(self, collectives, sizes, time_ms, checks=None):
        """checks: of the results of each row; None: as many as the program makes by itself."""
        return [*self.start, *self.program, ",".join(collectives), "--sizes",
                ",".join(map(str, sizes)), "-n", str(ITERATIONS_MAX), "--time-ms", str(time_ms),
                *self.arguments, *(["-c", str(checks)] if checks is not None else [])]

    def describe(self):
        """Without the folders of the machine."""
        def short(word):
            return os.path.basename(word) if os.path.isabs(word) else word
        return {"command": [short(word) for word in self.start + self.program + self.arguments],
                "environment": {name: short(value) for name, value in self.environment.items()},
                "library": self.library}

    @contextlib.contextmanager
    def prepared(self):
        """Yields the environment of a launch."""
        yield self.environment

    def outcomes(self, output):
        """{(collective, bytes): (us, wrong)}"""
        found = {}
        for record in launch.json_lines(output):
            if "library" in record:
                self.library = " ".join(record["library"].replace("Version: ", "").split())
                continue
            found[record["collective"], record["bytes"]] = (
                statistics.median(record["batch_us"]), record["wrong"])
        return found

    def launch(self, runner, collectives, sizes, time_ms, checks):
        """What outcomes() returns."""
        with self.prepared() as environment:
            return self.outcomes(runner(self.command(collectives, sizes, time_ms, checks),
                                        environment))

    def run(self, runner, collectives, sizes, time_ms, checks=None):
        """{(collective, bytes): us}. Raises Failure if the command fails or a result is wrong."""
        try:
            found = self.launch(runner, collectives, sizes, time_ms, checks)
        except launch.Failure as failure:
            failure.times = right(self.outcomes(failure.output))
            raise
        wrong = [(count, *key) for key, (_, count) in found.items() if count]
        if wrong:
            raise launch.Failure("%d wrong elements in %s of %d bytes" % wrong[0])
        if not found:
            raise launch.Failure("measured nothing")
        return right(found)


class Ours(Contender):
    """libcoll, whose times are in a file that rank 0 writes. Each launch measures the costs by
    which the library chooses algorithms: the host may have moved the cores since an earlier one
    stored its costs in the cache folder."""

    def launch(self, runner, collectives, sizes, time_ms, checks):
        document = launch.run_json(self.command(collectives, sizes, time_ms, checks),
                                   self.environment, runner, fresh_costs=True)
        self.library = "libcoll " + document["libcoll"]
        return {(row["collective"], row["bytes"]): (row["out_of_place"]["time_us"],
                                                    row["out_of_place"]["wrong"])
                for row in document["rows"]}


class Gloo(Contender):
    """Its ranks find each other through a file in a folder, which must be empty."""

    @contextlib.contextmanager
    def prepared(self):
        with tempfile.TemporaryDirectory() as folder:
            yield dict(self.environment, GLOO_STORE=folder)


class Limit:
    """bench/limit, whose times have several parts: {"barrier_us", "round_trip_us", "one_way_us",
    "mapped_us", "staged_us", "crossing_us"}; some calls lack crossing_us (see figures)."""

    name = LIMIT

    def __init__(self, build, ranks):
        self.start = [os.path.join(build, "bench", "limit"), "-n", str(ranks), "--cpus",
                      ",".join(map(str, launch.own_cores()[:ranks]))]

    def command(self, collective, sizes):
        return [*self.start, "--sizes", ",".join(map(str, sizes)), collective]

    def run(self, runner, collectives, sizes, _time_ms=None, _checks=None):
        """{(collective, bytes): {part: us}}. Tries once more, in case the machine stalled."""
        command = self.command(collectives[0], sizes)
        try:
            found = json.loads(runner(command, {}))
        except launch.Failure:
            found = json.loads(runner(command, {}))
        flags = {name: time for name, time in found.items() if name.endswith("_us")}
        return {(collectives[0], moves.pop("bytes")): dict(moves, **flags)
                for moves in found["moves"]}


def barrier_us(build):
    """The current time of a barrier between two cores; 1 on a machine with one core."""
    if len(launch.own_cores()) < 2:
        return 1.0
    found = Limit(build, 2).run(launch.run, ["broadcast"], [4])
    return found["broadcast", 4]["barrier_us"]


def right(outcomes):
    """Calls of no bytes are of no interest."""
    return {key: time for key, (time, wrong) in outcomes.items() if not wrong and key[1] > 0}


# ---- all of them ---------------------------------------------------------------------------------

def placements(ranks, cores):
    """{suffix of a setting: argument of `pin`}. With enough cores, one core per rank. With
    fewer: blocks of ranks of equal size on each core, as collrun binds them, or unbound
    ("-any")."""
    if ranks <= len(cores):
        return {"": ",".join(map(str, cores[:ranks]))}
    if ranks % len(cores) != 0:
        return {"": "any"}
    share = ranks // len(cores)
    return {"": ",".join(str(core) for core in cores for _ in range(share)), "-any": "any"}


def make(root, build, ranks, memories, families, quick):
    """libcoll first, with the binding of collrun, then the peers, also unbound, and the limit."""
    made = []
    for suffix, cpus in placements(ranks, launch.own_cores()).items():
        pin = [os.path.join(root, "bench", "peers", "pin"), cpus]
        if not suffix:
            start = launch.collrun(build, ranks, "--bind", "none", *pin)
            made += [Ours(memory, start, launch.collbench(build),
                          arguments=["--mem", memory, "--place", "out"]) for memory in memories]
        for family in families:
            made += make_peer(root, build, ranks, family, quick, pin, suffix)
    return [*made, Limit(build, ranks)]


def make_peer(root, build, ranks, family, quick, pin, suffix):
    oversubscribed = ranks > len(launch.own_cores())
    kind = Gloo if family == "gloo" else Contender
    made = []
    for setting, parameters in peers.settings(family, oversubscribed, quick).items():
        start, environment = peers.launch(build, family, ranks, oversubscribed, parameters)
        made.append(kind("%s/%s%s" % (family, setting, suffix), start + pin,
                         peers.program(root, build, family), environment))
    return made


def libraries(described):
    """Their names and versions, each once, of {name: what describe() returned}."""
    found = {}
    for name, contender in described.items():
        if name != LIMIT:
            found.setdefault(figures.family_of(name), contender["library"])
    return ", ".join(dict.fromkeys(filter(None, found.values())))

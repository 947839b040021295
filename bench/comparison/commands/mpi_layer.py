"""Compares MPI programs with and without libcoll's MPI layer: is any collective slower with it?

A program that knows nothing of libcoll times every collective as OSU's benchmarks do (from a
barrier, the call alone, the slowest rank's mean). Every round runs it under each MPI without the
layer, with it, and without it once more, in random order. A row's speed is the median over the
rounds of the time without / the time with the layer: below 1, the layer is slower. A/A is the time
without / without once more, and shows by how much a row differs from itself. Intervals are those
of bench/ab: 95 %, from order statistics; they need 6 rounds.

The MPIs and the program's barrier between calls are the same in all three runs.

A row has LOST if its interval lies wholly below 1/1.05 and below that of A/A. "way" tells where
most calls of the row went in one more run, which counts them: to libcoll or to the MPI.

Every round also runs collbench, which calls libcoll without an MPI, with the same collectives,
sizes and ranks. A blocking row of 32 KiB or more is BEHIND if the interval of the time with the
layer / that of collbench lies wholly above 1.10: the layer adds too much, or passed what libcoll
does faster. With a root, 1.25: collbench makes its calls one after the other, without a barrier, so
that they overlap. Rows of alltoallv, gatherv and scatterv have no such verdict: the layer makes one
choice for all of their sizes.

Exit code: 0 if no row lost or is behind, 1 if some are, 2 if a run failed, 130 after Ctrl-C, which
shows what was measured so far."""
import os
import random
import re
import tempfile

from comparison import arguments, command, judgement as rule, launch, machine, rounds, sizes, table
from comparison.command import ROOT
from comparison.contenders import collbench, mpis
from comparison.plots import speeds

# A row is {"mpi": "openmpi", "verb": "allreduce", "bytes": 8, "way": "libcoll", "MPI" or None,
# "times_us": {"old": [one per round, without the layer], "new": [with it], "copy": [without],
# "collbench": [libcoll without an MPI; not in every row]}}.

NAME = "bench/mpi-layer"
SOURCE = os.path.join(ROOT, "bench", "peers", "mpi_loop.c")
VERBS = ("allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "barrier", "bcast",
         "gather", "gatherv", "reduce", "reduce_scatter", "reduce_scatter_block", "scatter",
         "scatterv")
NON_BLOCKING = tuple("i" + verb for verb in VERBS)
DEFAULT_VERBS = VERBS + ("iallreduce", "ialltoall", "ibarrier", "ibcast")
DEFAULT_SIZES = "8,64,512,4K,32K,256K,1M,4M"
LAYERS = os.path.join("libcoll", "frontends", "mpi")

RULE = rule.Rule(1 / 1.05, 0)  # no row may be slower by more than 5 %
COLLBENCH = "collbench"
AS_FAST_BYTES = 32768  # rows from here on are to take what collbench takes, times AS_FAST_MAX;
AS_FAST_MAX = 1.10
ROOTED = ("bcast", "gather", "reduce", "scatter")  # or this, as calls overlap in collbench
ROOTED_AS_FAST_MAX = 1.25
IRREGULAR = ("alltoallv", "gatherv", "scatterv")  # the layer has one choice for all sizes
STATISTICS = re.compile(r"^libcoll: MPI_(\w+)\s+(\w+)\s+(\d+)\s+(\d+)", re.MULTILINE)


def parse_arguments():
    parser = command.Parser(NAME, __doc__)
    add = parser.add_argument
    add("--mpi", type=lambda text: text.split(","), default=list(mpis.SUFFIXES), metavar="LIST",
        help="openmpi and mpich are Debian's; else a folder with bin and lib, such as those that "
        "tests/frontends/mpi/get_mpis.sh makes (openmpi,mpich)")
    add("--verbs", type=arguments.word_list(VERBS + NON_BLOCKING), default=list(DEFAULT_VERBS),
        help="a list; those with an i are non-blocking (all blocking ones, and four of the others)")
    add("--sizes", type=arguments.size_list, default=arguments.size_list(DEFAULT_SIZES),
        help="8,1K or 8..4M, by factors of four (%s)" % DEFAULT_SIZES)
    add("-n", "--ranks", type=arguments.positive, default=2, help="ranks (2)")
    add("--rounds", type=arguments.positive, default=11, help="number of rounds (11)")
    add("--time-ms", type=arguments.positive, default=10, help="time of a row in a round (10)")
    add("--limit", type=arguments.positive, default=120, metavar="SECONDS",
        help="a launch that takes longer has failed (120)")
    add("--no-collbench", action="store_true", help="leave out libcoll's own times")
    add("--serve", choices=("measured", "always", "never"), default="measured",
        help="COLL_MPI_SERVE of the runs with the layer (measured)")
    parser.add_seed()
    parser.add_build()
    parser.add_name()
    parser.add_from()
    return parser.parse_args()


def say(text):
    command.say(NAME, text)


# ---- measuring -----------------------------------------------------------------------------------

class Runner:
    """Starts the program under one MPI."""

    def __init__(self, options, mpi, program):
        self.options, self.mpi, self.program = options, mpi, program
        self.layers = os.path.join(options.build, LAYERS)
        self.words = [str(options.time_ms), ",".join(options.verbs),
                      ",".join(map(str, options.sizes))]

    def run(self, side, environment=None):
        """({(verb, bytes): us}, standard error)."""
        line = mpis.start_command(self.mpi, self.options.ranks, [self.program, *self.words])
        if side == "new":
            line = [os.path.join(self.layers, "coll-mpi"), "--layer", self.mpi.layer, *line]
        variables = dict(mpis.environment_of(self.mpi), COLL_MPI_SERVE=self.options.serve,
                         **(environment or {}))
        output, errors = launch.run_both(line, variables, self.options.limit)
        lines = [line.split() for line in output.splitlines()]
        return {(line[0], int(line[1])): float(line[2]) for line in lines if len(line) == 3}, errors

    def measure(self, side):
        """{(verb, bytes): us}"""
        if side != COLLBENCH:
            return self.run(side)[0]
        options = self.options
        return collbench.run(options.build, options.ranks, options.verbs, options.sizes,
                             options.time_ms, options.limit)


def find_all(options, folder):
    """[Runner], after a sentence about each MPI that cannot be measured."""
    found, runners = [], []
    for word in options.mpi:
        try:
            found.append(mpis.find(word))
        except launch.Trouble as trouble:
            say("%s is left out: %s" % (word, trouble))
    for mpi in found:
        if [other.name for other in found].count(mpi.name) > 1:
            raise launch.Trouble("several MPIs are called %s: rename a folder" % mpi.name)
        library = os.path.join(options.build, LAYERS, "libcoll-mpi-%s.so" % mpi.layer)
        try:
            if not os.path.exists(library):
                raise launch.Trouble("there is no %s, build it (docs/mpi.md)" % library)
            runners.append(Runner(options, mpi, mpis.compile_program(mpi, found, SOURCE, folder)))
        except launch.Trouble as trouble:
            say("%s is left out: %s" % (mpi.name, trouble))
    if not runners:
        raise launch.Trouble("there is no MPI to measure")
    return runners


class Survey:
    """times: {(mpi, verb, bytes): {side: [us of each round]}}; ways: where most calls went."""

    def __init__(self, options, runners):
        self.options, self.runners = options, runners
        self.order = rounds.shuffled(random.Random(options.seed))
        self.times, self.ways, self.failures, self.rounds = {}, {}, [], 0

    def note_failure(self, runner, failure):
        self.failures.append({"mpi": runner.mpi.name, "reason": str(failure)})
        say("%s: a run failed: %s" % (runner.mpi.name, failure))

    def count_calls(self, runner):
        """In a run of its own, as statistics cost time."""
        try:
            errors = runner.run("new", {"COLL_MPI_STATS": "1"})[1]
        except launch.Failure as failure:
            self.note_failure(runner, failure)
            return
        counted = read_statistics(errors)
        for verb in self.options.verbs:
            for size in self.options.sizes if "barrier" not in verb else [0]:
                self.ways[runner.mpi.name, verb, size] = way_of(counted, verb, size,
                                                                self.options.ranks)

    def take_turns(self, runner):
        """One run of each side. A round counts where all of them have ended well."""
        sides = [*rule.SIDES, *([] if self.options.no_collbench else [COLLBENCH])]
        try:
            measured = dict(rounds.take_turns(sides, self.order, runner.measure))
        except launch.Failure as failure:
            self.note_failure(runner, failure)
            return
        for verb, size in measured["old"]:
            row = self.times.setdefault((runner.mpi.name, verb, size), {})
            for side in sides:
                if (verb, size) in measured[side]:
                    row.setdefault(side, []).append(measured[side][verb, size])

    def one_round(self, number):
        for runner in self.runners:
            if number == 0:
                self.count_calls(runner)
            self.take_turns(runner)
        self.rounds = number + 1
        say("round %d of %d" % (self.rounds, self.options.rounds))


def take(options, runners):
    """Measures, and returns the document that is written as JSON."""
    document = machine.begin(
        NAME, mpis={runner.mpi.name: runner.mpi.version for runner in runners},
        settings={"ranks": options.ranks, "time_ms": options.time_ms, "serve": options.serve,
                  "seed": options.seed})
    survey = Survey(options, runners)
    interrupted = rounds.repeat(options.rounds, survey.one_round)
    return machine.end(
        document, rounds=survey.rounds, interrupted=interrupted, failures=survey.failures,
        rows=[{"mpi": mpi, "verb": verb, "bytes": size, "way": survey.ways.get((mpi, verb, size)),
               "times_us": sides} for (mpi, verb, size), sides in survey.times.items()])


# ---- what the layer chose ------------------------------------------------------------------------

def read_statistics(text):
    """{(verb, bytes up to, or "any"): (served, passed)} of what COLL_MPI_STATS=1 prints."""
    return {(name.lower(), size): (int(served), int(passed))
            for name, size, served, passed in STATISTICS.findall(text)}


def class_of(verb, size, ranks):
    """How the layer names the size of a row: the next power of two of what it takes as bytes."""
    base = verb[1:] if verb[0] == "i" else verb  # no verb begins with i but non-blocking ones
    if base in IRREGULAR:
        return "any"
    if base.startswith("reduce_scatter"):
        size = max(size // ranks, 4)
    elif base == "allgatherv":
        size *= ranks
    return str(1 << (size - 1).bit_length()) if size else "0"


def way_of(counted, verb, size, ranks):
    served, passed = counted.get((verb, class_of(verb, size, ranks)), (0, 0))
    return None if served == passed == 0 else "libcoll" if served > passed else "MPI"


# ---- judging: found is [(row, Judgement or None)] ------------------------------------------------

def judge_all(document):
    return [(row, rule.judge(row["times_us"], rule=RULE)) for row in document["rows"]]


def against_collbench(row):
    """The Estimate of the time with the layer / that of collbench; None without the latter."""
    times = row["times_us"]
    return rounds.estimate(rounds.quotients(times["new"], times.get(COLLBENCH, [])))


def has_to_be_as_fast(row):
    return row["bytes"] >= AS_FAST_BYTES and row["verb"] not in IRREGULAR


def is_behind(row):
    ratio = against_collbench(row)
    return (has_to_be_as_fast(row) and ratio is not None and ratio.low is not None and
            ratio.low > (ROOTED_AS_FAST_MAX if row["verb"] in ROOTED else AS_FAST_MAX))


def behind(found):
    return [row for row, _ in found if is_behind(row)]


# ---- showing -------------------------------------------------------------------------------------

def head_lines(document):
    settings = document["settings"]
    yield from machine.heading(document, "rounds: %d, seed %d" % (document["rounds"],
                                                                  settings["seed"]))
    yield "%d ranks, COLL_MPI_SERVE=%s; %s" % (
        settings["ranks"], settings["serve"], ", ".join(
            "%s: %s" % pair for pair in document["mpis"].items()))
    if document["interrupted"]:
        yield "interrupted; this is what was measured so far"


def columns():
    def of(show):
        """A cell of rows that were measured."""
        return lambda found: show(*found) if found[1] else ""

    def own_time(row, _):
        own = row["times_us"].get(COLLBENCH)
        return table.time_text(rounds.median(own)) if own else ""

    def verdict(row, judgement):
        return "  ".join(filter(None, [judgement.verdict, "BEHIND" if is_behind(row) else ""]))
    return [
        table.Column("verb", lambda found: found[0]["verb"], left=True),
        table.Column("bytes", lambda found: sizes.short_size(found[0]["bytes"])
                     if found[0]["bytes"] else ""),
        table.Column("without\n(us)", lambda found: table.time_text(found[1].old_us) if found[1]
                     else "not measured"),
        table.Column("with\n(us)", of(lambda _, one: table.time_text(one.new_us))),
        table.Column("collbench\n(us)", of(own_time)),
        *table.estimate_columns("without / with", lambda found: found[1] and found[1].speed),
        *table.estimate_columns("A/A", lambda found: found[1] and found[1].same),
        *table.estimate_columns("with / collbench",
                                lambda found: found[1] and against_collbench(found[0])),
        table.Column("way", of(lambda row, _: row["way"] or "")),
        table.Column("", of(verdict), left=True)]


def summary_line(found):
    summary = rule.summarize([judgement for _, judgement in found], RULE)
    if not summary.judged:
        return "too few rounds to judge: %d are needed" % rounds.ROUNDS_MIN
    slow = len(behind(found))
    asked = sum(has_to_be_as_fast(row) and bool(against_collbench(row)) for row, _ in found)
    return "%s: of %d rows, %d are slower by over 5 %%, %d faster by over 5 %%, %d undecided%s" % (
        "FAIL" if summary.lost or slow else "PASS", summary.judged, summary.lost, summary.gained,
        summary.unsure, "; of %d blocking ones of 32 KiB or more, %d are behind collbench" % (
            asked, slow) if asked else "")


def text_of(document, found):
    lines = list(head_lines(document))
    for name, version in document["mpis"].items():
        of_mpi = [pair for pair in found if pair[0]["mpi"] == name]
        lines += ["", "%s (%s)" % (name, version), "", *table.lines(columns(), of_mpi), "",
                  summary_line(of_mpi)]
    lines += ["FAILED: %(mpi)s: %(reason)s" % failure for failure in document["failures"]]
    return "\n".join(lines)


def draw(document, found):
    """The plot of bench/ab, with a column per MPI."""
    drawn = [({"name": "%(mpi)s/%(verb)s" % row, "collective": row["verb"], "bytes": row["bytes"],
               "ranks": document["settings"]["ranks"], "memory": row["mpi"]}, judgement)
             for row, judgement in found]
    return speeds.draw(drawn, list(head_lines(document)), speeds.Labels(
        "Speed of MPI collectives with the layer, as a multiple of that without it",
        "A/A: without / without once more, 95 % interval", RULE.speed_min))


def main():
    options = parse_arguments()
    if options.source:
        document = command.read(options.source, NAME)
    else:
        with tempfile.TemporaryDirectory() as folder:
            document = take(options, find_all(options, folder))
    found = judge_all(document)
    text = text_of(document, found)
    print(text)
    command.save(options, document, text, draw(document, found))
    if document["interrupted"]:
        return command.INTERRUPTED
    if document["failures"]:
        return command.FAILED
    lost = rule.summarize([judgement for _, judgement in found], RULE).lost
    return command.LOST if lost or behind(found) else 0

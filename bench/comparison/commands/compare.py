"""Compares libcoll with Open MPI, MPICH, Intel MPI and PyTorch's Gloo, and with plain copies on
this machine. The releases of the peers that bench/peers/requirements.txt names are installed in the
build folder, from the package index that pip uses: 150 MB for the MPIs, 3 GB for PyTorch unless
--python names an interpreter that has it.

All configurations run in turn on the same cores, in several rounds. The same code times all of
them on the same buffers: float32, sum, out of place. The time of a round is that of collbench: the
median of 10 batches, each with the time of its slowest rank. The time shown is the median of the
rounds. A ratio is the median of the ratios of the rounds, because a machine may be slow in some
rounds. Peers run with several settings in the first round, and with those that were near their
best at some size in later rounds; each row uses the best setting, and names the best peer. The
settings are in bench/comparison/contenders/peers.py.

The latency between the two cores of a virtual machine changes when the host moves them. A launch
waits for a limited time until the latency is the usual one, and runs again if the latency differed
from that of most launches of its round.

Plain copies (bench/limit) take the time of the minimal data movement plus the flags that must be
exchanged. They are no bound: a library may copy in a better way, and "copies / ours" is above 1
where libcoll is faster. All ranks load and store at once, without waiting, what the collective must
load and store, with the fastest of several methods. Where ranks access each other's buffers, flags
are exchanged before and after. Otherwise data are copied through shared slots and flags are
exchanged once, with a root in one direction only; and the time is not less than that of the minimal
copies with waiting, chunk by chunk through few or many slots. With fewer cores than ranks, a core
does the work of its ranks one after another. A missed target that plain copies would miss too is
marked "beyond". The targets are in bench/comparison/figures.py.

Run it on an idle machine. The load average before and after is part of the results."""
import os
import subprocess
import sys

from comparison import arguments, command, core_latency, figures, launch, machine, rounds, sizes
from comparison import peer_table, survey, table
from comparison.command import ROOT
from comparison.commands import compare_net
from comparison.contenders import collectives, peers
from comparison.progress import Progress, clock_text

NAME = "bench/compare"
EXAMPLES = """examples:
  bench/compare --quick                      a short run, in about a minute when built
  bench/compare                              the full run, into bench/results/compare.*
  bench/compare -n 4 --collectives allreduce more ranks than cores
  bench/compare --from a.json b.json         show saved results, without measuring
  bench/compare --net --help                 the comparison between hosts
"""
QUICK = {"sizes": "4,1K,64K,1M,16M", "collectives": "allreduce,reduce_scatter,allgather",
         "peers": "openmpi,mpich,intelmpi", "rounds": 2, "time_ms": 20, "ranks": "2"}
FULL = {"sizes": "4..64M", "peers": ",".join(peers.FAMILIES), "rounds": 4, "time_ms": 30,
        "ranks": "2,4,8"}

# Time of a launch besides its timed calls, in seconds: to start it, and to fill and check the
# largest buffers. With fewer cores than ranks, ranks do the latter one after another.
LAUNCH_SECONDS, FILL_SECONDS_PER_GIB = 0.8, 1.5
REMAINING_FRACTION = 0.75  # of the contenders, after the first round


# ---- options -------------------------------------------------------------------------------------

def parse_arguments():
    parser = command.Parser(NAME, __doc__, EXAMPLES)
    add = parser.add_argument
    add("-n", "--ranks", type=arguments.rank_list,
        help="a list; may exceed the number of cores (2,4,8)")
    add("--sizes", type=arguments.size_list, help="4,1K or 4..64M, by factors of four (4..64M)")
    add("--collectives", type=arguments.word_list(figures.COLLECTIVES),
        help="a list (those with a target for that number of ranks)")
    add("--mem", type=arguments.word_list(tuple(figures.OURS)), default=list(figures.OURS),
        help="kinds of memory for libcoll's buffers (coll,malloc)")
    peers.add_options(parser)
    add("--rounds", type=arguments.positive, help="number of rounds (4)")
    add("--time-ms", type=arguments.positive,
        help="time of the timed calls of one size in a round (30)")
    add("--quick", action="store_true",
        help="fewer sizes, collectives and rounds; writes files only with --name")
    arguments.add_sources(parser)
    parser.add_name("compare")
    parser.add_json()
    parser.add_build(can_omit=True)
    options = parser.parse_args()
    options.optional = options.peers is None  # peers that cannot be installed are left out
    arguments.set_missing(options, QUICK if options.quick else FULL)
    if options.name is None and not options.quick and not options.sources:
        options.name = "compare"
    return options


def build_all(options):
    """Installs the peers and builds. Without --peers, those that cannot be installed are left
    out."""
    if not options.no_build:
        script = os.path.join(ROOT, "bench", "peers", "setup.sh")
        words = ["bash", script, *(["--optional"] if options.optional else []),
                 *(["--python", options.python] if options.python else []),
                 options.build, *options.peers]
        if subprocess.run(words, check=False).returncode:
            raise launch.Trouble("cannot install or build what is to be measured; see above")
    missing = [peer for peer in options.peers if not peers.is_installed(options.build, peer)]
    if missing and not options.optional:
        raise launch.Trouble("not installed in %s: %s; omit --no-build"
                             % (options.build, ", ".join(missing)))
    options.peers = [peer for peer in options.peers if peer not in missing]


# ---- measuring -----------------------------------------------------------------------------------

class Survey(survey.Steady):
    """One collective with one number of ranks at all sizes. latency: CoreLatency."""

    def __init__(self, ranks, collective, asked, running, effort, latency):
        self.ranks, self.collective = ranks, collective
        self.sizes = sorted({sizes.size_for(collective, ranks, size) for size in asked})
        super().__init__({(collective, size): {
            "ranks": ranks, "collective": collective, "bytes": size, "times_us": {}, "limit": {}}
            for size in self.sizes}, running, effort, {"collective": collective, "ranks": ranks},
            latency)

    def launch_seconds(self):
        """The estimated time of one launch."""
        oversubscription = max(1, self.ranks / len(launch.own_cores()))
        filling = 4 * self.sizes[-1] / sizes.GIB * FILL_SECONDS_PER_GIB * oversubscription
        calls = 1.3 * self.time_ms / 1000 * len(self.sizes)
        return (LAUNCH_SECONDS + filling) * oversubscription ** 0.5 + calls

    def seconds(self):
        later = max(4, REMAINING_FRACTION * (len(self.running) - 1) + 1)
        return (len(self.running) + (self.rounds - 1) * later) * self.launch_seconds()

    def launch(self, contender, number):
        return survey.check(contender.run(launch.run, [self.collective], self.sizes, self.time_ms),
                            list(self.rows))

    def failed(self, contender, failure, progress):
        if contender.name == collectives.LIMIT:
            raise failure
        return super().failed(contender, failure, progress)

    def run(self, progress):
        done = progress.done + self.seconds()
        rows = super().run(progress)
        progress.done = done
        return rows


def run_all(surveys):
    """The rows of all surveys. If interrupted: those of completed surveys."""
    seconds = sum(each.seconds() for each in surveys)
    progress = Progress(seconds)
    progress.say("%d collectives to measure, in about %s min" % (len(surveys), clock_text(seconds)))
    rows = []

    def one_survey(number):
        rows.extend(surveys[number].run(progress))
    if rounds.repeat(len(surveys), one_survey):
        if not rows:
            raise KeyboardInterrupt
        progress.say("interrupted: showing complete results only")
    progress.clear()
    return rows


def measure_all(options):
    """Measures; returns the JSON document."""
    surveys, found = [], {}
    latency = core_latency.CoreLatency(lambda: collectives.barrier_us(options.build))
    for ranks in options.ranks:
        found[ranks] = collectives.make(ROOT, options.build, ranks, options.mem, options.peers,
                                        options.quick)
        surveys += [Survey(ranks, collective, options.sizes, found[ranks],
                           (options.rounds, options.time_ms), latency)
                    for collective in options.collectives or figures.collectives_with_target(ranks)]
    document = machine.begin(NAME, settings={
        "ranks": options.ranks, "rounds": options.rounds, "time_ms": options.time_ms,
        "dtype": "float32", "op": "sum", "place": "out of place"})
    rows = run_all(surveys)
    for row in rows:
        row["best_peer"] = (figures.best_peer(row) or (None, None))[1]
    return machine.end(
        document, rows=rows,
        launches={**survey.counts(surveys), "usual_us": latency.usual_us()},
        contenders={contender.name: contender.describe() for ranks in reversed(options.ranks)
                    for contender in found[ranks] if contender.name != collectives.LIMIT},
        failures=[failure for each in surveys for failure in each.failures])


# ---- showing -------------------------------------------------------------------------------------

def read_documents(paths):
    """Merges documents. Of rows with the same key, the first one is used."""
    merged, documents = command.read_merged(paths, NAME)
    merged["rows"] = figures.first_of_each(row for document in documents
                                           for row in document["rows"])
    merged["launches"] = survey.merge_counts(documents)
    return merged


def head_lines(document):
    where, when = machine.heading(document, "float32 sum, out of place, rounds: %d"
                                  % document["settings"]["rounds"])
    yield from (where, collectives.libraries(document["contenders"]), when)
    yield from survey.apart_lines(document)


def blocks_of(rows):
    """Groups rows by collective and number of ranks, in order of first appearance."""
    return figures.grouped(rows, lambda row: (row["ranks"], row["collective"]))


def ranks_text(row):
    return "%d ranks" % row["ranks"]


def text_of(document, colored=False):
    style = table.Style(colored)
    found = [*head_lines(document), ""]
    for block in blocks_of(document["rows"]):
        found += peer_table.lines("%s, %s" % (block[0]["collective"], ranks_text(block[0])), block,
                                  style)
    return "\n".join([*found, *peer_table.summary_lines(document["rows"], style)])


def draw(document):
    return peer_table.draw(list(head_lines(document)), blocks_of(document["rows"]), ranks_text, 2)


def main():
    if "--net" in sys.argv[1:]:
        return compare_net.main([word for word in sys.argv[1:] if word != "--net"], build_all)
    return peer_table.compare(parse_arguments(), NAME, build_all, measure_all, read_documents,
                              text_of, draw)

"""Checks that the cost model orders algorithms right, over links that are slow: COLL_TOPO_PACED
makes messages between the ranks of this machine as slow as the links of a topology. For each cell
(topology, collective, size) the algorithm that the library chooses is compared with the truly
fastest one. The links are so slow that the same calls take under 5 % of the time without pacing.

All ranks start each call at the same time, and its time is that until the last of them is done:
what the library predicts for links. Every algorithm that is possible is measured with one call,
then those within 30 % of the fastest, and the chosen one, with several calls. The times are
medians. A cell that is not right is measured again, and the least median of an algorithm counts.
Ranks have real-time priority if the user may give it, as other programs would delay ranks that
sleep until a message arrives.

Exit code: 0 if the chosen algorithm takes at most 10 % longer than the fastest in 90 % of the
cells, and no cell takes 5 % of the time or more without pacing, 1 if not, 2 if a program failed."""
import collections
import os
import tempfile

from comparison import arguments, command, machine, sizes, table
from comparison.contenders import algorithms, topologies

NAME = "bench/paced"
EXAMPLES = """examples:
  bench/paced                                   the whole table, in about 10 minutes
  bench/paced --quick                           two sizes with fewer calls, in about 2 minutes
  bench/paced --topologies torus --collectives allgather --sizes 64K
                                                one cell
  bench/paced --out bench/results/paced         writes paced.txt and paced.json there
  bench/paced --files topologies                only writes the topologies to that folder
"""
COLLECTIVES = ("allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "gather",
               "scatter", "alltoall")
SIZES = [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18]
QUICK_SIZES = [1 << 10, 1 << 14]
WITHIN = 1.10          # the chosen algorithm's time over the fastest one's
UNPACED_SHARE = 0.05   # of the same call over paced links
SHARE_OF_CELLS = 0.90  # that must be right


def parse_arguments():
    parser = command.Parser(NAME, __doc__, EXAMPLES)
    add = parser.add_argument
    add("--topologies", type=arguments.word_list(topologies.ALL), default=list(topologies.ALL),
        metavar="LIST", help="(%s)" % ",".join(topologies.ALL))
    add("--collectives", type=arguments.word_list(COLLECTIVES), metavar="LIST",
        default=["allreduce", "allgather", "broadcast"], help="(allreduce,allgather,broadcast)")
    add("--sizes", type=arguments.size_list, metavar="LIST",
        help="of the larger buffer of a rank (1K,4K,16K,64K,256K)")
    add("--calls", type=arguments.positive, help="of which each time is the median (5)")
    add("--repeats", type=int, default=2, help="of cells that are not right (2)")
    add("--quick", action="store_true", help="fewer sizes, calls and repeats")
    parser.add_json()
    parser.add_out("txt", "json")
    add("--files", metavar="FOLDER", help="write the topologies there and do nothing else")
    parser.add_build()
    parser.add_from()
    options = parser.parse_args()
    options.sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)
    options.calls = options.calls or (3 if options.quick else 5)
    return options


# ---- measuring -----------------------------------------------------------------------------------

def take_priority():
    """Gives the ranks, which inherit it, priority over other programs. Whether it is allowed."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    return True


def take(options, folder):
    """Prints the cells as they are measured."""
    files = topologies.write_all(folder, options.topologies)
    pairs = [algorithms.Pair(options.build, (name, path, topologies.ALL[name][1]), collective,
                             options.sizes, options.calls)
             for name, path in files.items() for collective in options.collectives]
    document = {"tool": NAME, "began": machine.now(), "load": machine.load(),
                "commit": machine.revision(), "machine": machine.describe(),
                "calls": options.calls, "real_time": take_priority()}
    shown = table.Table(columns())
    print("\n".join([*head_lines(document), *shown.head()]), flush=True)
    document["cells"] = algorithms.run_all(
        pairs, passes, 1 if options.quick else options.repeats,
        lambda cell: print(shown.line(cell), flush=True))
    print("\n" + summary(document["cells"]))
    return document


# ---- judging -------------------------------------------------------------------------------------

Judged = collections.namedtuple("Judged", "chosen_us fastest fastest_us ratio unpaced ok")


def judge(cell):
    """Of the medians of an algorithm's launches the least counts."""
    found = cell["algorithms"]
    times = {name: min(one["paced_us"]) for name, one in found.items() if one["paced_us"]}
    fastest = min(times, key=times.get)
    ratio = times[cell["chosen"]] / times[fastest]
    unpaced = max(min(found[name]["unpaced_us"]) / times[name]
                  for name in (cell["chosen"], fastest))
    return Judged(times[cell["chosen"]], fastest, times[fastest], ratio, unpaced, ratio <= WITHIN)


def passes(cell):
    """Whether there is no reason to measure it again."""
    judged = judge(cell)
    return judged.ok and judged.unpaced <= UNPACED_SHARE


def count_right(cells):
    return sum(judge(cell).ok for cell in cells)


def count_disturbed(cells):
    return sum(judge(cell).unpaced > UNPACED_SHARE for cell in cells)


def summary(cells):
    most = max(judge(cell).unpaced for cell in cells)
    return ("%d of %d cells within %.0f %%; unpaced %.1f %% of the time at most, above %.0f %% in "
            "%d cells" % (count_right(cells), len(cells), 100 * (WITHIN - 1), 100 * most,
                          100 * UNPACED_SHARE, count_disturbed(cells)))


def is_right(cells):
    return count_right(cells) >= SHARE_OF_CELLS * len(cells) and not count_disturbed(cells)


# ---- showing -------------------------------------------------------------------------------------

def head_lines(document):
    """What is known before the first cell."""
    yield "bench/paced: does the cost model order algorithms right where links are slow?"
    yield "%s; %s, load %.1f%s; commit %s" % (
        machine.sentence(document["machine"]), document["began"], document["load"],
        ", real-time priority" if document["real_time"] else "", document["commit"])
    yield ("Time from a start common to all ranks to the end of the last, median of %d calls. "
           "unpaced: the same without pacing." % document["calls"])
    yield ""


def columns():
    """Wide enough for any cell, as they are shown one by one."""
    def ms(us):
        return "%.2f" % (us / 1e3)
    return [
        table.Column("topology", lambda cell: cell["topology"], 10, left=True),
        table.Column("collective", lambda cell: cell["collective"], 14, left=True),
        table.Column("size", lambda cell: sizes.size_text(cell["bytes"]), 8),
        table.Column("predicted\nfastest", lambda cell: cell["chosen"], 22, left=True),
        table.Column("predicted\n(ms)", lambda cell: ms(
            cell["algorithms"][cell["chosen"]]["predicted_us"]), 9),
        table.Column("measured\n(ms)", lambda cell: ms(judge(cell).chosen_us), 9),
        table.Column("truly\nfastest", lambda cell: judge(cell).fastest, 22, left=True),
        table.Column("measured\n(ms)", lambda cell: ms(judge(cell).fastest_us), 9),
        table.Column("ratio", lambda cell: "%.2f" % judge(cell).ratio, 6),
        table.Column("unpaced", lambda cell: "%.1f %%" % (100 * judge(cell).unpaced), 8),
        table.Column("", lambda cell: "ok" if judge(cell).ok else "no", left=True)]


def text_of(document):
    cells = document["cells"]
    return "\n".join([*head_lines(document), *table.lines(columns(), cells), "", summary(cells)])


def main():
    options = parse_arguments()
    if options.files:
        os.makedirs(options.files, exist_ok=True)
        print("\n".join(topologies.write_all(options.files, options.topologies).values()))
        return 0
    if options.source:
        document = command.read(options.source, NAME)
        print(text_of(document))
    else:
        with tempfile.TemporaryDirectory() as folder:
            document = take(options, folder)
    command.save(options, document, text_of(document))
    return 0 if is_right(document["cells"]) else command.LOST

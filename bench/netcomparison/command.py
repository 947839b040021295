"""Compares libcoll with Open MPI, MPICH, Intel MPI and PyTorch's Gloo between hosts, and with plain
TCP sockets. Hosts are network namespaces of this machine, joined by a bridge, so this needs root.
They share its cores. Their links are unshaped, or shaped by tc to a rate. Layouts are hosts x ranks
per host.

All contenders run in turn, in several rounds; a ratio is the median of the ratios of the rounds.
Every peer uses TCP between the hosts and, except Gloo, shared memory inside one; the counters of
the interfaces, which are part of the results, show that. Peers run with several settings in the
first round, and with those near their best in later rounds, unless they are far behind. With more
ranks than cores they yield. The settings are in bench/comparison/contenders/networks.py.

The limit (bench/limit_net) is the time of as many processes that move the same bytes between the
hosts over plain sockets, and pass over memory as often as the call must; the fastest of some
variants. With several ranks per host, it exchanges nothing inside a host.

Results are checked in the first round."""
import argparse
import json
import math
import os
import sys
import tempfile

from comparison import arguments, figures, machine, measure as one_host
from comparison.contenders import collectives as configurations
from comparison.contenders import peers
from comparison import results
from comparison.contenders import networks as contenders
from netcomparison import hierarchy, measure, report
from comparison.contenders.hosts import Hosts, Unavailable, link_text

EXAMPLES = """examples:
  bench/compare --net                        the full run, into bench/results/net.*
  bench/compare --net --quick                a short run
  bench/compare --net --layouts 2x1 --links 0 --collectives sendrecv --peers openmpi
                                             one block of rows
"""
COLLECTIVES = ["allreduce", "allgather", "reduce_scatter", "alltoall", "sendrecv"]
SIZES = figures.parse_sizes("4,1K,16K,64K,256K,1M,4M,64M")
# Where more ranks share the cores, or links are shaped; and where both hold or larger calls take
# proportionally longer.
FEWER_SIZES = figures.parse_sizes("4,1K,64K,1M,16M")
FEWEST_SIZES = figures.parse_sizes("4,64K,1M,4M")
QUICK_SIZES = figures.parse_sizes("4,64K,1M")
HIERARCHY_SIZES = figures.parse_sizes("64K,1M,16M")


def layout_list(text):
    found = []
    for word in text.split(","):
        hosts, _, per_host = word.partition("x")
        if not hosts.isdigit() or not per_host.isdigit() or not 2 <= int(hosts) <= 16 \
                or not 1 <= int(per_host) <= 16:
            raise argparse.ArgumentTypeError("'%s' is not HOSTSxRANKS, such as 2x1" % word)
        found.append((int(hosts), int(per_host)))
    return found


def link_list(text):
    """Gbit/s; 0: unshaped."""
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        found = [-1]
    if min(found) < 0:
        raise argparse.ArgumentTypeError("'%s' is not a list of Gbit/s, such as 0,10,1" % text)
    return found


def parse(root, words):
    parser = argparse.ArgumentParser(
        prog="bench/compare --net", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--layouts", type=layout_list, help="hosts x ranks per host (2x1,2x2,4x2)")
    add("--links", type=link_list, help="Gbit/s, 0: unshaped (0,10,1)")
    add("--sizes", type=arguments.size_list, help="4,1K or 4..64M, by factors of four "
        "(4,1K,16K,64K,256K,1M,4M,64M; fewer over shaped links or with more ranks)")
    add("--collectives", type=arguments.word_list(COLLECTIVES), default=COLLECTIVES,
        help="a list (%s)" % ",".join(COLLECTIVES))
    add("--peers", type=arguments.word_list(tuple(peers.FAMILIES)),
        help="a list; all must be installable (those of %s that are)" % ",".join(peers.FAMILIES))
    add("--python", metavar="PATH", help="an interpreter that has PyTorch, for gloo")
    add("--rounds", type=arguments.positive, help="number of rounds (3)")
    add("--time-ms", type=arguments.positive, default=10,
        help="time of the timed calls of one row in a round (10)")
    add("--quick", action="store_true", help="fewer sizes, layouts, links and rounds; writes files "
        "only with --name")
    add("--no-algorithms", action="store_true", help="do not compare algorithms of allreduce")
    add("--from", dest="sources", nargs="+", metavar="FILE", help="show these JSON files instead; "
        "of rows with the same key, the first one is used")
    add("--name", help="of the files in bench/results (net)")
    add("--build", default=os.path.join(root, "build"), help="build folder (build)")
    add("--no-build", action="store_true", help="use the build folder as it is")
    options = parser.parse_args(words)
    return with_defaults(options)


def with_defaults(options):
    quick = options.quick
    options.layouts = options.layouts or ([(2, 1), (2, 2)] if quick else [(2, 1), (2, 2), (4, 2)])
    options.links = options.links or ([0] if quick else [0, 10, 1])
    options.rounds = options.rounds or (2 if quick else 3)
    options.optional = options.peers is None  # peers that cannot be installed are left out
    options.peers = options.peers or list(peers.FAMILIES)
    if options.name is None and not quick and not options.sources:
        options.name = "net"
    return options


def sizes_of(options, layout, gbit):
    if options.sizes or options.quick:
        return options.sizes or QUICK_SIZES
    reasons = (gbit > 0) + (0 < gbit <= measure.SLOW_GBIT) + (layout.per_host > 1) \
        + (layout.count > 2)
    return (SIZES, FEWER_SIZES)[reasons] if reasons < 2 else FEWEST_SIZES


def check_all(layout, running, document, progress):
    """Those of `running` that send over the network."""
    good = []
    layout.hosts.shape(0)
    text = contenders.layout_text(layout)
    for contender in running:
        if contender.name == contenders.LIMIT:
            good.append(contender)
            continue
        try:
            found = measure.check_traffic(layout, contender)
            document["traffic"].append({"layout": text, "contender": contender.name, **found})
            good.append(contender)
        except configurations.Failure as failure:
            progress.say("%s, %s: %s" % (contender.name, text, failure))
            document["failures"].append({"contender": contender.name, "reason": str(failure),
                                         "where": text})
        progress.step("traffic of %s, %s" % (contender.name, text), 1)
    return good


def take(root, options, hosts, document):
    layouts = [contenders.Layout(hosts, *layout) for layout in options.layouts]
    running = {layout: contenders.make(root, options.build, layout, options.peers)
               for layout in layouts}
    launches = sum(len(made) for made in running.values())
    progress = one_host.Progress(launches * (1 + options.rounds * len(options.links)))
    if not options.no_algorithms and "allreduce" in options.collectives:
        compare_algorithms(root, options, layouts, document, progress)
    for layout in layouts:
        running[layout] = check_all(layout, running[layout], document, progress)
        document["contenders"].update({contender.name: contender.describe()
                                       for contender in running[layout]})
    for layout in layouts:
        for gbit in options.links:
            survey = measure.Survey(layout, gbit, options.collectives,
                                    sizes_of(options, layout, gbit),
                                    (options.rounds, options.time_ms))
            document["rows"] += survey.run(running[layout], progress)
            document["failures"] += survey.failures
            document["contenders"].update({contender.name: contender.describe()
                                           for contender in running[layout]})
            progress.say("measured %s" % survey.where())
    progress.clear()


def compare_algorithms(root, options, layouts, document, progress):
    """Where links are slowest."""
    shaped = [gbit for gbit in options.links if gbit > 0]
    if not shaped:
        return
    for layout in layouts:
        if layout.per_host == 1:
            continue
        progress.say("algorithms of allreduce, %s, %s" % (contenders.layout_text(layout),
                                                          link_text(min(shaped))))
        comparison = hierarchy.Comparison(root, options.build, layout, min(shaped),
                                          options.sizes or HIERARCHY_SIZES)
        try:
            document["algorithms"] += comparison.run(options.rounds)
        except configurations.Failure as failure:
            progress.say("algorithms: %s" % failure)
            document["failures"].append({"contender": "coll", "reason": str(failure),
                                         "where": contenders.layout_text(layout)})


def measure_all(root, options):
    document = {"tool": "bench/compare --net", "began": machine.now(),
                "revision": machine.revision(root), "machine": machine.describe(),
                "load": {"before": machine.load()},
                "settings": {"rounds": options.rounds, "time_ms": options.time_ms,
                             "collectives": options.collectives, "dtype": "float32", "op": "sum",
                             "place": "out of place"},
                "contenders": {}, "rows": [], "algorithms": [], "traffic": [], "failures": []}
    with tempfile.TemporaryDirectory() as folder:
        count = max(count for count, _ in options.layouts)
        with Hosts(count, folder) as hosts:
            try:
                take(root, options, hosts, document)
            except KeyboardInterrupt:
                if not document["rows"]:
                    raise
                print("interrupted: showing complete results only", file=sys.stderr)
    document["load"]["after"] = machine.load()
    for row in document["rows"]:
        row["best_peer"] = (figures.best_peer(row) or (None, None))[1]
    return document


def read_documents(paths):
    """Merges documents. Of rows with the same key, the first one is used."""
    documents = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            documents.append(json.load(file))
    merged = dict(documents[0])
    keys = {"rows": lambda row: (*report.block_key(row), row["bytes"]),
            "algorithms": lambda cell: tuple(cell[name] for name in (
                "gbit", "hosts", "per_host", "bytes")),
            "traffic": lambda check: (check["layout"], check["contender"])}
    for name, key in keys.items():
        first = {}
        for document in documents:
            for item in document[name]:
                first.setdefault(key(item), item)
        merged[name] = sorted(first.values(), key=sort_key) if name == "rows" else [*first.values()]
    for document in documents[1:]:
        merged["contenders"] = {**document["contenders"], **merged["contenders"]}
        merged["failures"] = merged["failures"] + document["failures"]
    merged["parts"] = [{name: document[name] for name in ("began", "revision", "load", "settings")}
                       for document in documents]
    return merged


def sort_key(row):
    """Unshaped links first, then the fast ones."""
    gbit = -row["gbit"] if row["gbit"] else -math.inf
    return (gbit, row["hosts"], row["per_host"], COLLECTIVES.index(row["collective"]),
            row["bytes"])


def main(root, words, build_all):
    """build_all(options): installs the peers and builds, as for one host."""
    options = parse(root, words)
    if options.sources:
        document = read_documents(options.sources)
    else:
        build_all(options)
        document = measure_all(root, options)
    print(report.text_of(document, sys.stdout.isatty()))
    if options.name:
        written = results.write_all(os.path.join(root, "bench", "results", options.name),
                                    json.dumps(document, indent=1), report.text_of(document),
                                    report.draw(document))
        print("written to %s" % written)
    if any(failure["contender"] == "coll" for failure in document["failures"]):
        sys.exit("bench/compare: libcoll itself failed; see above")

"""Compares libcoll with Open MPI, MPICH, Intel MPI and PyTorch's Gloo between hosts, and with plain
TCP sockets. Hosts are network namespaces of this machine, joined by a bridge, so this needs root.
They share its cores. Their links are unshaped, or shaped by tc to a rate, and TCP over them has the
congestion control reno, whatever this machine's is; a few rows are also measured under bbr where
the kernel has it. Layouts are hosts x ranks per host.

Before each round the processors are idle for 3 s, or it waits; what was measured on busy ones all
the same, the results say. The latency between two cores of a virtual machine changes when its host
moves them: a launch waits for a limited time until it is the usual one, and runs again if it
differed from that of most launches in its round.

All contenders run in turn, in several rounds; a ratio is the median of the ratios of the rounds.
Every peer uses TCP between the hosts and, except Gloo, shared memory inside one; the counters of
the interfaces, which are part of the results, show that. Peers run with several settings in the
first round, and with those near their best in later rounds, unless they are far behind. With more
ranks than cores they yield. The settings are in bench/comparison/contenders/networks.py.

Plain sockets (bench/limit_net) are as many processes that move the same bytes between the hosts
without a library, and pass over memory as often as the call must: with one or two sockets, waiting
in poll or not, and system calls of any or of some bytes. All variants run in the first round, and
those near the best one of a row in later rounds; the fastest counts. With several ranks per host,
they exchange nothing inside a host. They are no bound: a library may do better, which a ratio above
1 says.

Results are checked in the first round."""
import argparse
import math
import sys
import tempfile

from comparison import arguments, command, core_latency, figures, idle, launch, machine
from comparison import net_targets, peer_table, rounds, sizes, survey, table
from comparison.command import ROOT
from comparison.contenders import collectives, hierarchy, networks, peers
from comparison.contenders.hosts import BBR, RENO, Hosts, Link, Unavailable, link_of
from comparison.contenders.hosts import link_text
from comparison.net_targets import ratio
from comparison.progress import Progress

NAME = "bench/compare --net"
EXAMPLES = """examples:
  bench/compare --net                        the full run, into bench/results/net.*
  bench/compare --net --quick                a short run
  bench/compare --net --layouts 2x1 --links 0 --collectives sendrecv --peers openmpi
                                             one block of rows
"""
COLLECTIVES = ["allreduce", "allgather", "reduce_scatter", "alltoall", "sendrecv"]
SIZES = sizes.parse_sizes("4,1K,16K,64K,256K,1M,4M,64M")
# Where more ranks share the cores, or links are shaped; and where both hold or larger calls take
# proportionally longer.
FEWER_SIZES = sizes.parse_sizes("4,1K,64K,1M,16M")
FEWEST_SIZES = sizes.parse_sizes("4,64K,1M,4M")
QUICK_SIZES = sizes.parse_sizes("4,64K,1M")
HIERARCHY_SIZES = sizes.parse_sizes("64K,1M,16M")
# Under BBR, with one rank on each of two hosts.
BBR_LINK, BBR_LAYOUT = Link(0, BBR), (2, 1)
BBR_COLLECTIVES = ("allreduce", "allgather", "sendrecv")


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
    """[Link] of Gbit/s, 0: unshaped, and "bbr"."""
    found = []
    for word in text.split(","):
        if not word.isdigit() and word != BBR:
            raise argparse.ArgumentTypeError("'%s' is not a list of Gbit/s, such as 0,10,1, and "
                                             "%s" % (text, BBR))
        found.append(BBR_LINK if word == BBR else Link(int(word)))
    return found


def parse(words):
    parser = command.Parser(NAME, __doc__, EXAMPLES)
    add = parser.add_argument
    add("--layouts", type=layout_list, help="hosts x ranks per host (2x1,2x2,4x2)")
    add("--links", type=link_list, help="Gbit/s, 0: unshaped; bbr: unshaped under BBR, with the "
        "layout 2x1 and some collectives only (0,10,1, and bbr where the kernel has it)")
    add("--sizes", type=arguments.size_list, help="4,1K or 4..64M, by factors of four "
        "(4,1K,16K,64K,256K,1M,4M,64M; fewer over shaped links or with more ranks)")
    add("--collectives", type=arguments.word_list(COLLECTIVES), default=COLLECTIVES,
        help="a list (%s)" % ",".join(COLLECTIVES))
    peers.add_options(parser)
    add("--rounds", type=arguments.positive, help="number of rounds (3)")
    add("--time-ms", type=arguments.positive, default=40,
        help="time of the timed calls of one row in a round (40)")
    add("--idle-wait", type=int, default=idle.WAIT_SECONDS_MAX, metavar="SECONDS",
        help="before a round, wait at most so long for idle processors (%d)"
        % idle.WAIT_SECONDS_MAX)
    add("--quick", action="store_true", help="fewer sizes, layouts, links and rounds; writes files "
        "only with --name")
    add("--no-algorithms", action="store_true", help="do not compare algorithms of allreduce")
    arguments.add_sources(parser)
    parser.add_name("net")
    parser.add_build(can_omit=True)
    options = parser.parse_args(words)
    quick = options.quick
    options.layouts = options.layouts or ([(2, 1), (2, 2)] if quick else [(2, 1), (2, 2), (4, 2)])
    options.links_asked = options.links is not None
    options.links = options.links or link_list("0" if quick else "0,10,1,bbr")
    options.rounds = options.rounds or (2 if quick else 3)
    options.optional = options.peers is None  # peers that cannot be installed are left out
    options.peers = options.peers or list(peers.FAMILIES)
    if options.name is None and not quick and not options.sources:
        options.name = "net"
    return options


def sizes_of(options, layout, link):
    if options.sizes or options.quick:
        return options.sizes or QUICK_SIZES
    reasons = (link.gbit > 0) + is_slow(link) + (layout.per_host > 1) + (layout.count > 2)
    reasons += link == BBR_LINK
    return (SIZES, FEWER_SIZES)[reasons] if reasons < 2 else FEWEST_SIZES


def surveys_of(options, layout):
    """[(link, collective)], for each of which contenders take turns on their own: within the minute
    that all collectives together take, a machine may become twice as slow."""
    def is_measured(link, name):
        return link != BBR_LINK or (
            (layout.count, layout.per_host) == BBR_LAYOUT and name in BBR_COLLECTIVES)
    return [(link, name) for link in options.links for name in options.collectives
            if is_measured(link, name)]


# ---- measuring -----------------------------------------------------------------------------------

SLOW_GBIT = 2     # the links are so slow that few variants of sockets matter
SLOW_VARIANTS = ("poll", "spin")
BEHIND_MAX = 2.5  # times as slow as the best peer


def is_slow(link):
    return 0 < link.gbit <= SLOW_GBIT


class Survey(survey.Steady):
    """One collective over one layout with one class of links: all sizes."""

    def __init__(self, layout, link, collective, asked, running, effort, latency, **waiting):
        self.layout, self.link, self.collective = layout, link, collective
        ranks = networks.ranks_of(layout)
        self.sizes = sorted({sizes.size_for(collective, ranks, size) for size in asked})
        rows = {(collective, size): {
            "ranks": ranks, "hosts": layout.count, "per_host": layout.per_host,
            "gbit": link.gbit, "congestion": link.congestion,
            "collective": collective, "bytes": size, "times_us": {}, "limit": {}}
            for size in self.sizes}
        # Of plain sockets, of each row; without any, all.
        self.variants = {call: SLOW_VARIANTS for call in rows} if is_slow(link) else {}
        super().__init__(rows, running, effort, {
            "where": "%s, %s, %s" % (collective, networks.layout_text(layout), link_text(*link))},
            latency, **waiting)

    def launch(self, contender, number):
        def runner(line, environment):
            return networks.run(self.layout.hosts, line, {
                **environment, **networks.variants_environment(self.variants)})
        return contender.run(runner, [self.collective], self.sizes, self.time_ms,
                             1 if number == 0 else 0)

    def is_near(self, row, name, best):
        """And not far behind the best peer."""
        return super().is_near(row, name, best) and (
            figures.time_us(row, name) <= BEHIND_MAX * figures.best_peer_us(row))

    def drop_slow(self):
        super().drop_slow()
        self.variants = {call: figures.near_variants(row, survey.SLOWER_MAX)
                         for call, row in self.rows.items()}

    def run(self, progress):
        self.layout.hosts.shape(self.link.gbit)
        self.layout.hosts.set_congestion(self.link.congestion)
        return super().run(progress)


def check_all(layout, running, document, progress):
    """Those of `running` that send over the network."""
    layout.hosts.shape(0)
    place = networks.layout_text(layout)

    def check(contender):
        if contender.name == networks.LIMIT:
            return
        found = networks.check_traffic(layout, contender)
        document["traffic"].append({"layout": place, "contender": contender.name, **found})
        progress.step("traffic of %s, %s" % (contender.name, place))

    def failed(contender, failure):
        note_failure(document, progress, contender.name, failure, place)
    return [contender for contender, _ in rounds.take_turns(running, list, check, failed)]


def note_failure(document, progress, name, failure, place):
    progress.say("%s, %s: %s" % (name, place, failure))
    document["failures"].append({"contender": name, "reason": str(failure), "where": place})


def drop_unknown_links(options, hosts):
    """Those under BBR, unless the user named them."""
    if BBR_LINK not in options.links:
        return
    try:
        hosts.set_congestion(BBR)
        hosts.set_congestion(RENO)
    except Unavailable as reason:
        if options.links_asked:
            raise
        command.say(NAME, "%s; its rows are left out" % reason)
        options.links.remove(BBR_LINK)


def take(options, hosts, document):
    drop_unknown_links(options, hosts)
    layouts = [networks.Layout(hosts, *layout) for layout in options.layouts]
    running = {layout: networks.make(ROOT, options.build, layout, options.peers)
               for layout in layouts}
    progress = Progress(sum(len(made) * (1 + options.rounds * len(surveys_of(options, layout)))
                            for layout, made in running.items()))
    if not options.no_algorithms and "allreduce" in options.collectives:
        compare_algorithms(options, layouts, document, progress)
    for layout in layouts:
        running[layout] = check_all(layout, running[layout], document, progress)
    latency = core_latency.CoreLatency(lambda: collectives.barrier_us(options.build))
    surveys = []
    for layout in layouts:
        for link, name in surveys_of(options, layout):
            found = Survey(layout, link, name, sizes_of(options, layout, link), running[layout],
                           (options.rounds, options.time_ms), latency,
                           wait=lambda shown: idle.wait(shown, options.idle_wait))
            document["rows"] += found.run(progress)
            surveys.append(found)
            document["launches"] = survey.counts(surveys)
            document["failures"] += found.failures
            document["disturbed"] += found.disturbed
            document["contenders"].update({contender.name: contender.describe()
                                           for contender in running[layout]})
            progress.say("measured %s" % found.where())
    progress.clear()


def compare_algorithms(options, layouts, document, progress):
    """Where links are slowest."""
    slowest = min((link.gbit for link in options.links if link.gbit > 0), default=None)
    for layout in layouts if slowest else ():
        if layout.per_host == 1:
            continue
        progress.say("algorithms of allreduce, %s, %s" % (networks.layout_text(layout),
                                                          link_text(slowest)))
        comparison = hierarchy.Comparison(ROOT, options.build, layout, slowest,
                                          options.sizes or HIERARCHY_SIZES)
        try:
            document["algorithms"] += comparison.run(options.rounds)
        except launch.Failure as failure:
            note_failure(document, progress, "coll", failure, networks.layout_text(layout))


def measure_all(options):
    document = machine.begin(NAME, settings={
        "rounds": options.rounds, "time_ms": options.time_ms, "collectives": options.collectives,
        "dtype": "float32", "op": "sum", "place": "out of place"},
        contenders={}, rows=[], algorithms=[], traffic=[], failures=[], disturbed=[])
    document["machine"]["tcp_congestion_control"] = RENO  # of the hosts, unless a row has another
    with tempfile.TemporaryDirectory() as folder:
        with Hosts(max(count for count, _ in options.layouts), folder) as hosts:
            if rounds.repeat(1, lambda _: take(options, hosts, document)):
                if not document["rows"]:
                    raise KeyboardInterrupt
                print("interrupted: showing complete results only", file=sys.stderr)
    for row in document["rows"]:
        row["best_peer"] = (figures.best_peer(row) or (None, None))[1]
    return machine.end(document)


# ---- documents -----------------------------------------------------------------------------------

def block_key(row):
    return link_of(row), row["hosts"], row["per_host"], row["collective"]


def sort_key(row):
    """Unshaped links first, then the fast ones, and BBR last."""
    gbit = -row["gbit"] if row["gbit"] else -math.inf
    return (link_of(row).congestion != RENO, gbit, row["hosts"], row["per_host"],
            COLLECTIVES.index(row["collective"]), row["bytes"])


def read_documents(paths):
    """Merges documents. Of rows with the same key, the first one is used."""
    merged, documents = command.read_merged(paths, NAME)
    keys = {"rows": lambda row: (*block_key(row), row["bytes"]),
            "algorithms": lambda cell: tuple(cell[name] for name in (
                "gbit", "hosts", "per_host", "bytes")),
            "traffic": lambda check: (check["layout"], check["contender"])}
    for name, key in keys.items():
        first = {}
        for document in documents:
            for item in document[name]:
                first.setdefault(key(item), item)
        merged[name] = list(first.values())
    merged["rows"].sort(key=sort_key)
    merged["launches"] = survey.merge_counts(documents)
    merged["disturbed"] = [one for document in documents for one in document.get("disturbed", [])]
    merged["parts"] = [part for document in documents for part in document.get("parts", [document])]
    merged["parts"] = [{name: part[name] for name in ("began", "revision", "load", "settings")}
                       for part in merged["parts"]]
    return merged


# ---- showing -------------------------------------------------------------------------------------

WORST_ROWS = 12


def where(row):
    return "%dx%d, %s" % (row["hosts"], row["per_host"], link_text(*link_of(row)))


def head_lines(document):
    congestion = document["machine"].get("tcp_congestion_control")
    yield "bench/compare --net: collectives between hosts that are network namespaces"
    yield "%s: all hosts share them%s" % (machine.sentence(document["machine"]), congestion and (
        "; TCP's congestion control is %s" % congestion) or "")
    yield collectives.libraries(document["contenders"])
    for part in document.get("parts", [document]):
        yield machine.when(part, "float32 sum, out of place, rounds: %d"
                           % part["settings"]["rounds"])
    yield ("Sockets: the same bytes over plain TCP sockets between as many processes, and the "
           "passes over memory.")
    found = {}
    for one in document.get("disturbed", []):
        found.setdefault(one["where"], []).append("%d (%s)" % (
            one["round"], idle.shares_text(one["idle"])))
    for place, disturbed in found.items():
        yield "Disturbed: %s: the processors were not idle before round %s" % (
            place, ", ".join(disturbed))
    yield from survey.apart_lines(document)


def traffic_lines(checks):
    """How many bytes crossed the links and loopback per call of an allreduce of 1 MiB."""
    def mebibytes(name):
        return lambda check: "%.2f" % (check[name] / sizes.MIB)
    if checks:
        yield "Bytes per allreduce of 1 MiB by the counters of the interfaces, in MiB:"
        yield from table.lines([
            table.Column("hosts", lambda check: check["layout"], left=True),
            table.Column("contender", lambda check: check["contender"], left=True),
            table.Column("links", mebibytes("wire")), table.Column("at least", mebibytes("least")),
            table.Column("loopback", mebibytes("loopback"))], checks)
        yield ""


def algorithm_columns():
    def measured(cell, name):
        return rounds.median(cell["algorithms"].get(name, {}).get("measured_us", []))

    def predicted(cell, name):
        return cell["algorithms"].get(name, {}).get("predicted_us")

    def milliseconds(figure, name_of):
        def cell_text(cell):
            us = figure(cell, name_of(cell))
            return table.number(us and us / 1e3)
        return cell_text

    def quotient(above, below):
        return "-" if not above or not below else "%.2f" % (above / below)

    def to_best(cell):
        known = [us for us in (measured(cell, name) for name in (
            *hierarchy.COMPARED, cell["chosen"])) if us]
        return quotient(measured(cell, cell["chosen"]), min(known, default=None))
    pairs = [("ring", lambda cell: "ring"), ("hierarchical", lambda cell: "hierarchical"),
             ("chosen", lambda cell: cell["chosen"])]
    both = {group: [table.Column(head, milliseconds(figure, name_of), group=group)
                    for head, figure in (("predicted", predicted), ("measured", measured))]
            for group, name_of in pairs}
    return [table.Column("hosts", lambda cell: "%dx%d" % (cell["hosts"], cell["per_host"])),
            table.Column("links", lambda cell: link_text(cell["gbit"]), left=True),
            table.Column("size", lambda cell: sizes.size_text(cell["bytes"])),
            *both["ring"], *both["hierarchical"],
            table.Column("ring /\nhierarch.", lambda cell: quotient(
                *(measured(cell, name) for name in hierarchy.COMPARED))),
            table.Column("chosen by\nthe library", lambda cell: cell["chosen"], left=True),
            *both["chosen"], table.Column("chosen /\nbest", to_best)]


def algorithm_lines(cells):
    if cells:
        yield "allreduce: hierarchical against the flat ring, and what the library chooses (ms)"
        yield from table.lines(algorithm_columns(), cells)
        yield ""


def count_ahead(rows):
    return sum(ratio(row) >= 1 for row in rows)


def target_columns():
    def judged(good, of):
        """A count and whether it is enough."""
        def verdict(one):
            if not of(one):
                return ""
            return figures.PASS if net_targets.is_enough(good(one), of(one)) else figures.FAIL
        return (lambda one: "%d of %d" % (good(one), of(one)) if of(one) else "-"), verdict
    level, plain = "level or ahead", "2x1, from 1 MiB: sockets"
    low = "below %g (%g)" % (net_targets.RATIO_MIN, net_targets.RATIO_MIN_SEVERAL)
    counts = [(level, *judged(lambda one: one.level, lambda one: one.rows)),
              (low, lambda one: "%d, least %s" % (one.low, table.times_text(one.worst)),
               lambda one: figures.FAIL if one.low else figures.PASS),
              (plain, *judged(lambda one: one.plain_good, lambda one: one.plain))]
    return [table.Column("links", lambda one: one.name, left=True),
            *(table.Column("", cell, left=is_verdict, group=group) for group, count, verdict
              in counts for cell, is_verdict in ((count, False), (verdict, True)))]


def target_lines(rows):
    yield "Targets in each class of links: level with the best peer or ahead of it in 9 of 10 rows;"
    yield "no row below %g of its speed (several ranks on a host, up to 64 KiB: %g);" % (
        net_targets.RATIO_MIN, net_targets.RATIO_MIN_SEVERAL)
    yield "2x1, from 1 MiB: %gx the speed of plain sockets in 9 of 10 rows" % figures.NET_PLAIN_MIN
    yield from table.lines(target_columns(), net_targets.classes(rows), indent="  ")
    yield ""


def summary_lines(rows):
    """Targets, counts and worst rows."""
    compared = [row for row in rows if ratio(row) is not None]
    if not compared:
        return
    yield from target_lines(compared)
    yield "%d of %d rows level with the best peer or ahead of it" % (count_ahead(compared),
                                                                     len(compared))
    for mine in figures.grouped(compared, where):
        yield "  %-20s %3d of %3d" % (where(mine[0]), count_ahead(mine), len(mine))
    yield "Farthest behind the best peer:"
    yield from list(table.lines(worst_columns(), sorted(compared, key=ratio)[:WORST_ROWS],
                                indent="  "))[1:]
    yield ""


def worst_columns():
    return [table.Column("", lambda row: row["collective"], left=True),
            table.Column("", where, left=True),
            table.Column("", lambda row: sizes.size_text(row["bytes"])),
            table.Column("", lambda row: "%s us, %s %s us" % (
                table.time_text(figures.time_us(row, "coll")), figures.best_peer(row)[1],
                table.time_text(figures.best_peer(row)[0]))),
            table.Column("", lambda row: table.times_text(ratio(row))),
            table.Column("", lambda row: "sockets / ours "
                         + table.times_text(figures.plain_over_ours(row, "coll")))]


def text_of(document, colored=False):
    style = table.Style(colored)
    found = [*head_lines(document), ""]
    for block in figures.grouped(document["rows"], block_key):
        title = "%s, %s" % (block[0]["collective"], where(block[0]))
        found += peer_table.lines(title, block, style)
    found += summary_lines(document["rows"])
    found += algorithm_lines(document["algorithms"])
    found += traffic_lines(document["traffic"])
    return "\n".join(found)


def draw(document):
    return peer_table.draw(list(head_lines(document)), figures.grouped(document["rows"], block_key),
                           where, len(document["settings"]["collectives"]))


def main(words, build_all):
    """build_all(options): installs the peers and builds, as for one host."""
    return peer_table.compare(parse(words), NAME, build_all, measure_all, read_documents,
                              text_of, draw)

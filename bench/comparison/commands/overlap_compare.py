"""Measures what gpt train gains when the collectives of tensor parallelism overlap with matrix
products (--tp-overlap): two ranks of one thread, with and without sequence parallelism, over shared
memory, over links that libcoll imitates (paced), and over TCP between two hosts with shaped links.
Hosts are network namespaces of this machine, so these need root.
Every round launches each setting once, in random order; the time of a launch is that of its median
step. speedup: the time without overlap / the time, of the same round; its median, least and
greatest. waited: the part of a step that rank 0's computing thread waited for the tensor axis.

Run it on an otherwise idle machine. Exit code: 0, 2 if a program failed, 130 after Ctrl-C
or SIGTERM, which shows what was measured so far."""
import collections
import contextlib
import os
import random
import signal
import statistics
import tempfile

from comparison import arguments, command, launch, machine, rounds, table
from comparison.command import ROOT
from comparison.contenders import layouts, networks, topologies, trainers
from comparison.contenders.hosts import Hosts, link_text
from comparison.progress import Progress

# A cell: {"link", "layout", "overlap", "ms": [median step of each round], "waited_ms": [mean of a
# step of each round: what rank 0's computing thread waited for the tensor axis]}.

NAME = "bench/overlap-compare"
EXAMPLES = """examples:
  bench/overlap-compare --out bench/results/overlap
  bench/overlap-compare --links paced:1 --settings off,1,4 --rounds 3
  bench/overlap-compare --quick                 whether it runs, over shared memory
"""
LINKS = "shm,paced:10,paced:2,tcp:10,tcp:1"
SETTINGS = ("off", "1", "2", "4", "8")
LAYOUTS = {"tp2": ("--tp", "2"), "tp2 sp": ("--tp", "2", "--sp")}
SHARED, PACED, TCP = "shared memory", "paced", "tcp"
PACED_LATENCY_US = 20
UNTIMED_STEPS = 4  # kernels are chosen, and the second step never overlaps
LAUNCH_SECONDS_MAX = 150


# kind: SHARED, PACED or TCP.
Link = collections.namedtuple("Link", "kind gigabits")


def name_of(link):
    return link.kind if link.kind == SHARED else "%s %s" % (link.kind, link_text(link.gigabits))


def paced_topology(gigabits):
    """Two hosts and the link between them."""
    graph = topologies.Graph("two-hosts")
    hosts = [graph.node("host%d" % number, "host") for number in range(2)]
    graph.link(*hosts, "ethernet", (gigabits / 8, PACED_LATENCY_US))
    return graph.text()


# ---- options -------------------------------------------------------------------------------------

def parse_link(text):
    """Raises ValueError."""
    if text == "shm":
        return Link(SHARED, None)
    kind, _, gigabits = text.partition(":")
    if kind not in (PACED, TCP):
        raise ValueError("link '%s': give shm, paced:GBIT or tcp:GBIT" % text)
    return Link(kind, float(gigabits))


def parse_arguments():
    parser = command.Parser(NAME, __doc__, EXAMPLES)
    add = parser.add_argument
    add("--model", type=trainers.parse_row, help="PRESET:BATCHxLENGTH (mini:16x256)")
    add("--links", help="shm, paced:GBIT, tcp:GBIT (%s)" % LINKS)
    add("--settings", type=arguments.word_list(SETTINGS), default=list(SETTINGS),
        metavar="LIST", help="of --tp-overlap (%s)" % ",".join(SETTINGS))
    add("--rounds", type=arguments.positive, help="(5)")
    add("--steps", type=arguments.positive, help="timed in a launch (8)")
    add("--quick", action="store_true", help="a tiny model, one round of 2 steps")
    add("--data", default=os.path.join(ROOT, "docs"), metavar="PATH", help="text (docs)")
    parser.add_out("txt", "json")
    parser.add_build()
    parser.add_from()
    options = parser.parse_args()
    quick = options.quick
    options.model = options.model or trainers.parse_row("tiny:16x64" if quick else "mini:16x256")
    options.rounds = options.rounds or (1 if quick else 5)
    options.steps = options.steps or (2 if quick else 8)
    options.links = [parse_link(text)
                     for text in (options.links or ("shm" if quick else LINKS)).split(",")]
    return options


# ---- measuring -----------------------------------------------------------------------------------

class Survey:
    """All settings and layouts over one link. The folder is for files that launches read."""

    def __init__(self, options, link, folder, hosts):
        self.options, self.link, self.hosts = options, link, hosts
        self.start, self.environment = launch.collrun(options.build, 2), {}
        if link.kind == PACED:
            path = os.path.join(folder, "two-hosts.json")
            command.write(path, paced_topology(link.gigabits))
            self.environment = {"COLL_TOPO_FILE": path, "COLL_TOPO_PACED": "1"}
        if link.kind == TCP:
            ours = networks.make_ours(ROOT, options.build, networks.Layout(hosts, 2, 1))
            self.start, self.environment = ours.start, ours.environment
            hosts.shape(link.gigabits)
        self.cells = [{"link": name_of(link), "layout": layout, "overlap": overlap, "ms": [],
                       "waited_ms": []} for layout in LAYOUTS for overlap in options.settings]

    def run(self, line):
        if self.link.kind == TCP:
            return networks.run(self.hosts, line, self.environment, LAUNCH_SECONDS_MAX)
        return launch.run(line, self.environment, LAUNCH_SECONDS_MAX)

    def take(self, cell):
        options = self.options
        layout = layouts.parse(cell["layout"], "2x1 " + " ".join(LAYOUTS[cell["layout"]]))
        line = layouts.command(options.build, layout, [
            *layouts.model_options(options.model, options.data), "--tp-overlap", cell["overlap"],
            "--steps", str(UNTIMED_STEPS + options.steps)], self.start)
        steps = layouts.logged(line, self.run)[1][UNTIMED_STEPS:]
        cell["ms"].append(statistics.median(step["ms"] for step in steps))
        cell["waited_ms"].append(statistics.mean(step["tensor_waited_ms"] for step in steps))

    def one_round(self, number, progress):
        for cell in rounds.shuffled(random)(self.cells):
            self.take(cell)
            progress.step("%s, round %d: %s, %s" % (
                name_of(self.link), number + 1, cell["layout"], cell["overlap"]))


def measure_links(options, progress, surveys):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        hosts = None
        if any(link.kind == TCP for link in options.links):
            hosts = stack.enter_context(Hosts(2, folder))
        for link in options.links:
            surveys.append(Survey(options, link, folder, hosts))
            for number in range(options.rounds):
                surveys[-1].one_round(number, progress)


def take(options):
    launches = len(options.links) * len(LAYOUTS) * len(options.settings) * options.rounds
    document = {"tool": NAME, "began": machine.now(), "machine": machine.describe(),
                "revision": machine.revision(), "model": trainers.row_name(options.model),
                "load": machine.load()}
    progress, surveys = Progress(launches), []
    interrupted = rounds.repeat(1, lambda _: measure_links(options, progress, surveys))
    progress.clear()
    document["cells"] = [cell for survey in surveys for cell in survey.cells if cell["ms"]]
    if interrupted:
        document["interrupted"] = True
    return document


# ---- showing -------------------------------------------------------------------------------------

def lines(cells):
    """Each cell beside the one without overlap, whose time is divided by its own."""
    off = {(cell["link"], cell["layout"]): cell for cell in cells if cell["overlap"] == "off"}

    def speedups(cell):
        base = off.get((cell["link"], cell["layout"]))
        return rounds.quotients(base["ms"], cell["ms"]) if base else []

    def span(cell):
        found = speedups(cell)
        return "%.2f to %.2f" % (min(found), max(found)) if found else ""
    return table.lines([
        table.Column("link", lambda cell: cell["link"], left=True),
        table.Column("layout", lambda cell: cell["layout"], left=True),
        table.Column("overlap", lambda cell: cell["overlap"], left=True),
        table.Column("ms", lambda cell: "%.1f" % statistics.median(cell["ms"])),
        table.Column("speedup", lambda cell: table.number(rounds.median(speedups(cell)), "%.3f")),
        table.Column("", span, left=True),
        table.Column("waited ms", lambda cell: "%.1f" % statistics.median(cell["waited_ms"]))],
        cells)


def text_of(document):
    return "\n".join([
        machine.sentence(document["machine"]),
        "%(model)s on 2 ranks of 1 thread, %(began)s, revision %(revision)s, load %(load).1f" %
        document, "", *lines(document["cells"])])


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    document = command.compare(options, NAME, take, text_of)
    return command.INTERRUPTED if document.get("interrupted") else 0

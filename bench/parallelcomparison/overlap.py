"""What gpt train gains when collectives of the tensor axis overlap with matrix products
(--tp-overlap): through shared memory; over links of some Gbit/s that libcoll's paced transport
imitates, which cost the processor nothing, as a NIC would; and over TCP between two hosts whose
links are shaped (contenders.hosts), where the processor also does the work of the network.

A cell: {"link", "layout", "overlap", "ms": [median step of each round], "waited_ms": [mean of a
step of each round: what rank 0's computing thread waited for the tensor axis]}."""
import collections
import contextlib
import os
import random
import statistics
import tempfile

from comparison.contenders import networks as contenders
from netcomparison import measure
from comparison.contenders.hosts import Hosts, link_text
from comparison.contenders import topologies
from comparison.contenders import layouts

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


class Survey:
    """All settings and layouts over one link. The folder is for files that launches read."""

    def __init__(self, root, options, link, folder, hosts):
        self.options, self.link, self.hosts = options, link, hosts
        self.launch = [os.path.join(options.build, "tools", "collrun"), "-n", "2"]
        self.environment = {}
        if link.kind == PACED:
            path = os.path.join(folder, "two-hosts.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(paced_topology(link.gigabits))
            self.environment = {"COLL_TOPO_FILE": path, "COLL_TOPO_PACED": "1"}
        if link.kind == TCP:
            layout = contenders.Layout(hosts, 2, 1)
            ours = contenders.make_ours(root, options.build, layout)
            self.launch, self.environment = ours.launch, ours.environment
            hosts.shape(link.gigabits)
        self.cells = [{"link": name_of(link), "layout": layout, "overlap": overlap, "ms": [],
                       "waited_ms": []} for layout in LAYOUTS for overlap in options.settings]

    def run(self, command, environment):
        if self.link.kind == TCP:
            return measure.run_command(self.hosts, command, environment, LAUNCH_SECONDS_MAX)
        return layouts.measure.run_command(command, environment, LAUNCH_SECONDS_MAX)

    def take(self, cell):
        options = self.options
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log.jsonl")
            model = options.model
            self.run([*self.launch, os.path.join(options.build, "tools", "gpt"), "train",
                      "--threads", "1", "--preset", model.preset, "--batch", str(model.batch),
                      "--context", str(model.length), "--evals", "1", "--eval-tokens",
                      str(model.length), "--data", options.data, *LAYOUTS[cell["layout"]],
                      "--tp-overlap", cell["overlap"], "--steps",
                      str(UNTIMED_STEPS + options.steps), "--log", log, "--out",
                      os.path.join(folder, "gpt.ckpt")], self.environment)
            steps = layouts.read_log(log)[1][UNTIMED_STEPS:]
        cell["ms"].append(statistics.median(step["ms"] for step in steps))
        cell["waited_ms"].append(statistics.mean(step["tensor_waited_ms"] for step in steps))

    def measure(self, progress):
        for number in range(self.options.rounds):
            for cell in random.sample(self.cells, len(self.cells)):
                self.take(cell)
                progress.step("%s, round %d: %s, %s" % (
                    name_of(self.link), number + 1, cell["layout"], cell["overlap"]), 1)


def survey(root, options, progress):
    """(the cells of all links, whether Ctrl-C ended it before all were measured)."""
    surveys = []
    try:
        measure_links(root, options, progress, surveys)
        interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    cells = [cell for survey in surveys for cell in survey.cells if cell["ms"]]
    return cells, interrupted


def measure_links(root, options, progress, surveys):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        hosts = None
        if any(link.kind == TCP for link in options.links):
            hosts = stack.enter_context(Hosts(2, folder))
        for link in options.links:
            surveys.append(Survey(root, options, link, folder, hosts))
            surveys[-1].measure(progress)


def parse_link(text):
    """Raises ValueError."""
    if text == "shm":
        return Link(SHARED, None)
    kind, _, gigabits = text.partition(":")
    if kind not in (PACED, TCP):
        raise ValueError("link '%s': give shm, paced:GBIT or tcp:GBIT" % text)
    return Link(kind, float(gigabits))


def lines(cells):
    """Each cell beside the one without overlap, whose time is divided by its own."""
    yield "%-17s %-7s %-8s %9s %8s %-14s %10s" % (
        "link", "layout", "overlap", "ms", "speedup", "", "waited ms")
    off = {(cell["link"], cell["layout"]): cell for cell in cells if cell["overlap"] == "off"}
    for cell in cells:
        base = off.get((cell["link"], cell["layout"]))
        ratios = [a / b for a, b in zip(base["ms"], cell["ms"])] if base else []
        span = "%.2f to %.2f" % (min(ratios), max(ratios)) if ratios else ""
        yield "%-17s %-7s %-8s %9.1f %8s %-14s %10.1f" % (
            cell["link"], cell["layout"], cell["overlap"], statistics.median(cell["ms"]),
            "%.3f" % statistics.median(ratios) if ratios else "-", span,
            statistics.median(cell["waited_ms"]))

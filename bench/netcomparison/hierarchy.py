"""Compares the algorithms of allreduce between hosts on shaped links: predicted by the cost model,
measured, and which one the library chooses."""
import json
import os
import statistics
import tempfile

from comparison import figures
from comparison.contenders import networks as contenders
from netcomparison import measure
from comparison.contenders.hosts import link_text

COMPARED = ("ring", "hierarchical")
CALLS = 5


class Comparison:
    """One layout with one shape of the links; makes cells {"hosts", "per_host", "gbit", "bytes",
    "chosen", "algorithms": {name: {"predicted_us", "measured_us": [one per round]}}}."""

    def __init__(self, root, build, layout, gbit, sizes):
        self.layout, self.gbit, self.sizes = layout, gbit, sizes
        ours = contenders.make_ours(root, build, layout)
        self.environment = ours.environment
        self.command = [*ours.launch, os.path.join(build, "bench", "collbench"), "allreduce",
                        "--sizes", ",".join(map(str, sizes))]

    def launch(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            measure.run_command(self.layout.hosts, [*self.command, *arguments, "--json", path],
                                dict(self.environment, XDG_CACHE_HOME=folder))
            with open(path, encoding="utf-8") as file:
                return json.load(file)["rows"]

    def predict(self):
        cells = []
        for size, row in zip(self.sizes, self.launch("--explain")):
            possible = [one for one in row["algorithms"] if one["ruled_out"] is None]
            chosen = next(one["algo"] for one in possible if one["chosen"])
            cells.append({"hosts": self.layout.count, "per_host": self.layout.per_host,
                          "gbit": self.gbit, "bytes": size, "chosen": chosen,
                          "algorithms": {one["algo"]: {"predicted_us": one["time_us"],
                                                       "measured_us": []}
                                         for one in possible
                                         if one["algo"] in (*COMPARED, chosen)}})
        return cells

    def run(self, rounds):
        self.layout.hosts.shape(self.gbit)
        cells = self.predict()
        names = sorted({name for cell in cells for name in cell["algorithms"]})
        for _ in range(rounds):
            rows = self.launch("--algo", ",".join(names), "-n", str(CALLS), "-w", "1", "-c", "0",
                               "--place", "out")
            times = {(row["algo_asked"], row["bytes"]): row["out_of_place"]["time_us"]
                     for row in rows if row["out_of_place"]["algo"] == row["algo_asked"]}
            for cell in cells:
                for name, one in cell["algorithms"].items():
                    if (name, cell["bytes"]) in times:
                        one["measured_us"].append(times[name, cell["bytes"]])
        return cells


# ---- text

HEAD = ("hosts", "links", "size", "ring", "", "hierarchical", "", "ring /", "chosen by", "chosen",
        "", "chosen /")
UNITS = ("", "", "", "predicted", "measured", "predicted", "measured", "hierarch.", "the library",
         "predicted", "measured", "best")
LAYOUT = "%-5s  %-11s %8s %10s %10s  %12s %10s %10s  %-22s %10s %10s %9s"


def measured_us(cell, name):
    times = cell["algorithms"].get(name, {}).get("measured_us")
    return statistics.median(times) if times else None


def milliseconds(time_us):
    return "-" if time_us is None else "%.2f" % (time_us / 1e3)


def predicted(cell, name):
    return milliseconds(cell["algorithms"].get(name, {}).get("predicted_us"))


def quotient(above, below):
    return "-" if not above or not below else "%.2f" % (above / below)


def line(cell):
    ring, hierarchical, chosen = (measured_us(cell, name) for name in (*COMPARED, cell["chosen"]))
    best = min((time for time in (ring, hierarchical, chosen) if time), default=None)
    return LAYOUT % (
        "%dx%d" % (cell["hosts"], cell["per_host"]), link_text(cell["gbit"]),
        figures.size_text(cell["bytes"]), predicted(cell, "ring"), milliseconds(ring),
        predicted(cell, "hierarchical"), milliseconds(hierarchical), quotient(ring, hierarchical),
        cell["chosen"], predicted(cell, cell["chosen"]), milliseconds(chosen),
        quotient(chosen, best))


def lines(cells):
    if not cells:
        return
    yield "allreduce: hierarchical against the flat ring, and what the library chooses (ms)"
    yield (LAYOUT % HEAD).rstrip()
    yield (LAYOUT % UNITS).rstrip()
    for cell in cells:
        yield line(cell).rstrip()
    yield ""

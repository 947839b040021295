"""Algorithms over paced links, and over the same links unpaced. Runs collbench, and makes cells of
the times:

    {"topology": "torus", "ranks": 16, "collective": "allreduce", "bytes": 65536,
     "chosen": "ring", "algorithms": {name: {"predicted_us", "once_us", "paced_us": [...],
     "unpaced_us": [...]}}}

predicted_us: the library's estimate. once_us: one call. paced_us, unpaced_us: medians of several
calls, one per launch, for the chosen algorithm and those that were fast in one call.
"""
from comparison import launch
from comparison.progress import Progress

CONTENDER = 1.3  # of the fastest time: algorithms up to this are measured with several calls
LAUNCH_SECONDS_MAX = 300


class Pair:
    """One collective on one topology, at all sizes."""

    def __init__(self, build, topology, collective, sizes, calls):
        self.build, self.calls = build, calls
        self.topology, self.path, self.ranks = topology
        self.collective, self.sizes = collective, sizes

    def launch(self, arguments, paced=True):
        """The rows that collbench writes."""
        def runner(command, environment):
            return launch.run(command, environment, LAUNCH_SECONDS_MAX)
        command = launch.collrun(self.build, self.ranks, "--bind", "none", *launch.collbench(
            self.build, self.collective, *arguments))
        return launch.run_json(command, {"COLL_TOPO_FILE": self.path,
                                         "COLL_TOPO_PACED": "1" if paced else "0"}, runner)["rows"]

    def time(self, names, sizes, calls, paced=True):
        """{(name, bytes): us}"""
        rows = self.launch(["--algo", ",".join(names), "--sizes", ",".join(map(str, sizes)),
                            "-n", str(calls), "-w", "1", "-c", "0", "--place", "out",
                            "--together"], paced)
        return {(row["algo_asked"], size): row["out_of_place"]["time_us"]
                for row, size in zip(rows, list(sizes) * len(names))
                if row["out_of_place"]["algo"] == row["algo_asked"]}

    def cells(self):
        """With predictions only."""
        rows = self.launch(["--explain", "--sizes", ",".join(map(str, self.sizes))])
        cells = []
        for size, row in zip(self.sizes, rows):
            possible = [one for one in row["algorithms"] if one["ruled_out"] is None]
            cells.append({
                "topology": self.topology, "ranks": self.ranks, "collective": self.collective,
                "bytes": size, "chosen": next(one["algo"] for one in possible if one["chosen"]),
                "algorithms": {one["algo"]: {"predicted_us": one["time_us"], "paced_us": [],
                                             "unpaced_us": []} for one in possible}})
        return cells

    def measure(self, cells, progress):
        """Each algorithm once, then the fast ones and the chosen one several times."""
        where = "%s, %s: " % (self.topology, self.collective)
        names = sorted({name for cell in cells for name in cell["algorithms"]})
        once = self.time(names, self.sizes, 1)
        progress.step(where + "every algorithm", STEPS_OF_SCAN)
        for cell in cells:
            found = cell["algorithms"]
            cell["algorithms"] = {name: dict(found[name], once_us=once[name, cell["bytes"]])
                                  for name in found if (name, cell["bytes"]) in once}
            self.measure_contenders(cell)
            progress.step(where + "%d bytes" % cell["bytes"], 1)

    def measure_contenders(self, cell):
        found = cell["algorithms"]
        limit = CONTENDER * min(one["once_us"] for one in found.values())
        names = [name for name, one in found.items()
                 if one["once_us"] <= limit or name == cell["chosen"]]
        for key, paced in (("paced_us", True), ("unpaced_us", False)):
            for (name, _), time_us in self.time(names, [cell["bytes"]], self.calls, paced).items():
                found[name][key].append(time_us)


STEPS_OF_SCAN = 3


def run_all(pairs, passes, repeats, show):
    """The cells of all pairs, each given to show(cell) when it is done. Cells that do not
    pass(cell) are measured again, up to `repeats` times: what else runs on the machine makes calls
    slower, never faster."""
    progress = Progress(sum(STEPS_OF_SCAN + len(pair.sizes) for pair in pairs))
    cells = []
    try:
        for pair in pairs:
            made = pair.cells()
            pair.measure(made, progress)
            for cell in made:
                cell["repeats"] = 0
                while not passes(cell) and cell["repeats"] < repeats:
                    cell["repeats"] += 1
                    pair.measure_contenders(cell)
                progress.clear()
                show(cell)
            cells += made
    finally:
        progress.clear()
    return cells

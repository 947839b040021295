"""The algorithms of allreduce between hosts on shaped links: predicted by the cost model, measured,
and which one the library chooses."""
from comparison import launch
from comparison.contenders import networks

COMPARED = ("ring", "hierarchical")
CALLS = 5


class Comparison:
    """One layout with one shape of the links; makes cells {"hosts", "per_host", "gbit", "bytes",
    "chosen", "algorithms": {name: {"predicted_us", "measured_us": [one per round]}}}."""

    def __init__(self, root, build, layout, gbit, sizes):
        self.layout, self.gbit, self.sizes = layout, gbit, sizes
        ours = networks.make_ours(root, build, layout)
        self.environment = ours.environment
        self.command = [*ours.start, *ours.program, "allreduce", "--sizes",
                        ",".join(map(str, sizes))]

    def launch(self, *arguments):
        def runner(command, environment):
            return networks.run(self.layout.hosts, command, environment)
        return launch.run_json([*self.command, *arguments], self.environment, runner,
                               fresh_costs=True)["rows"]

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

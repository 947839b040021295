"""Compares allreduces of torch.distributed over backend coll with those over Gloo: in the same
processes, of float32, in turn in every round, from C++ and from Python. "mapped" is coll with
tensors of coll_torch.empty. Times are in us per call: medians over the rounds, each with the time
of its slowest rank. What Python costs is the difference between its columns and those of C++.
A second table compares steps of a GPT-2 in DistributedDataParallel. PyTorch's MPI backend is in no
package (it takes a PyTorch compiled with an MPI), so that Gloo is the peer.

The interpreter has PyTorch and the package coll-torch (docs/pytorch.md). Run it on an idle machine.
The load average before and after is part of the results."""
import os
import sys
import tempfile

from comparison import arguments, command, launch, machine, sizes, table

NAME = "bench/torch-compare"
PARTS = os.path.join(command.ROOT, "bench", "peers")
CALLS, TRAINING = (os.path.join(PARTS, name) for name in ("torch_calls.py", "torch_training.py"))
SMALL = 1024        # bytes up to which latency counts: coll is to take a tenth of Gloo's time
LARGE = 64 * 1024   # bytes from which bandwidth counts: coll is to have three times Gloo's


def parse_arguments():
    parser = command.Parser(NAME, __doc__)
    add = parser.add_argument
    add("-n", "--ranks", default=[2, 4], type=arguments.rank_list, help="a list (2,4)")
    add("--sizes", type=arguments.size_list, default=arguments.size_list("4..16M"),
        help="4,1K or 4..16M, by factors of four (4..16M)")
    add("--rounds", type=arguments.positive, default=11, help="number of rounds (11)")
    add("--bytes-per-round", type=arguments.positive, default=64 << 20,
        help="what the calls of a round move, if 5 to 200 calls do (67108864)")
    for name, size in (("layers", 4), ("width", 256), ("length", 64)):
        add("--" + name, type=arguments.positive, default=size,
            help="of the GPT-2 that is trained (%d)" % size)
    add("--python", metavar="PATH", default=sys.executable,
        help="an interpreter that has PyTorch and coll-torch (the one that runs this)")
    parser.add_name()
    parser.add_json()
    parser.add_from()
    return parser.parse_args()


# ---- measuring -----------------------------------------------------------------------------------

def run_ranks(options, ranks, program, *words):
    """The JSON lines of rank 0."""
    return launch.json_lines(launch.run_shown(
        [options.python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node",
         str(ranks), program, *map(str, words)], "the ranks failed, see above",
        OMP_NUM_THREADS="1"))


def take(options):
    versions = launch.run_shown(
        [options.python, "-c", "import platform, torch, coll_torch; print("
         "'Python', platform.python_version() + ', PyTorch', torch.__version__)"],
        "%s has no PyTorch with coll-torch: docs/pytorch.md" % options.python)
    document = machine.begin(NAME, python=versions.strip(), settings={
        "rounds": options.rounds, "bytes_per_round": options.bytes_per_round, "dtype": "float32",
        "op": "sum", "place": "in place"})
    asked = ",".join(map(str, options.sizes))
    with tempfile.TemporaryDirectory() as folder:
        launch.run_shown([options.python, CALLS, "build", folder],
                         "cannot compile bench/peers/torch_loop.cpp for this PyTorch, see above")
        rows = [row for ranks in options.ranks
                for row in run_ranks(options, ranks, CALLS, "run", folder, asked, options.rounds,
                                     options.bytes_per_round)]
    steps = [row for ranks in options.ranks
             for row in run_ranks(options, ranks, TRAINING, options.layers, options.width,
                                  options.length, options.rounds)]
    return machine.end(document, rows=rows, steps=steps)


# ---- showing -------------------------------------------------------------------------------------

def verdict(row):
    gain = row["gloo_us"] / row["coll_us"]
    if SMALL < row["bytes"] < LARGE:
        return ""
    return "ok" if gain >= (10 if row["bytes"] <= SMALL else 3) else "missed"


def call_columns():
    def us(name):
        return lambda row: "%.2f" % row[name]
    names = (("coll", "coll"), ("mapped", "mapped"), ("gloo", "Gloo"))
    return [
        table.Column("ranks", lambda row: str(row["ranks"])),
        table.Column("size", lambda row: sizes.size_text(row["bytes"]), 8),
        *(table.Column(head, us(name + "_us"), group="C++ (us)") for name, head in names),
        table.Column("gain", lambda row: "%.1fx" % (row["gloo_us"] / row["coll_us"])),
        *(table.Column(head, us(name + "_python_us"), group="Python (us)") for name, head in names),
        table.Column("coll GB/s", lambda row: "%.2f" % (row["bytes"] / row["coll_us"] / 1e3)),
        table.Column("target: 10x to 1 KiB, 3x from 64 KiB", verdict, left=True)]


def step_columns():
    def ms(name):
        return lambda row: "%.2f" % row[name]
    return [
        table.Column("ranks", lambda row: str(row["ranks"])),
        table.Column("parameters", lambda row: str(row["parameters"])),
        table.Column("coll ms", ms("coll_ms")), table.Column("Gloo ms", ms("gloo_ms")),
        table.Column("alone", ms("alone_ms")),
        table.Column("gain", lambda row: "%.2fx" % (row["gloo_ms"] / row["coll_ms"])),
        table.Column("largest difference of the losses", lambda row: "%.1e in %d steps" % (
            row["loss_difference"], row["steps"]), left=True)]


def text_of(document):
    return "\n".join([
        *machine.heading(document, "float32 sum, us per call, rounds: %d"
                         % document["settings"]["rounds"]), document["python"], "",
        *table.lines(call_columns(), document["rows"]), "",
        *table.lines(step_columns(), document["steps"])])


def main():
    command.compare(parse_arguments(), NAME, take, text_of)
    return 0

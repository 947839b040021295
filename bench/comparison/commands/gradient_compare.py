"""Compares the gradients of the first training step of gpt train with PyTorch's, in any layout:
tensor, sequence, context, pipeline, expert and data parallelism. gpt train takes one step without
learning and saves its checkpoint, from whose moments the gradients follow; PyTorch computes those
of the same parameters and tokens, in float32 and in float64 (bench/peers/gradients_torch.py).

The exit code is 1 if in some layout the gradient of a tensor is farther from one of PyTorch's than
--max of its norm, 2 if a program failed."""
import argparse
import json
import os
import tempfile

from comparison import arguments, command, launch, table
from comparison.command import ROOT
from comparison.contenders import first_step, layouts

NAME = "bench/gradient-compare"
EXAMPLES = """examples:
  bench/gradient-compare --python ~/venv/bin/python
                                                a small model in all layouts
  bench/gradient-compare --python python3 --layout "4x1 --tp 2 --pp 2 --accumulate 4 --zero 1"
                                                in one layout, of four ranks of one thread
"""
# Losses of the router that weigh as much as the others in its gradients.
SWITCH = " --experts 4 --aux-loss 0.1 --z-loss 0.01 --capacity 1"
GSHARD = " --experts 8 --top-k 2 --moe-every 2 --shared-expert --aux-loss 0.1 --z-loss 0.01"
LAYOUTS = ["1x2", "2x1 --dp 2", "2x1 --dp 2 --zero 3 --accumulate 2", "2x1 --tp 2",
           "2x1 --tp 2 --sp", "4x1 --tp 4 --sp", "2x1 --cp 2 --cp-kind ring",
           "2x1 --cp 2 --cp-kind ulysses", "4x1 --cp 4", "2x1 --pp 2 --accumulate 8",
           "4x1 --pp 4 --accumulate 8 --schedule gpipe",
           "2x1 --pp 2 --accumulate 8 --schedule zb-h1",
           "2x1 --pp 2 --accumulate 4 --schedule interleaved --virtual-stages 2",
           "4x1 --tp 2 --sp --pp 2 --accumulate 4", "4x1 --tp 2 --cp 2",
           "8x1 --tp 2 --cp 2 --pp 2 --accumulate 4", "2x1 --naive-dp",
           "2x1 --dp 2 --zero 1", "2x1 --dp 2 --zero 2 --accumulate 2",
           "2x1 --pp 2 --accumulate 4 --schedule terapipe --slices 4",
           "1x2" + SWITCH, "2x1 --dp 2 --ep 2" + SWITCH, "2x1 --tp 2 --sp" + SWITCH,
           "4x1 --cp 2 --tp 2 --ep 2 --etp 1" + SWITCH, "1x2" + GSHARD, "4x1 --ep 4" + GSHARD,
           "4x1 --pp 2 --ep 2 --accumulate 4 --zero 1" + GSHARD,
           "8x1 --tp 2 --cp 2 --ep 4 --zero 1" + GSHARD]
SIZES = {"vocabulary": 211, "context": 64, "layers": 4, "heads": 4, "width": 128}
TORCH_SECONDS_MAX = 600


def layout_type(text):
    try:
        return layouts.parse(text, text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_arguments():
    parser = command.Parser(NAME, __doc__, EXAMPLES)
    add = parser.add_argument
    add("--python", metavar="PATH", help="an interpreter that has PyTorch")
    add("--layout", type=layout_type, action="append", metavar="LAYOUT",
        help="RANKSxTHREADS [options of gpt train]; may be repeated (all kinds of parallelism)")
    for name, size in SIZES.items():
        add("--" + name, type=arguments.positive, default=size, help="of the model (%d)" % size)
    add("--batch", type=arguments.positive, default=16, help="sequences (16)")
    add("--seed", type=int, default=1, help="of the text (1)")
    add("--max", type=float, default=1e-5, help="largest distance, relative to the norm (1e-5)")
    parser.add_out("txt", "json")
    parser.add_build()
    parser.add_from()
    options = parser.parse_needing_python()
    options.layout = options.layout or [layout_type(text) for text in LAYOUTS]
    return options


# ---- measuring -----------------------------------------------------------------------------------

def ask_torch(options, shard, paths):
    """What gradients_torch.py prints."""
    program = os.path.join(ROOT, "bench", "peers", "gradients_torch.py")
    try:
        return json.loads(launch.run([options.python, program, shard, *paths], {},
                                     TORCH_SECONDS_MAX))
    except launch.Failure as failure:
        last = (failure.errors.strip() or str(failure)).splitlines()[-1]
        raise launch.Failure("%s: %s" % (options.python, last)) from None


def take(options):
    """The document that is written as JSON."""
    sizes = {name: getattr(options, name) for name in SIZES}
    document = {"tool": NAME, "version": "", "sizes": sizes, "batch": options.batch,
                "max": options.max, "layouts": {}, "failures": {}}
    saved = {}
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data")
        os.mkdir(data)
        shard = first_step.write_corpus(data, sizes, options.batch, options.seed)
        for number, layout in enumerate(options.layout):
            path = os.path.join(folder, "%d.ckpt" % number)
            try:
                first_step.take_step(options.build, layout, data, sizes, options.batch, path)
                saved[layout.text] = path
            except launch.Failure as failure:
                document["failures"][layout.text] = str(failure)
        if saved:
            printed = ask_torch(options, shard, saved.values())
            document["version"] = printed["version"]
            document["layouts"] = dict(zip(saved, printed["checkpoints"]))
    return document


# ---- judging and showing -------------------------------------------------------------------------

def largest(found, precision):
    """(distance, tensor) of the tensor whose gradient differs most, relatively to its norm. NaN is
    the largest."""
    distances = {name: distance[precision] for name, distance in found["tensors"].items()}
    name = max(distances, key=lambda name: (distances[name] != distances[name], distances[name]))
    return distances[name], name


def passes(found, most):
    """NaN passes nowhere."""
    return all(largest(found, precision)[0] <= most for precision in ("float32", "float64"))


def columns(most):
    """A row: (layout, what was found; or "PyTorch in float32" and its own largest distance)."""
    def of(show):
        return lambda row: show(row[1]) if isinstance(row[1], dict) else ""
    return [
        table.Column("layout: ranks x threads, options", lambda row: row[0], left=True),
        table.Column("to float32", of(lambda found: "%.2e" % largest(found, "float32")[0])),
        table.Column("float64", lambda row: "%.2e" % (
            largest(row[1], "float64")[0] if isinstance(row[1], dict) else row[1])),
        table.Column("", of(lambda found: "passes" if passes(found, most) else "MISSES"),
                     left=True),
        table.Column("tensor", of(lambda found: largest(found, "float32")[1]), left=True)]


def text_of(document):
    sizes, rows = document["sizes"], list(document["layouts"].items())
    if rows:
        rows.append(("PyTorch in float32", max(found["torch"] for _, found in rows)))
    return "\n".join([
        "PyTorch %s; %d layers, %d heads, width %d, %d tokens, batch %d of %d" % (
            document["version"], sizes["layers"], sizes["heads"], sizes["width"],
            sizes["vocabulary"], document["batch"], sizes["context"]),
        "largest distance of a gradient of the first step, divided by the norm of the gradient",
        *table.lines(columns(document["max"]), rows),
        *("%s failed: %s" % pair for pair in document["failures"].items())])


def main():
    options = parse_arguments()
    document = command.compare(options, NAME, take, text_of)
    if document["failures"]:
        return command.FAILED
    return 0 if all(passes(found, document["max"])
                    for found in document["layouts"].values()) else command.LOST

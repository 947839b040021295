"""Compares the rounding errors of libtrain's operators with PyTorch's, forward and all gradients,
in bfloat16 and float16, at random shapes: embedding, layernorm, linear with bias, residual and
GELU, attention, classifier with cross-entropy. Both compute in the narrow type; the reference is
PyTorch in float64 on the same narrow inputs.

An output passes if libtrain's rms error over all shapes is at most 1.05 times PyTorch's, and its
largest error of any element at most twice PyTorch's. Gradients of parameters are float32 in
libtrain and of the narrow type in PyTorch, as each returns them.

Exit code: 0 if all outputs pass, 1 if one does not, 2 if a program failed."""
import json
import math
import os
import tempfile

from comparison import arguments, command, launch, table

NAME = "bench/op-accuracy"
EXAMPLES = """examples:
  bench/op-accuracy --python python3            with the PyTorch of this interpreter
  bench/op-accuracy --python ~/venv/bin/python --out bench/results/op_accuracy
                                                writes op_accuracy.txt and .json there
"""
DTYPES = ("bfloat16", "float16", "float32")
RMS_RATIO_MAX, MOST_RATIO_MAX = 1.05, 2.0


def parse_arguments():
    parser = command.Parser(NAME, __doc__, EXAMPLES)
    add = parser.add_argument
    add("--python", metavar="PATH", help="an interpreter that has PyTorch")
    add("--dtypes", type=arguments.word_list(DTYPES), default=["bfloat16", "float16"],
        help="a list; float32 also is known (bfloat16,float16)")
    add("--shapes", type=arguments.positive, default=200, help="per operator (200)")
    add("--seed", type=int, default=1, help="of shapes and inputs (1)")
    parser.add_out("txt", "json")
    parser.add_build()
    parser.add_from()
    return parser.parse_needing_python()


def measure(options, dtype):
    """What peers/op_accuracy_torch.py prints."""
    program = os.path.join(options.build, "bench", "accuracy")
    peer = os.path.join(command.ROOT, "bench", "peers", "op_accuracy_torch.py")
    with tempfile.TemporaryDirectory() as folder:
        launch.run_shown([program, "--dtype", dtype, "--shapes", str(options.shapes), "--seed",
                          str(options.seed), folder], "%s failed, see above" % program)
        return json.loads(launch.run_shown([options.python, peer, folder],
                                           "%s failed, see above" % peer))


# ---- judging and showing -------------------------------------------------------------------------

def ratio(ours, theirs):
    """Both without error: 1. An error where PyTorch has none: infinite."""
    if ours == theirs == 0:
        return 1.0
    return ours / theirs if theirs else math.inf


def ratios(row):
    return tuple(ratio(row["ours"][which], row["torch"][which]) for which in ("rms", "max"))


def passes(row):
    """NaN passes nowhere."""
    rms, most = ratios(row)
    return row["cases"] > 0 and rms <= RMS_RATIO_MAX and most <= MOST_RATIO_MAX


def columns():
    def figure(side, which, form):
        return lambda row: form % row[side][which]
    return [
        table.Column("operator", lambda row: row["op"], left=True),
        table.Column("output", lambda row: row["output"], left=True),
        table.Column("shapes", lambda row: str(row["cases"])),
        table.Column("rms", figure("ours", "rms", "%.3f")),
        table.Column("PyTorch", figure("torch", "rms", "%.3f")),
        table.Column("ratio", lambda row: "%.3f" % ratios(row)[0]),
        table.Column("largest", figure("ours", "max", "%.2f")),
        table.Column("PyTorch", figure("torch", "max", "%.2f")),
        table.Column("ratio", lambda row: "%.2f" % ratios(row)[1]),
        table.Column("", lambda row: "" if passes(row) else "FAIL", left=True)]


def lines(document):
    yield "%s; errors in units of the last place at an output's rms; PyTorch %s" % (
        document["dtype"], document["version"])
    yield from table.lines(columns(), document["outputs"])
    failed = sum(not passes(row) for row in document["outputs"])
    yield "%d of %d outputs within %g times PyTorch's rms error and %g times its largest one" % (
        len(document["outputs"]) - failed, len(document["outputs"]), RMS_RATIO_MAX,
        MOST_RATIO_MAX)
    yield ""


def main():
    options = parse_arguments()
    documents = command.compare_each(
        options, NAME, "dtypes", (measure(options, dtype) for dtype in options.dtypes), lines,
        shapes=options.shapes, seed=options.seed)
    missed = any(not passes(row) for document in documents for row in document["outputs"])
    return command.LOST if missed else 0

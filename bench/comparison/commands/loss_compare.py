"""Compares the losses of the first training steps of libtrain and PyTorch. Both start from the same
weights, which libtrain initializes and saves, and train on the bytes of the same text, with AdamW
and clipped gradients. PyTorch runs eager and compiled, whose difference in float32 shows what the
order of additions alone changes; in the narrow precisions with autocast, beside its own float32.
PyTorch's clip_grad_norm_ computes the norm in float32, with an error of about 1e-4 for GPT-2, which
changes all later losses. So in float32 it also runs with a norm computed in float64, as libtrain's.

The steps are 30 in float32 and 20 in others. The exit code is 1 if a float32 loss differs from
PyTorch's with that norm by more than --max, relatively, or one in a narrow precision from PyTorch's
by more than --max-narrow."""
import json
import math
import os
import tempfile

from comparison import arguments, command, launch, table
from comparison.command import ROOT
from comparison.contenders import trainers

NAME = "bench/loss-compare"
EXAMPLES = """examples:
  bench/loss-compare --python ~/venv/bin/python
                                                GPT-2 with 124 M parameters, float32 and bf16
  bench/loss-compare --python python3 --row mini:4x64 --precision float32
                                                a small model, in a minute
"""
PRECISIONS = ("float32", "bf16", "bf16-pure", "fp16")
STEPS = {"float32": 30}
STEPS_NARROW = 20
OURS, EXACT_NORM = "libtrain", "PyTorch, exact norm"


def parse_arguments():
    parser = command.Parser(NAME, __doc__, EXAMPLES)
    add = parser.add_argument
    add("--python", metavar="PATH", help="an interpreter that has PyTorch")
    add("--row", type=trainers.parse_row, default=trainers.parse_row("gpt2:4x64"),
        help="PRESET:BATCHxLENGTH (gpt2:4x64)")
    add("--precision", type=arguments.word_list(PRECISIONS), default=["float32", "bf16"],
        help="a list of %s (float32,bf16)" % ", ".join(PRECISIONS))
    add("--text", default=os.path.join(ROOT, "docs", "ARCHITECTURE.md"),
        help="its bytes are the tokens (docs/ARCHITECTURE.md)")
    add("--steps", type=arguments.positive, help="in every precision, at least 2 (30 or 20)")
    add("--no-compile", action="store_true", help="leave the compiled PyTorch out")
    add("--max", type=float, default=3e-6, help="relative difference in float32 (3e-6)")
    add("--max-narrow", type=float, default=1e-2, help="in other precisions (1e-2)")
    parser.add_out("txt", "json")
    parser.add_build()
    parser.add_from()
    return parser.parse_needing_python()


# ---- measuring -----------------------------------------------------------------------------------

def json_of(line):
    """The line of JSON that a program printed."""
    command.say(NAME, " ".join(line[:2]))
    return json.loads(launch.run_shown(line, "%s failed, see above" % line[0]))


def torch_losses(options, precision, steps, ours, folder, more=()):
    line = [options.python, os.path.join(ROOT, "bench", "peers", "gpt2_torch.py"),
               "--batch", str(options.row.batch), "--length", str(options.row.length),
               "--precision", precision, "--text", options.text, "--steps", str(steps),
               "--weights", os.path.join(folder, "model.safetensors"), *more]
    for name, size in ours["config"].items():
        line += ["--" + name, str(size)]
    return json_of(line)["losses"]


def compare(options, precision):
    steps = options.steps or STEPS.get(precision, STEPS_NARROW)
    with tempfile.TemporaryDirectory() as folder:
        ours = json_of([os.path.join(options.build, "bench", "step"), "--json",
                          "--preset", options.row.preset, "--batch", str(options.row.batch),
                          "--length", str(options.row.length), "--precision", precision,
                          "--text", options.text, "--steps", str(steps - 1),
                          "--save", os.path.join(folder, "")])
        found = {OURS: ours["losses"]}
        found["PyTorch"] = torch_losses(options, precision, steps, ours, folder)
        if not options.no_compile:
            found["PyTorch compiled"] = torch_losses(options, precision, steps, ours, folder,
                                                     ["--compile"])
        if precision == "float32":
            found[EXACT_NORM] = torch_losses(options, precision, steps, ours, folder,
                                             ["--exact-norm"])
        else:
            found["PyTorch float32"] = torch_losses(options, "float32", steps, ours, folder)
    return {"row": trainers.row_name(options.row), "precision": precision,
            "text": os.path.relpath(options.text, ROOT), "losses": found}


# ---- judging and showing -------------------------------------------------------------------------

def distance(one, other):
    """The largest relative difference of two lists of losses; NaN if one of them is not finite."""
    differences = [abs(a - b) / abs(b) for a, b in zip(one, other)]
    return max(differences) if all(map(math.isfinite, differences)) else math.nan


def mean_distance(one, other):
    return sum(abs(a - b) / abs(b) for a, b in zip(one, other)) / len(one)


def passes(options, document):
    """NaN passes nowhere."""
    is_float32 = document["precision"] == "float32"
    found = document["losses"]
    peer = found[EXACT_NORM if is_float32 else "PyTorch"]
    return distance(found[OURS], peer) <= (
        options.max if is_float32 else options.max_narrow)


def lines(document):
    losses = document["losses"]
    names = list(losses)
    yield "%s, %s, %d steps on %s" % (document["row"], document["precision"], len(losses[OURS]),
                                      document["text"])
    yield from table.lines([table.Column("step", lambda step: str(step + 1), 5), *(
        table.Column(name, lambda step, name=name: "%.7f" % losses[name][step], len(name) + 2)
        for name in names)], range(len(losses[OURS])))
    yield "relative differences of losses"
    pairs = [(losses[name], losses[other], name, other) for index, name in enumerate(names)
             for other in names[index + 1:]]
    yield from table.lines([
        table.Column("", lambda pair: pair[2], left=True),
        table.Column("", lambda pair: pair[3], left=True),
        table.Column("largest", lambda pair: "%.2e" % distance(*pair[:2])),
        table.Column("mean", lambda pair: "%.2e" % mean_distance(*pair[:2]))], pairs, indent="  ")
    yield ""


def main():
    options = parse_arguments()
    documents = command.compare_each(
        options, NAME, "comparisons",
        (compare(options, precision) for precision in options.precision), lines)
    return 0 if all(passes(options, document) for document in documents) else command.LOST

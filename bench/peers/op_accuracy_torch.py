#!/usr/bin/env python3
"""Computes what bench/accuracy computed with PyTorch, in the same element type and in float64, and
prints the errors of both as JSON: {"dtype", "version", "outputs": [{"op", "output", "cases",
"ours": {"rms", "max"}, "torch": {"rms", "max"}}]}.

Errors are differences to float64, in units of the last place of the element type at the root mean
square of a case's output. "rms" is the root mean square over all cases, each counted once; "max" is
the largest error of any element of any case.

    op_accuracy_torch.py FOLDER
"""
import json
import math
import os
import sys

import torch
from torch.nn import functional as F

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16,
         "int32": torch.int32}
# Of numbers in [1, 2).
LAST_PLACE = {"float32": 2.0 ** -23, "bfloat16": 2.0 ** -7, "float16": 2.0 ** -10}


# ---- operators: {output: tensor} of leaves that require gradients --------------------------------

def gradients(out, x, names):
    """The gradients of sum(out * d_out) by the inputs, as {"d_" + name: gradient}."""
    found = torch.autograd.grad(out, [x[name] for name in names], x["d_out"])
    return {"d_" + name: gradient for name, gradient in zip(names, found)}


def embedding(x, sizes):
    tokens = x["tokens"].view(sizes["sequences"], -1).long()
    positions = torch.arange(tokens.shape[1])
    out = F.embedding(tokens, x["table"]) + F.embedding(positions, x["positions"])
    out = out.flatten(0, 1)
    return dict(gradients(out, x, ["table", "positions"]), out=out)


def layernorm(x, _):
    out = F.layer_norm(x["in"], x["in"].shape[1:], x["weight"].flatten(), x["bias"].flatten(), 1e-5)
    found = gradients(out, x, ["in", "weight", "bias"])
    if "stream" in x:
        found["d_in"] = found["d_in"] + x["stream"]
    return dict(found, out=out)


def linear(x, _):
    """The gradient of a residual is d_out itself; that of GELU is taken before it, as d_out."""
    out = F.linear(x["in"], x["weight"], x["bias"].flatten())
    found = gradients(out, x, ["in", "weight", "bias"])
    if "residual" in x:
        out = out + x["residual"]
    return dict(found, out=out)


def linear_gelu(x, sizes):
    found = linear(x, sizes)
    return dict(found, active=F.gelu(found["out"], approximate="tanh"))


def gelu_linear(x, _):
    out = F.linear(F.gelu(x["hidden"], approximate="tanh"), x["weight"], x["bias"].flatten())
    return dict(gradients(out, x, ["hidden", "weight", "bias"]), out=out)


def attention(x, sizes):
    width = x["qkv"].shape[1] // 3
    parts = x["qkv"].view(sizes["sequences"], -1, 3, sizes["heads"], width // sizes["heads"])
    query, key, value = parts.permute(2, 0, 3, 1, 4)
    out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    out = out.transpose(1, 2).reshape(-1, width)
    return dict(gradients(out, x, ["qkv"]), out=out)


def classifier(x, _):
    logits = F.linear(x["in"], x["table"])
    loss = F.cross_entropy(logits, x["targets"].flatten().long(), reduction="sum")
    d_in, d_table = torch.autograd.grad(loss, [x["in"], x["table"]])
    return {"loss": loss, "d_in": d_in, "d_table": d_table}


OPERATORS = {"embedding": embedding, "layernorm": layernorm, "linear": linear,
             "linear+residual": linear, "linear, GELU": linear_gelu, "GELU, linear": gelu_linear,
             "attention": attention, "classifier": classifier}


# ---- arrays --------------------------------------------------------------------------------------

def read_arrays(data, case):
    """({name: input}, {name: output}) of a case."""
    inputs, outputs = {}, {}
    for name, array in case["arrays"].items():
        dtype = TYPES[array["dtype"]]
        count = math.prod(array["shape"])
        values = torch.frombuffer(data, dtype=dtype, count=count, offset=array["offset"])
        (outputs if array["output"] else inputs)[name] = values.view(array["shape"])
    return inputs, outputs


def compute(case, inputs, dtype):
    """The outputs of PyTorch, computed in that type. Indices stay as they are."""
    leaves = {}
    for name, values in inputs.items():
        floating = values.is_floating_point()
        leaves[name] = values.detach().clone().to(dtype).requires_grad_() if floating else values
    found = OPERATORS[case["op"]](leaves, case["sizes"])
    return {name: values.detach() for name, values in found.items()}


# ---- errors --------------------------------------------------------------------------------------

class Errors:
    def __init__(self, unit):
        self.unit, self.squares, self.cases, self.most = unit, 0.0, 0, 0.0

    def add(self, values, exact):
        scale = float(exact.square().mean().sqrt()) * self.unit
        if scale == 0:  # a gradient that is zero everywhere, such as that of one single key
            return
        errors = (values.double().flatten() - exact.flatten()) / scale
        self.squares += float(errors.square().mean())
        self.most = max(self.most, float(errors.abs().max()))
        if math.isnan(float(errors.sum())):
            self.most = math.nan
        self.cases += 1

    def summary(self):
        return {"rms": math.sqrt(self.squares / max(self.cases, 1)), "max": self.most}


def measure(folder):
    with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
        index = json.load(file)
    with open(os.path.join(folder, "data.bin"), "rb") as file:
        data = bytearray(file.read())
    unit, dtype = LAST_PLACE[index["dtype"]], TYPES[index["dtype"]]
    found = {}
    for number, case in enumerate(index["cases"]):
        if sys.stderr.isatty() and number % 50 == 0:
            sys.stderr.write("\r\x1b[K%s: %d of %d" % (index["dtype"], number,
                                                       len(index["cases"])))
        inputs, ours = read_arrays(data, case)
        theirs, exact = (compute(case, inputs, kind) for kind in (dtype, torch.float64))
        for name, values in ours.items():
            both = found.setdefault((case["op"], name), (Errors(unit), Errors(unit)))
            both[0].add(values, exact[name])
            both[1].add(theirs[name], exact[name])
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    return {"dtype": index["dtype"], "version": torch.__version__,
            "outputs": [{"op": op, "output": name, "cases": ours.cases, "ours": ours.summary(),
                         "torch": theirs.summary()}
                        for (op, name), (ours, theirs) in found.items()]}


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    torch.set_num_threads(1)  # the arrays are small
    print(json.dumps(measure(sys.argv[1])))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares the gradients of the first step of gpt train, which follow from the moments in its
checkpoint, with PyTorch's, from the same parameters and tokens, in float32 and float64. Prints
JSON, a tensor's distance being that of the gradients divided by the norm of PyTorch's:

    {"version", "checkpoints": [{"tensors": {name: {"float32": distance, "float64": distance}},
                                 "torch": the largest distance of PyTorch in float32 to float64}]}

    gradients_torch.py SHARD CHECKPOINT...
"""
import json
import os
import sys
import types

import torch

import experts_torch
import gpt2_torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from comparison.contenders import checkpoint  # noqa: E402

SHARD_HEADER_BYTES = 1024


def read_batch(path, context):
    """(tokens, targets) of all sequences of a shard."""
    with open(path, "rb") as file:
        data = bytearray(file.read()[SHARD_HEADER_BYTES:])
    text = torch.frombuffer(data, dtype=torch.int16).long() & 0xffff
    count = (len(text) - 1) // context * context
    return text[:count].view(-1, context), text[1:count + 1].view(-1, context)


def tensors_of(saved, values):
    flat = torch.frombuffer(values, dtype=torch.float32)
    return {name: flat[offset:offset + checkpoint.count_of(shape)].view(shape)
            for name, (shape, offset) in saved.tensors.items()}


def model_of(saved):
    if saved.model["untied"]:
        raise ValueError("the model in PyTorch has no untied head")
    if saved.model["experts"] is None:
        return gpt2_torch.Model(types.SimpleNamespace(**saved.model))
    settings = {name.replace("-", "_"): float(saved.settings[name])
                for name in ("capacity", "aux-loss", "z-loss")}
    return experts_torch.Model(types.SimpleNamespace(**saved.model, **settings))


def torch_gradients(saved, batch, dtype):
    """{name: gradient}."""
    model = model_of(saved).to(dtype)
    parameters = tensors_of(saved, saved.parameters)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(parameters[name])
    model(*batch).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def distance(one, other):
    return float((one.double() - other.double()).norm() / other.double().norm())


class Reference:
    """PyTorch's gradients, computed once for all checkpoints with the same parameters."""

    def __init__(self, shard):
        self.shard, self.found = shard, None
        self.parameters, self.settings = None, None

    def gradients(self, saved):
        if (self.parameters, self.settings) != (saved.parameters, saved.settings):
            batch = read_batch(self.shard, saved.model["context"])
            self.found = {name: torch_gradients(saved, batch, dtype) for name, dtype in
                          (("float32", torch.float32), ("float64", torch.float64))}
            self.parameters, self.settings = saved.parameters, saved.settings
        return self.found


def compare(path, reference):
    saved = checkpoint.read(path)
    if saved.position["step"] != 1:
        raise ValueError("%s was saved after step %d: the gradients of the first step are lost" % (
            path, saved.position["step"]))
    theirs = reference.gradients(saved)
    ours = {name: moment.double() / checkpoint.MOMENT_SHARE
            for name, moment in tensors_of(saved, saved.moments).items()}
    if set(ours) != set(theirs["float32"]):
        raise ValueError("%s and PyTorch's model have other tensors" % path)
    return {"tensors": {name: {precision: distance(gradient, theirs[precision][name])
                               for precision in theirs}
                        for name, gradient in ours.items()},
            "torch": max(distance(theirs["float32"][name], theirs["float64"][name])
                         for name in ours)}


def main():
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    torch.set_num_threads(1)  # the model is small
    reference = Reference(sys.argv[1])
    print(json.dumps({"version": torch.__version__,
                      "checkpoints": [compare(path, reference) for path in sys.argv[2:]]}))


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as problem:
        sys.exit("gradients_torch.py: %s" % problem)

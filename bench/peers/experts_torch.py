"""A GPT-2 with a mixture of experts in PyTorch, the peer of libtrain/model/experts.h: for each row
of a batch one expert (Switch Transformer, Fedus et al. 2021) or two (GShard, Lepikhin et al. 2020).
It is written to be obvious: every expert computes every row, and what was not chosen counts 0."""
import math

import torch
from torch import nn
from torch.nn import functional as F

import gpt2_torch


def count_places(choices, experts):
    """choices[sequences, length, top_k] -> the place of each choice in the queue of its expert:
    first choices of a sequence in order of position, then second ones."""
    queue = F.one_hot(choices.transpose(1, 2).flatten(1), experts)
    places = (queue.cumsum(1) * queue).sum(2) - 1
    return places.view(choices.shape[0], choices.shape[2], -1).transpose(1, 2)


class Experts(nn.Module):
    """Parameters have libtrain's shapes (bench/comparison/contenders/checkpoint.py)."""

    def __init__(self, width, count):
        super().__init__()
        self.width, self.count = width, count
        self.c_fc = nn.ParameterDict({"weight": torch.empty(count, 4 * width * width),
                                      "bias": torch.empty(count, 4 * width)})
        self.c_proj = nn.ParameterDict({"weight": torch.empty(count * width, 4 * width),
                                        "bias": torch.empty(count, width)})

    def forward(self, x, shares):
        """x[..., width], shares[..., count]: what each expert's result is multiplied by."""
        hidden = self.c_fc["weight"].view(self.count, 4 * self.width, self.width)
        output = self.c_proj["weight"].view(self.count, self.width, 4 * self.width)
        sum_of_all = torch.zeros_like(x)
        for i in range(self.count):
            active = F.gelu(F.linear(x, hidden[i], self.c_fc["bias"][i]), approximate="tanh")
            result = F.linear(active, output[i], self.c_proj["bias"][i])
            sum_of_all = sum_of_all + shares[..., i, None] * result
        return sum_of_all


class ExpertBlock(gpt2_torch.Block):
    """options: experts, as in a checkpoint; capacity, aux_loss, z_loss."""

    def __init__(self, options):
        super().__init__(options.width, options.heads)
        self.options = options
        self.gate = nn.Linear(options.width, options.experts["count"], bias=False)
        self.experts = Experts(options.width, options.experts["count"])
        if not options.experts["shared"]:
            del self.mlp

    def keep(self, choices):
        """Whether the expert of a choice has room for it."""
        if self.options.capacity <= 0:
            return torch.ones_like(choices, dtype=torch.bool)
        count, length = self.options.experts["count"], choices.shape[1]
        room = math.ceil(self.options.capacity * choices.shape[2] * length / count)
        return count_places(choices, count) < room

    def route(self, x):
        """The share of each expert in each row, and the losses of the router, per row."""
        count, top_k = self.options.experts["count"], self.options.experts["top_k"]
        logits = self.gate(x)
        probabilities = logits.softmax(-1)
        weights, choices = probabilities.topk(top_k)
        if top_k > 1:
            weights = weights / weights.sum(-1, keepdim=True)
        shares = torch.zeros_like(probabilities).scatter(-1, choices, weights * self.keep(choices))
        first = F.one_hot(choices[..., 0], count).to(x.dtype).mean(1)
        balance = count * (first * probabilities.mean(1)).sum(-1).mean()
        z = logits.logsumexp(-1).square().mean()
        return shares, self.options.aux_loss * balance + self.options.z_loss * z

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        normed = self.ln_2(x)
        shares, self.loss = self.route(normed)
        out = x + self.experts(normed, shares)
        return out + self.apply_mlp(normed) if self.options.experts["shared"] else out


class Model(gpt2_torch.Model):
    """options: those of gpt2_torch.Model, and of ExpertBlock."""

    def __init__(self, options):
        super().__init__(options)
        every = options.experts["moe_every"]
        for layer in range(every - 1, options.layers, every):
            self.h[layer] = ExpertBlock(options)

    def forward(self, tokens, targets):
        loss = super().forward(tokens, targets)
        return loss + sum(block.loss for block in self.h if isinstance(block, ExpertBlock))

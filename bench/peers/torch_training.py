"""Times steps of a GPT-2 in DistributedDataParallel over backends coll and gloo, in turn in the
same processes, and compares the losses. Run by bench/torch-compare:

    torchrun ... torch_training.py LAYERS WIDTH LENGTH ROUNDS

Every backend trains a model of its own from the same weights on the same tokens, of which each rank
takes one sequence per step. Rank 0 prints a JSON line: medians over the rounds, in ms per step,
where a round's time is that of its slowest rank; "alone" is the step of a rank that communicates
with none, beside the others that do the same, so that the rest is what the allreduces cost."""
import argparse
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import coll_torch  # noqa: F401  (registers the backend)

from gpt2_torch import Model

VOCABULARY = 256
STEPS_PER_ROUND = 2


class Training:
    """A model and its optimizer; group None trains without others."""

    def __init__(self, sizes, group):
        torch.manual_seed(1)
        model = Model(sizes)
        self.model = model if group is None else DistributedDataParallel(model, process_group=group)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.tokens = torch.Generator().manual_seed(100 + dist.get_rank())
        self.losses = []
        self.length = sizes.context

    def step(self):
        row = torch.randint(VOCABULARY, (1, self.length + 1), generator=self.tokens)
        loss = self.model(row[:, :-1], row[:, 1:].contiguous())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.item())

    def round_ms(self):
        began = time.perf_counter()
        for _ in range(STEPS_PER_ROUND):
            self.step()
        return (time.perf_counter() - began) / STEPS_PER_ROUND * 1e3


def measure(trainings, gloo, rounds):
    """Medians over the rounds, in the order of the trainings."""
    times = []
    for _ in range(rounds + 1):  # the first one warms up: DDP rebuilds its buckets
        row = []
        for training in trainings:
            dist.barrier(gloo)
            row.append(training.round_ms())
        times.append(row)
    slowest = torch.tensor(times[1:], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX, gloo)
    return [statistics.median(column) for column in slowest.T.tolist()]


def main():
    layers, width, length, rounds = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    sizes = argparse.Namespace(vocabulary=VOCABULARY, context=length, layers=layers, width=width,
                               heads=max(1, width // 64))
    groups = {name: dist.new_group(backend=name) for name in ("coll", "gloo")}
    trainings = {name: Training(sizes, group) for name, group in groups.items()}
    trainings["alone"] = Training(sizes, None)
    medians = measure(trainings.values(), groups["gloo"], rounds)
    difference = max(abs(a - b) for a, b in zip(trainings["coll"].losses, trainings["gloo"].losses))
    if dist.get_rank() == 0:
        count = sum(p.numel() for p in trainings["alone"].model.parameters())
        print(json.dumps({"ranks": dist.get_world_size(), "parameters": count, "layers": layers,
                          "width": width, "length": length,
                          "steps": len(trainings["coll"].losses), "loss_difference": difference,
                          **{name + "_ms": ms for name, ms in zip(trainings, medians)}}),
              flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

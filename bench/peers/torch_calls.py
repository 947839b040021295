"""Times allreduces of torch.distributed over backends coll and gloo, in turn in the same processes.
Run by bench/torch-compare:

    torch_calls.py build FOLDER
    torchrun ... torch_calls.py run FOLDER SIZES ROUNDS BYTES_PER_ROUND

The first one compiles torch_loop.cpp into FOLDER. SIZES: bytes, as 4,1024.

A round makes as many calls as move BYTES_PER_ROUND, from 5 to 200. Rank 0 prints a JSON line for
each size: medians over the rounds, in microseconds per call, where a round's time is that of its
slowest rank. "mapped" is coll with tensors of coll_torch.empty."""
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.utils import cpp_extension

import coll_torch

HERE = os.path.dirname(os.path.abspath(__file__))


def load_loop(folder):
    return cpp_extension.load("coll_torch_loop", [os.path.join(HERE, "torch_loop.cpp")],
                              build_directory=folder, extra_cflags=["-O2"])


def python_us(group, tensor, calls):
    began = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(tensor, group=group)
    return (time.perf_counter() - began) / calls * 1e6


def timers_of(loop, groups, count):
    """Name and function (calls -> us) of all that is timed. Sums of zeros stay zeros."""
    cpu = torch.device("cpu")
    for name, backend, make in (("coll", "coll", torch.zeros), ("mapped", "coll", coll_torch.empty),
                                ("gloo", "gloo", torch.zeros)):
        tensor, group = make(count), groups[backend]
        native = group._get_backend(cpu)
        yield name + "_us", lambda calls, n=native, t=tensor: loop.allreduce_us(n, t, calls)
        yield name + "_python_us", lambda calls, g=group, t=tensor: python_us(g, t, calls)


def measure(loop, groups, size, rounds, bytes_per_round):
    calls = max(5, min(200, bytes_per_round // size))
    timers = dict(timers_of(loop, groups, size // 4))
    times = []
    for _ in range(rounds + 1):  # the first one warms up
        row = []
        for timer in timers.values():
            dist.barrier(groups["gloo"])
            row.append(timer(calls))
        times.append(row)
    slowest = torch.tensor(times[1:], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX, groups["gloo"])
    medians = [statistics.median(column) for column in slowest.T.tolist()]
    return {"ranks": dist.get_world_size(), "bytes": size, "calls": calls,
            **dict(zip(timers, medians))}


def main():
    loop = load_loop(sys.argv[2])
    if sys.argv[1] == "build":
        return
    sizes, rounds, bytes_per_round = sys.argv[3].split(","), int(sys.argv[4]), int(sys.argv[5])
    dist.init_process_group("gloo")
    groups = {name: dist.new_group(backend=name) for name in ("coll", "gloo")}
    for size in map(int, sizes):
        row = measure(loop, groups, size, rounds, bytes_per_round)
        if dist.get_rank() == 0:
            print(json.dumps(row), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

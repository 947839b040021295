"""Parts of torch_ranks.py that train a tiny model, by several ranks and by one process."""
import copy

import torch
import torch.distributed as dist

from torch_parts import RANK, SIZE, device
import ranks

STEPS, BATCH, WIDTH = 3, 6, 16


def model(dtype=torch.float32):
    torch.manual_seed(7)
    layers = [torch.nn.Linear(WIDTH, 32), torch.nn.ReLU(), torch.nn.Linear(32, WIDTH)]
    return torch.nn.Sequential(*layers).to(dtype).to(device())


def batch(step, rank, dtype=torch.float32):
    torch.manual_seed(100 * step + rank)
    return torch.randn(BATCH, WIDTH).to(dtype).to(device())


def train(trained, own, optimizer=None):
    """own: on the batches of this rank; else on those of all, as if they were one batch."""
    optimizer = optimizer or torch.optim.SGD(trained.parameters(), lr=0.1, momentum=0.9)
    dtype = next(trained.parameters()).dtype
    for step in range(STEPS):
        optimizer.zero_grad()
        each = [RANK] if own else range(SIZE)
        data = torch.cat([batch(step, rank, dtype) for rank in each])
        (trained(data) - data).float().pow(2).mean().backward()
        optimizer.step()


def close(found, expected, tolerance=1e-5):
    for (name, left), right in zip(found.named_parameters(), expected.parameters()):
        difference = (left.detach().float() - right.detach().float()).abs().max().item()
        if not difference <= tolerance:
            raise ValueError("error: %s differs by %g" % (name, difference))


def ddp():
    from torch.nn.parallel import DistributedDataParallel
    alone = model()
    train(alone, own=False)
    for buckets in (0.0001, 25):
        together = DistributedDataParallel(model(), device_ids=[device()], bucket_cap_mb=buckets)
        train(together, own=True)
        close(together.module, alone)
    together = DistributedDataParallel(model(), device_ids=[device()], static_graph=True,
                                       gradient_as_bucket_view=True)
    train(together, own=True)
    close(together.module, alone)


def ddp_bfloat16():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.nn.parallel import DistributedDataParallel
    alone = model()
    train(alone, own=False)
    together = DistributedDataParallel(model(), device_ids=[device()])
    together.register_comm_hook(None, default_hooks.bf16_compress_hook)
    train(together, own=True)
    close(together.module, alone, 2e-2)


def zero():
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel
    alone = model()
    train(alone, own=False)
    together = DistributedDataParallel(model(), device_ids=[device()])
    train(together, True, ZeroRedundancyOptimizer(together.parameters(), torch.optim.SGD, lr=0.1,
                                                  momentum=0.9))
    close(together.module, alone)


def fsdp():
    from torch.distributed.fsdp import fully_shard
    alone, together = model(), model()
    train(alone, own=False)
    for layer in together:
        if list(layer.parameters()):
            fully_shard(layer)
    fully_shard(together)
    train(together, own=True)
    whole = copy.deepcopy(alone)
    with torch.no_grad():
        for target, source in zip(whole.parameters(), together.parameters()):
            target.copy_(source.full_tensor())
    close(whole, alone)


def tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   parallelize_module)
    if 32 % SIZE != 0:
        raise ranks.Skip("needs a number of ranks that divides 32")
    alone, together = model(), model()
    mesh = init_device_mesh("cuda", (SIZE,))
    parallelize_module(together, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    data = torch.cat([batch(0, rank) for rank in range(SIZE)])
    difference = (together(data) - alone(data)).abs().max().item()
    if not difference < 1e-5:
        raise ValueError("error: the output differs by %g" % difference)
    together(data).pow(2).mean().backward()
    alone(data).pow(2).mean().backward()
    for left, right in zip(together.parameters(), alone.parameters()):
        difference = (left.grad.full_tensor() - right.grad).abs().max().item()
        if not difference < 1e-5:
            raise ValueError("error: a gradient differs by %g" % difference)


PARTS = {function.__name__: function for function in (ddp, ddp_bfloat16, zero, fsdp,
                                                      tensor_parallel)}

"""Collectives and messages of CUDA tensors over backend coll, on GPUs or on virtual ones, where no
kernel of PyTorch can run: tensors are filled and read through memory of the host. The ranks are
processes with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; each has a GPU, or they share them.
Usage: gpu.py PART..."""
import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

import coll_torch

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
COUNT = 1003
SUM, MAX = dist.ReduceOp.SUM, dist.ReduceOp.MAX


def device():
    return torch.device("cuda", RANK % torch.cuda.device_count())


def part_of(rank, count=COUNT, dtype=torch.float32):
    """What a rank contributes: small integers, whose sums are exact."""
    return ((torch.arange(count) % 5 + 1) * (rank + 1)).to(dtype)


def upload(values):
    return torch.empty(values.shape, dtype=values.dtype, device=device()).copy_(values)


def room(count, dtype=torch.float32):
    return upload(torch.full((count,), 99).to(dtype))


def same(tensor, expected, what):
    assert torch.equal(tensor.cpu(), expected), what


def total(count=COUNT, dtype=torch.float32):
    return sum(part_of(rank, count, torch.float64) for rank in range(SIZE)).to(dtype)


def reductions():
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64):
        tensor = upload(part_of(RANK, dtype=dtype))
        dist.all_reduce(tensor)
        same(tensor, total(dtype=dtype), f"sum of {dtype}")
    tensor = upload(part_of(RANK))
    dist.reduce(tensor, SIZE - 1, MAX)
    if RANK == SIZE - 1:
        same(tensor, part_of(SIZE - 1), "reduce")
    out = room(COUNT)
    dist.reduce_scatter_tensor(out, upload(part_of(RANK, SIZE * COUNT)))
    same(out, total(SIZE * COUNT)[RANK * COUNT:(RANK + 1) * COUNT], "reduce_scatter_tensor")
    tensor = upload(part_of(RANK))
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    same(tensor, total() / 2, "premul_sum")


def movements():
    tensor = upload(part_of(RANK))
    dist.broadcast(tensor, 1)
    same(tensor, part_of(1), "broadcast")
    out = room(SIZE * COUNT)
    dist.all_gather_into_tensor(out, upload(part_of(RANK)))
    same(out, torch.cat([part_of(rank) for rank in range(SIZE)]), "all_gather_into_tensor")
    out = room(SIZE * COUNT)
    dist.all_gather(list(out.chunk(SIZE)), upload(part_of(RANK)))
    same(out, torch.cat([part_of(rank) for rank in range(SIZE)]), "all_gather")
    out = room(SIZE * 7)
    dist.all_to_all_single(out, upload(part_of(RANK, SIZE * 7)))
    mine = slice(RANK * 7, RANK * 7 + 7)
    same(out, torch.cat([part_of(rank, SIZE * 7)[mine] for rank in range(SIZE)]), "all_to_all")


def order():
    """Calls follow the work of the current stream, and precede it after wait()."""
    side = torch.cuda.Stream()
    host = part_of(RANK, 1 << 20).pin_memory()
    with torch.cuda.stream(side):
        tensor = torch.empty(host.shape, device=device())
        for _ in range(5):
            tensor.copy_(host, non_blocking=True)
            work = dist.all_reduce(tensor, async_op=True)
            work.wait()
            host_after = torch.empty(host.shape).pin_memory()
            host_after.copy_(tensor, non_blocking=True)
            side.synchronize()
            assert torch.equal(host_after, total(1 << 20)), "order on a stream"
            assert work.is_completed()
    works = [(upload(part_of(RANK, 10 + i)), i) for i in range(10)]
    works = [(dist.all_reduce(tensor, async_op=True), tensor, i) for tensor, i in works]
    for work, tensor, i in reversed(works):
        work.get_future().wait()
        same(tensor, total(10 + i), "several under way")


def messages():
    follows, leads = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    out = room(COUNT)
    works = [dist.isend(upload(part_of(RANK)), follows), dist.irecv(out, leads)]
    for work in works:
        work.wait()
    same(out, part_of(leads), "a ring of messages")


def host_too():
    """Tensors of the CPU in the same group, between calls on the GPU."""
    tensor, host = upload(part_of(RANK)), part_of(RANK)
    works = [dist.all_reduce(tensor, async_op=True), dist.all_reduce(host, async_op=True)]
    for work in works:
        work.wait()
    same(tensor, total(), "on the GPU")
    assert torch.equal(host, total()), "on the CPU"


def refusals():
    mixed = [torch.zeros(3), room(3)]
    try:
        dist.all_to_all(mixed[:1] * SIZE, mixed[1:] * SIZE)
    except RuntimeError as error:
        assert "several devices" in str(error), error
    else:
        raise AssertionError("tensors of two devices in one call")


def new_group():
    group = dist.new_group(list(range(SIZE)), backend="coll")
    tensor = upload(part_of(RANK))
    dist.all_reduce(tensor, group=group)
    same(tensor, total(), "another group")
    dist.destroy_process_group(group)


def killed():
    """Rank 1 dies. The others' calls end, and say so."""
    dist.all_reduce(upload(part_of(RANK)))
    dist.barrier()
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    try:
        while time.monotonic() - began < 60:
            tensor = upload(part_of(RANK))
            work = dist.all_reduce(tensor, async_op=True)
            tensor.cpu()
            work.wait()
    except RuntimeError as error:
        took = time.monotonic() - began
        print(f"lost after {took:.2f} s: {error}", flush=True)
        state = dist.group.WORLD._get_backend(device()).get_error().name
        if work.is_success() or state != "REMOTE_ERROR":
            print(f"the call succeeded ({work.is_success()}), the group is {state}", flush=True)
            os._exit(4)
        os._exit("rank 1" not in str(error))
    os._exit(3)


def dropped():
    """A group that is dropped ends its calls before it goes."""
    group = coll_torch.native.create(
        dist.PrefixStore("dropped", dist.distributed_c10d._get_default_store()), RANK, SIZE, 60000,
        "dropped")
    tensors = [upload(part_of(RANK, 1 << 18)) for _ in range(10)]
    for tensor in tensors:
        group.allreduce([tensor], dist.AllreduceOptions())
    del group
    for tensor in tensors:
        same(tensor, total(1 << 18), "a call of a group that was dropped")


def main():
    torch.cuda.set_device(device())
    dist.init_process_group("coll", timeout=datetime.timedelta(seconds=60))
    for part in sys.argv[1:]:
        globals()[part]()
        print("ok", part, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

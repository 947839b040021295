"""What is in memory that other ranks can map: tensors of coll_torch.empty, and what the backend
allocates for PyTorch, among it the buckets of DistributedDataParallel. Run on several ranks
(ranks.py)."""
import gc

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import coll_torch
from job import cpu_backend


def mapping_of(tensor):
    """The name of the mapping that a tensor's memory is in."""
    at = tensor.data_ptr()
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            cells = line.split(None, 5)
            begin, end = (int(part, 16) for part in cells[0].split("-"))
            if begin <= at < end:
                return cells[5].strip() if len(cells) > 5 else ""
    raise AssertionError(f"{at:#x} is not mapped")


def is_shared(tensor):
    return "memfd:" in mapping_of(tensor)


def mappings():
    with open("/proc/self/maps", encoding="ascii") as maps:
        return sum("memfd:" in line for line in maps)


def own_tensors(rank, size):
    tensor = coll_torch.empty(1000, 300, dtype=torch.bfloat16)
    assert is_shared(tensor) and tensor.dtype == torch.bfloat16 and (tensor == 0).all()
    assert not is_shared(torch.empty(1000, 300))
    view = tensor[10:]
    del tensor
    gc.collect()
    view += rank  # a view keeps the memory
    dist.all_reduce(view)
    assert (view == sum(range(size))).all()
    for _ in range(3):  # what is freed does not remain mapped
        before = mappings()
        tensor = coll_torch.empty(1 << 20)
        del tensor
    assert mappings() <= before + 1, (mappings(), before)
    assert coll_torch.empty(0).numel() == 0 and coll_torch.empty((2, 3)).shape == (2, 3)
    assert coll_torch.empty(torch.ones(2, 3).shape).shape == (2, 3)
    assert coll_torch.empty(torch.tensor(4)).shape == (4,)  # as torch.empty takes it
    for wrong in (lambda: coll_torch.empty(-1), lambda: coll_torch.empty(1 << 62, 1 << 62)):
        try:
            wrong()
            raise AssertionError("a tensor that cannot be")
        except RuntimeError as error:
            assert "coll: " in str(error), error


def of_backend(rank, size):
    """PyTorch's names for it since 2.6."""
    backend = cpu_backend()
    if not hasattr(backend, "supports_tensor_alloc"):
        return
    assert backend.supports_tensor_alloc(torch.device("cpu"))
    assert not backend.supports_tensor_alloc(torch.device("cuda", 0))
    tensor = backend.allocate_tensor(1 << 16, dtype=torch.float64, device=torch.device("cpu"))
    assert is_shared(tensor) and tensor.shape == (1 << 16,) and tensor.dtype == torch.float64
    try:
        backend.allocate_tensor(10, dtype=torch.float32, device=torch.device("meta"))
        raise AssertionError("memory of another device")
    except RuntimeError as error:
        assert "CPU" in str(error), error


def buckets(rank, size):
    """DistributedDataParallel asks the backend for the memory of its buckets."""
    if not hasattr(cpu_backend(), "supports_tensor_alloc"):
        return
    model = DistributedDataParallel(torch.nn.Linear(1000, 1000))
    seen = []

    def hook(state, bucket):
        seen.append(is_shared(bucket.buffer()))
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(
            lambda done: done.value()[0])
    model.register_comm_hook(None, hook)
    model(torch.ones(2, 1000)).sum().backward()
    assert seen and all(seen), seen


def main():
    dist.init_process_group("coll")
    rank, size = dist.get_rank(), dist.get_world_size()
    for part in (own_tensors, of_backend, buckets):
        part(rank, size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""What the library is given is the tensors' memory, by address; and tensors in memory that ranks
map are used so. Run on two ranks (ranks.py) with a build of the extension that is linked with
libcoll.so, and ../given.c preloaded."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import coll_torch
import given
from job import cpu_backend


def passes(verb, send, recv, call):
    """The call gives the library these tensors' memory, and no other."""
    given.take()
    work = call()
    if hasattr(work, "wait"):
        work.wait()
    wanted = [(verb, *(None if tensor is None else tensor.data_ptr() for tensor in (send, recv)))]
    got = given.take()
    assert got == wanted, (got, wanted)


def collectives(rank, size, make):
    x, part, whole, other = make(12), make(12), make(12 * size), make(12 * size)
    at_root = rank == 0
    chunks = list(whole.chunk(size))
    passes("allreduce", x, x, lambda: dist.all_reduce(x))
    passes("allreduce", x, x, lambda: dist.all_reduce(x, async_op=True))
    passes("broadcast", x, x, lambda: dist.broadcast(x, 0))
    passes("reduce", x, x if at_root else None, lambda: dist.reduce(x, 0))
    passes("allgather", x, whole, lambda: dist.all_gather_into_tensor(whole, x))
    passes("allgather", x, whole, lambda: dist.all_gather(chunks, x))
    passes("reduce_scatter", whole, part, lambda: dist.reduce_scatter_tensor(part, whole))
    passes("reduce_scatter", whole, part, lambda: dist.reduce_scatter(part, chunks))
    passes("gather", x, whole if at_root else None,
           lambda: dist.gather(x, chunks if at_root else None, 0))
    passes("scatter", whole if at_root else None, part,
           lambda: dist.scatter(part, chunks if at_root else None, 0))
    passes("alltoall", whole, other, lambda: dist.all_to_all_single(other, whole))
    splits = [12] * size
    passes("alltoallv", whole, other,
           lambda: dist.all_to_all_single(other, whole, splits, splits))


def views(rank, size):
    """Parts and shapes are no copies; tensors with gaps are packed."""
    whole = torch.ones(6, 4)
    passes("allreduce", whole[2:4], whole[2:4], lambda: dist.all_reduce(whole[2:4]))
    passes("allreduce", whole, whole, lambda: dist.all_reduce(whole.view(2, 12)))
    gaps = whole[:, ::2]
    given.take()
    dist.all_reduce(gaps)
    (_, send, recv), = given.take()
    begin = whole.data_ptr()
    assert send == recv and not begin <= send < begin + 4 * whole.numel()


def messages(rank, size):
    """Of a message the first call has the header."""
    for count in (12, 1 << 18):
        x = torch.ones(count)
        dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
        given.take()
        dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
        calls = given.take()
        wanted = ("send", x.data_ptr(), None) if rank == 0 else ("recv", None, x.data_ptr())
        assert wanted in calls and len(calls) <= 3, (wanted, calls)


def is_mapped_by_all(tensor, size):
    """Whether each rank has mapped the tensor's memory of all ranks."""
    own = torch.tensor([given.inode_at(tensor.data_ptr())])
    files = [torch.zeros_like(own) for _ in range(size)]
    dist.all_gather(files, own)
    files = [int(each) for each in files]
    return 0 not in files and len(set(files)) == size and all(map(given.has_mapped, files))


def mapped(rank, size):
    tensor = coll_torch.empty(1 << 18)
    assert not is_mapped_by_all(tensor, size)
    passes("allreduce", tensor, tensor, lambda: dist.all_reduce(tensor))
    assert is_mapped_by_all(tensor, size)
    tensor = torch.ones(1 << 18)
    dist.all_reduce(tensor)
    assert not is_mapped_by_all(tensor, size)


def buckets(rank, size):
    """DistributedDataParallel gives the backend its buckets, which are in such memory."""
    if not hasattr(cpu_backend(), "supports_tensor_alloc"):
        return
    seen = []

    def hook(state, bucket):
        seen.append(bucket.buffer())
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(
            lambda done: done.value()[0])
    model = DistributedDataParallel(torch.nn.Linear(1000, 1000))
    model.register_comm_hook(None, hook)
    for _ in range(2):  # the second step has the buckets that remain
        seen.clear()
        given.take()
        model(torch.ones(2, 1000)).sum().backward()
        # Between steps it broadcasts the order of its buckets, too.
        calls = [call for call in given.take() if call[0] == "allreduce"]
    addresses = [bucket.data_ptr() for bucket in seen]
    assert calls == [("allreduce", at, at) for at in addresses], (calls, addresses)
    large = [bucket for bucket in seen if bucket.numel() >= 1 << 18]
    assert large and all(is_mapped_by_all(bucket, size) for bucket in large)


def main():
    dist.init_process_group("coll")
    rank, size = dist.get_rank(), dist.get_world_size()
    collectives(rank, size, torch.ones)
    collectives(rank, size, coll_torch.empty)
    for part in (views, messages, mapped, buckets):
        part(rank, size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

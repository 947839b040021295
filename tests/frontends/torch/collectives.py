"""Every collective with every dtype against a reference; also tensors that are empty, not
contiguous or views. Run on several ranks (ranks.py)."""
import torch
import torch.distributed as dist

import coll_torch
from job import cpu_backend
from reference import (DTYPES, INTEGERS, MOVED, NARROW, UNSIGNED, ops_of, reduced, same, stacked,
                       values)

SINCE_2 = hasattr(dist, "_coalescing_manager")  # PyTorch 2.0
COUNTS = [1, 1000, 40000]
OP = {name: getattr(dist.ReduceOp, name)
      for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")}


def spread(tensor):
    """The same values in memory with gaps between them."""
    wide = torch.zeros(tensor.numel(), 2, dtype=tensor.dtype)
    wide[:, 0] = tensor
    return wide[:, 0]


def reductions(rank, size):
    for dtype in DTYPES:
        for op in ops_of(dtype):
            for count in COUNTS:
                what = f"{op} of {count} {dtype}"
                inputs = stacked(size, dtype, count)
                for make in (torch.clone, spread):
                    tensor = make(inputs[rank])
                    dist.all_reduce(tensor, OP[op])
                    same(tensor, reduced(inputs, op), f"all_reduce {what}")
                tensor = inputs[rank].clone()
                root = count % size
                dist.reduce(tensor, root, OP[op])
                if rank == root:
                    same(tensor, reduced(inputs, op), f"reduce {what}")
        scattered(rank, size, dtype)


def scattered(rank, size, dtype):
    for count in COUNTS:
        inputs = stacked(size, dtype, count * size)
        wanted = reduced(inputs, "SUM")[rank * count:(rank + 1) * count]
        got = torch.zeros(count, dtype=dtype)
        dist.reduce_scatter_tensor(got, inputs[rank])
        same(got, wanted, f"reduce_scatter_tensor {count} {dtype}")
        got = spread(torch.zeros(count, dtype=dtype))
        dist.reduce_scatter(got, [each.clone() for each in inputs[rank].chunk(size)])
        same(got, wanted, f"reduce_scatter {count} {dtype}")


def narrow(rank, size):
    """Sums and the like of types that PyTorch itself cannot add."""
    for dtype in NARROW + UNSIGNED:
        for op in ops_of(dtype):
            inputs = stacked(size, dtype, 1000)
            tensor = inputs[rank].clone()
            dist.all_reduce(tensor, OP[op])
            same(tensor, reduced(inputs, op), f"all_reduce {op} of {dtype}")


def extremes(rank, size):
    """The highest bit is a sign in some types and the greatest digit in others."""
    for dtype in INTEGERS + UNSIGNED:
        numbers = [torch.iinfo(dtype).min, torch.iinfo(dtype).max, 1]
        rows = [[numbers[(i + r) % 3] for i in range(3)] for r in range(size)]
        for op, function in (("MIN", min), ("MAX", max)):
            tensor = torch.tensor(rows[rank], dtype=dtype)
            dist.all_reduce(tensor, OP[op])
            wanted = [function(column) for column in zip(*rows)]
            assert tensor.tolist() == wanted, (dtype, op, tensor, wanted)


def movements(rank, size):
    for dtype in MOVED:
        for count in COUNTS:
            what = f"{count} {dtype}"
            own = values(rank, torch.float32, count).to(dtype) if dtype not in DTYPES else \
                values(rank, dtype, count)
            inputs = [values(r, torch.float32, count).to(dtype) if dtype not in DTYPES else
                      values(r, dtype, count) for r in range(size)]
            root = count % size
            tensor = own.clone()
            dist.broadcast(tensor, root)
            same(tensor, inputs[root], f"broadcast {what}")
            outputs = [torch.empty_like(own) for _ in range(size)]
            dist.all_gather(outputs, own)
            flat = torch.empty(size * count, dtype=dtype)
            dist.all_gather_into_tensor(flat, own)
            chunks = list(torch.empty(size * count, dtype=dtype).chunk(size))
            dist.all_gather(chunks, own)
            for r in range(size):
                same(outputs[r], inputs[r], f"all_gather {what}")
                same(flat[r * count:(r + 1) * count], inputs[r], f"all_gather_into_tensor {what}")
                same(chunks[r], inputs[r], f"all_gather of chunks {what}")
            rooted(rank, size, root, own, inputs, what)
            exchanged(rank, size, inputs, what)


def rooted(rank, size, root, own, inputs, what):
    outputs = [torch.empty_like(own) for _ in range(size)] if rank == root else None
    dist.gather(own, outputs, root)
    for r in range(size if rank == root else 0):
        same(outputs[r], inputs[r], f"gather {what}")
    got = torch.empty_like(own)
    dist.scatter(got, inputs if rank == root else None, root)
    same(got, inputs[rank], f"scatter {what}")


def exchanged(rank, size, inputs, what):
    """Rank r sends r + 1 rows to rank 0, r + 2 to rank 1, and so on; row j of rank r is its
    values' element j modulo their number."""
    count = inputs[0].numel()
    row = min(count, 50)
    sends = [rank + to + 1 for to in range(size)]
    receives = [source + rank + 1 for source in range(size)]
    source = torch.stack([inputs[rank][:row] for _ in range(sum(sends))])
    got = torch.empty(sum(receives), row, dtype=source.dtype)
    dist.all_to_all_single(got, source, receives, sends)
    at = 0
    for r in range(size):
        for _ in range(receives[r]):
            same(got[at], inputs[r][:row], f"all_to_all_single {what}")
            at += 1
    outputs = [torch.empty(row + r + rank, dtype=source.dtype) for r in range(size)]
    parts = [inputs[rank].repeat(2 + 2 * size)[:row + r + rank] for r in range(size)]
    dist.all_to_all(outputs, parts)
    for r in range(size):
        same(outputs[r], inputs[r].repeat(2 + 2 * size)[:row + r + rank], f"all_to_all {what}")
    even = torch.stack([inputs[rank][:row] for _ in range(size)])
    got = torch.empty_like(even)
    dist.all_to_all_single(got, even)
    for r in range(size):
        same(got[r], inputs[r][:row], f"all_to_all_single without splits {what}")


def special(rank, size):
    for shape in ((0,), (0, 5)):
        empty = torch.empty(shape)
        dist.all_reduce(empty)
        dist.broadcast(empty, 0)
        dist.all_gather([torch.empty(shape) for _ in range(size)], empty)
        dist.reduce_scatter(torch.empty(shape), [torch.empty(shape) for _ in range(size)])
    scalar = torch.tensor(float(rank))
    dist.all_reduce(scalar)
    assert scalar.item() == sum(range(size))
    transposed = torch.full((3, 4), float(rank)).t()
    dist.all_reduce(transposed)
    assert (transposed == sum(range(size))).all()
    leaf = torch.ones(4, requires_grad=True)
    with torch.no_grad():
        dist.all_reduce(leaf)
    assert (leaf == size).all()
    shared = coll_torch.empty(300, 1000)
    assert shared.shape == (300, 1000) and (shared == 0).all()
    shared += rank + 1
    dist.all_reduce(shared)
    assert (shared == size * (size + 1) / 2).all()


def lazy_views(rank, size):
    """Views whose elements PyTorch negates or conjugates when it reads them. torch.distributed's
    functions hand the backend a copy of such a tensor."""
    if not SINCE_2:
        return
    tensor = torch._neg_view(torch.tensor([1. + rank, 2.]))
    assert tensor.is_contiguous() and tensor.is_neg()
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX  # a sum is the same, before and after the negation
    cpu_backend().allreduce([tensor], options).wait()
    assert tensor.tolist() == [-1, -2], tensor
    tensor = torch.tensor([1 + 2j])
    tensor = tensor.conj() if rank == 0 else tensor
    assert tensor.is_contiguous() and tensor.is_conj() == (rank == 0)
    cpu_backend().broadcast([tensor], dist.BroadcastOptions()).wait()
    assert tensor.tolist() == [1 - 2j], tensor


def grouped(rank, size):
    tensors = [torch.full((n,), float(rank + n)) for n in (1, 10, 100000)]
    dist.all_reduce_coalesced(tensors)
    for n, tensor in zip((1, 10, 100000), tensors):
        assert (tensor == sum(range(size)) + size * n).all()
    if not SINCE_2:
        return
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for n, tensor in zip((1, 10, 100000), tensors):
        assert (tensor == size * (sum(range(size)) + size * n)).all()
    outputs = [torch.empty(size * n) for n in (1, 10, 1000)]
    with dist._coalescing_manager():
        for n, output in zip((1, 10, 1000), outputs):
            dist.all_gather_into_tensor(output, torch.full((n,), float(rank)))
    for n, output in zip((1, 10, 1000), outputs):
        assert (output.view(size, n) == torch.arange(float(size))[:, None]).all()
    outputs = [torch.empty(n) for n in (1, 10, 1000)]
    with dist._coalescing_manager():
        for n, output in zip((1, 10, 1000), outputs):
            dist.reduce_scatter_tensor(output, torch.full((n * size,), float(rank)))
    for output in outputs:
        assert (output == sum(range(size))).all()


def asynchronous(rank, size):
    """Calls run in the order of their issue, also the packing of tensors with gaps."""
    tensor = spread(torch.ones(1000))
    counted = [dist.group.WORLD] if SINCE_2 else []
    before = [group._get_sequence_number_for_group() for group in counted]
    works = [dist.all_reduce(tensor, async_op=True) for _ in range(5)]
    after = [group._get_sequence_number_for_group() for group in counted]
    assert after == [number + 5 for number in before], (before, after)
    tail = torch.full((10,), float(rank))
    works.append(dist.broadcast(tail, size - 1, async_op=True))
    for work in works:
        work.wait()
        assert work.is_completed()
    assert (tensor == size ** 5).all() and (tail == size - 1).all()
    seen = []
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    future.then(lambda done: seen.append(done.value()[0].sum().item())).wait()
    assert seen == [3 * size], seen


def scaled(rank, size):
    """Sums of what each rank has multiplied by a factor of its own."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        op = dist._make_nccl_premul_sum(rank + 1.)
        inputs = stacked(size, dtype, 1000 * size)
        wanted = sum(each * (r + 1) for r, each in enumerate(inputs))
        tensor = inputs[rank].clone()
        dist.all_reduce(tensor, op)
        same(tensor, wanted, f"all_reduce premul_sum {dtype}")
        tensor = inputs[rank].clone()
        dist.reduce(tensor, size - 1, op)
        same(tensor, wanted if rank == size - 1 else inputs[rank], f"reduce premul_sum {dtype}")
        got = torch.empty(1000, dtype=dtype)
        dist.reduce_scatter_tensor(got, inputs[rank], op)
        same(got, wanted[rank * 1000:(rank + 1) * 1000], f"reduce_scatter premul_sum {dtype}")


def inference(rank, size):
    """Tensors of the inference mode, which a thread of the group unpacks into."""
    with torch.inference_mode():
        tensor = torch.ones(6, 5).t()
        outputs = [torch.empty(5) for _ in range(size)]
        got = spread(torch.empty(5))
        shares = [torch.empty(3) for _ in range(size)]
        works = [dist.all_reduce(tensor, async_op=True),
                 dist.all_gather(outputs, torch.full((5,), float(rank)), async_op=True),
                 dist.all_to_all(shares, [torch.full((3,), float(rank))] * size, async_op=True)]
        if size > 1:
            works += [dist.isend(torch.full((5,), float(rank)), (rank + 1) % size),
                      dist.irecv(got, (rank - 1) % size)]
        for work in works:
            work.wait()
    assert (tensor == size).all() and (size == 1 or (got == (rank - 1) % size).all())
    for r in range(size):
        assert (outputs[r] == r).all() and (shares[r] == r).all(), (outputs, shares)


def barriers(rank, size):
    dist.barrier()
    dist.barrier(async_op=True).wait()
    if SINCE_2:  # PyTorch 1.13 lets no backend have it but Gloo
        dist.monitored_barrier()


def main():
    dist.init_process_group("coll")
    rank, size = dist.get_rank(), dist.get_world_size()
    assert dist.get_backend() == "coll"
    for part in (special, lazy_views, scaled, grouped, asynchronous, inference, barriers,
                 movements, narrow, extremes, reductions):
        part(rank, size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

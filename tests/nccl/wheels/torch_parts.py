"""Parts of torch_ranks.py: the functions of torch.distributed, one process for each rank."""
import datetime
import os

import torch
import torch.distributed as dist

import ranks

RANK, SIZE = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
COUNT = int(os.environ.get("RANKS_COUNT", 1000))
BACKEND = os.environ.get("RANKS_BACKEND", "nccl")
EAGER = os.environ.get("RANKS_EAGER") == "1"
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def device():
    return torch.device("cuda", RANK % torch.cuda.device_count())


def has_backend():
    """PyTorch registers those beside "nccl" when they are first asked for."""
    register = "_register_builtin_%s_backend" % BACKEND.replace("-", "_")
    return BACKEND == "nccl" or hasattr(dist.distributed_c10d, register)


def start(times=[0]):
    """Each process group has a store of its own: a rank of a second one that found the server of
    the first would get its id."""
    torch.cuda.set_device(device())
    times[0] += 1
    folder = os.path.dirname(os.environ["RANKS_REPORT"])
    dist.init_process_group(BACKEND, timeout=datetime.timedelta(seconds=50), rank=RANK,
                            world_size=SIZE, init_method="file://%s/store%d" % (folder, times[0]),
                            device_id=device() if EAGER else None)


def end():
    if dist.is_initialized():
        dist.destroy_process_group()


# ---- values --------------------------------------------------------------------------------------


def part_of(rank, count, dtype=torch.float32, first=0):
    """What a rank contributes: small integers, whose sums are exact in every type."""
    return ((torch.arange(first, first + count) % 5 + 1) * (rank % 4 + 1)).to(dtype)


def on_gpu(values):
    """A copy on the GPU, by a copy of bytes."""
    return torch.empty(values.shape, dtype=values.dtype, device=device()).copy_(values)


def room(count, dtype=torch.float32):
    """Memory of the GPU that holds something else."""
    return on_gpu(torch.full((count,), 99).to(dtype))


def same(tensor, expected, what):
    found = tensor.cpu()
    if found.dtype.is_floating_point:
        right = torch.equal(found.float(), expected.to(found.dtype).float())
    else:
        right = torch.equal(found, expected.to(found.dtype))
    if not right:
        different = (found.double() != expected.to(found.dtype).double()).nonzero().flatten()
        at = int(different[0])
        raise ValueError("error: %s: %d of %d elements differ, element %d is %s, not %s" % (
            what, len(different), found.numel(), at, found.flatten()[at].item(),
            expected.flatten()[at].item()))


def reduced(op, count, dtype, members=None, first=0):
    """The result of a reduction, on the CPU."""
    parts = [part_of(rank, count, torch.float64, first) for rank in members or range(SIZE)]
    stacked = torch.stack(parts)
    if op == "sum":
        return stacked.sum(0).to(dtype)
    if op == "avg":
        return (stacked.sum(0) / len(parts)).to(dtype)
    if op == "half":
        return (stacked * 0.5).sum(0).to(dtype)
    if op == "product":
        return stacked.prod(0).to(dtype)
    return (stacked.max(0) if op == "max" else stacked.min(0)).values.to(dtype)


OPS = {"sum": dist.ReduceOp.SUM, "avg": dist.ReduceOp.AVG, "max": dist.ReduceOp.MAX,
       "min": dist.ReduceOp.MIN, "product": dist.ReduceOp.PRODUCT}


# ---- collectives ---------------------------------------------------------------------------------


def version():
    dist.all_reduce(room(1))
    return "torch %s, %s, on %s" % (torch.__version__, ranks.require_ours(),
                                    torch.cuda.get_device_name(device()))


def cases():
    """(dtype, name of a reduction, the reduction)"""
    for dtype in FLOATS + [torch.float64, torch.int64, torch.int32, torch.uint8]:
        for name, op in OPS.items():
            exact = dtype in (torch.float32, torch.float64, torch.int64)
            if name == "avg" and not dtype.is_floating_point:
                continue
            if name == "product" and not exact:
                continue
            yield dtype, name, op
    for dtype in FLOATS + [torch.float64]:
        yield dtype, "half", dist._make_nccl_premul_sum(0.5)
        factor = on_gpu(torch.tensor([0.5], dtype=dtype))
        yield dtype, "half", dist._make_nccl_premul_sum(factor)


def all_reduce():
    for dtype, name, op in cases():
        for count in (1, 777, COUNT):
            tensor = on_gpu(part_of(RANK, count, dtype))
            dist.all_reduce(tensor, op=op)
            same(tensor, reduced(name, count, dtype), "%s %s of %d" % (name, dtype, count))
    truth = on_gpu(torch.tensor([RANK == 0, False, True]))
    dist.all_reduce(truth)  # NCCL has no bool: a maximum of bytes
    same(truth, torch.tensor([True, False, True]), "sum of bool")


def all_reduce_async():
    tensors = [on_gpu(part_of(RANK, COUNT // (i + 1) + 1)) for i in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    for tensor in tensors:
        same(tensor, reduced("sum", tensor.numel(), tensor.dtype), "sum")
    if not all(work.is_completed() for work in works):
        raise ValueError("error: a work has not ended")


def all_gather():
    for dtype in FLOATS + [torch.int64, torch.uint8]:
        for count in (1, 777, COUNT // SIZE):
            mine, out = on_gpu(part_of(RANK, count, dtype)), room(count * SIZE, dtype)
            expected = torch.cat([part_of(rank, count, dtype) for rank in range(SIZE)])
            dist.all_gather_into_tensor(out, mine)
            same(out, expected, "all_gather_into_tensor %s" % dtype)
            outs = [room(count, dtype) for _ in range(SIZE)]
            dist.all_gather(outs, mine)
            same(torch.cat([each.cpu() for each in outs]), expected, "all_gather %s" % dtype)
    # In place, and of tensors of different sizes, which PyTorch makes broadcasts of.
    out = room(10 * SIZE)
    mine = out[10 * RANK:10 * RANK + 10].copy_(part_of(RANK, 10))
    dist.all_gather_into_tensor(out, mine)
    same(out, torch.cat([part_of(rank, 10) for rank in range(SIZE)]), "in place")
    outs = [room(rank + 3) for rank in range(SIZE)]
    dist.all_gather(outs, on_gpu(part_of(RANK, RANK + 3)))
    for rank, each in enumerate(outs):
        same(each, part_of(rank, rank + 3), "all_gather of different sizes")


def reduce_scatter():
    for dtype, name, op in cases():
        if name == "min":
            continue
        for count in (1, 777, COUNT // SIZE):
            whole, out = on_gpu(part_of(RANK, count * SIZE, dtype)), room(count, dtype)
            expected = reduced(name, count, dtype, first=count * RANK)
            dist.reduce_scatter_tensor(out, whole, op=op)
            same(out, expected, "reduce_scatter_tensor %s %s of %d" % (name, dtype, count))
    whole = on_gpu(part_of(RANK, 10 * SIZE))
    out = room(10)
    dist.reduce_scatter(out, [whole[10 * rank:10 * rank + 10] for rank in range(SIZE)])
    same(out, reduced("sum", 10, torch.float32, first=10 * RANK), "reduce_scatter")
    outs = room(RANK + 3)
    dist.reduce_scatter(outs, [on_gpu(part_of(RANK, rank + 3)) for rank in range(SIZE)])
    same(outs, reduced("sum", RANK + 3, torch.float32), "reduce_scatter of different sizes")


def block(sender, receiver, count, dtype=torch.float32):
    return part_of(sender + receiver, count, dtype, first=receiver)


def uneven(sender, receiver):
    """Elements from one rank to another; none from some."""
    return (sender * 2 + receiver * 3) % 4 * 100 + (7 if sender != receiver + 1 else -0)


def all_to_all():
    for dtype in FLOATS + [torch.int64]:
        for count in (1, 777, COUNT // SIZE):
            mine = on_gpu(torch.cat([block(RANK, to, count, dtype) for to in range(SIZE)]))
            out = room(count * SIZE, dtype)
            dist.all_to_all_single(out, mine)
            expected = torch.cat([block(rank, RANK, count, dtype) for rank in range(SIZE)])
            same(out, expected, "all_to_all_single %s" % dtype)
    sent = [uneven(RANK, to) for to in range(SIZE)]
    received = [uneven(rank, RANK) for rank in range(SIZE)]
    mine = on_gpu(torch.cat([block(RANK, to, sent[to]) for to in range(SIZE)]))
    out = room(sum(received))
    expected = torch.cat([block(rank, RANK, received[rank]) for rank in range(SIZE)])
    dist.all_to_all_single(out, mine, received, sent)
    same(out, expected, "all_to_all_single, uneven")
    outs = [room(count) for count in received]
    dist.all_to_all(outs, [on_gpu(block(RANK, to, sent[to])) for to in range(SIZE)])
    same(torch.cat([each.cpu() for each in outs]), expected, "all_to_all")


def broadcast_reduce():
    for root in range(SIZE):
        for count in (1, 777, COUNT):
            tensor = on_gpu(part_of(RANK, count))
            dist.broadcast(tensor, root)
            same(tensor, part_of(root, count), "broadcast from %d" % root)
            for name, op in OPS.items():
                tensor = on_gpu(part_of(RANK, count))
                dist.reduce(tensor, root, op=op)
                if RANK == root:
                    same(tensor, reduced(name, count, torch.float32), "reduce to %d" % root)


def scatter_gather():
    for root in range(SIZE):
        for count in (1, 777):
            lists = [on_gpu(block(root, to, count)) for to in range(SIZE)]
            out = room(count)
            dist.scatter(out, lists if RANK == root else None, src=root)
            same(out, block(root, RANK, count), "scatter from %d" % root)
            outs = [room(count) for _ in range(SIZE)]
            dist.gather(out, outs if RANK == root else None, dst=root)
            for rank, each in enumerate(outs):
                if RANK == root:
                    same(each, block(root, rank, count), "gather to %d" % root)


# ---- messages ------------------------------------------------------------------------------------


def need_ranks(least):
    if SIZE < least:
        raise ranks.Skip("needs %d ranks" % least)


def send_recv():
    need_ranks(2)
    for count in (1, 777, COUNT):
        for first in range(0, SIZE - 1):
            tensor = on_gpu(part_of(first, count)) if RANK == first else room(count)
            if RANK == first:
                dist.send(tensor, first + 1)
            elif RANK == first + 1:
                dist.recv(tensor, first)
                same(tensor, part_of(first, count), "recv from %d" % first)


def batch_isend_irecv():
    for count in (1, 777, COUNT):
        after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
        sent, back = on_gpu(part_of(RANK, count)), on_gpu(part_of(RANK, count, torch.int64))
        out, out_back = room(count), room(count, torch.int64)
        works = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, sent, after), dist.P2POp(dist.irecv, out, before),
            dist.P2POp(dist.irecv, out_back, after), dist.P2POp(dist.isend, back, before)])
        for work in works:
            work.wait()
        same(out, part_of(before, count), "from the rank before")
        same(out_back, part_of(after, count, torch.int64), "from the rank behind")


def coalescing():
    manager = dist.distributed_c10d._coalescing_manager
    tensors = [on_gpu(part_of(RANK, 100 * i + 1)) for i in range(8)]
    with manager(device=device(), async_ops=True) as coalesced:
        for tensor in tensors:
            dist.all_reduce(tensor)
    coalesced.wait()
    for tensor in tensors:
        same(tensor, reduced("sum", tensor.numel(), tensor.dtype), "all_reduce")
    outs, parts = [room(50 * SIZE) for _ in range(4)], [room(20) for _ in range(4)]
    with manager(device=device()):
        for out in outs:
            dist.all_gather_into_tensor(out, on_gpu(part_of(RANK, 50)))
    with manager(device=device()):
        for part in parts:
            dist.reduce_scatter_tensor(part, on_gpu(part_of(RANK, 20 * SIZE)))
    for out, part in zip(outs, parts):
        same(out, torch.cat([part_of(rank, 50) for rank in range(SIZE)]), "all_gather")
        same(part, reduced("sum", 20, torch.float32, first=20 * RANK), "reduce_scatter")


def barrier():
    for _ in range(5):
        dist.barrier()
    dist.barrier(device_ids=[device().index])


def objects():
    gathered = [None] * SIZE
    dist.all_gather_object(gathered, {"rank": RANK, "text": "x" * (100 * RANK)})
    if [each["rank"] for each in gathered] != list(range(SIZE)):
        raise ValueError("error: all_gather_object gave %s" % gathered)
    sent = [[SIZE, "from the last"]] if RANK == SIZE - 1 else [None]
    dist.broadcast_object_list(sent, src=SIZE - 1)
    if sent != [[SIZE, "from the last"]]:
        raise ValueError("error: broadcast_object_list gave %s" % sent)


# ---- groups --------------------------------------------------------------------------------------


def check_group(group, members):
    if RANK not in members:
        return
    tensor = on_gpu(part_of(RANK, COUNT))
    dist.all_reduce(tensor, group=group)
    same(tensor, reduced("sum", COUNT, torch.float32, members), "sum of ranks %s" % members)
    out = room(100 * len(members))
    dist.all_gather_into_tensor(out, on_gpu(part_of(RANK, 100)), group=group)
    same(out, torch.cat([part_of(rank, 100) for rank in members]), "gather of %s" % members)


def new_group():
    every, even = list(range(SIZE)), list(range(0, SIZE, 2))
    last = [SIZE - 1]
    groups = [(dist.new_group(members), members) for members in (every, even, last, every)]
    for group, members in groups + groups[::-1]:
        check_group(group, members)
    check_group(None, every)
    for group, members in groups:
        if RANK in members:
            dist.destroy_process_group(group)


def split_group():
    need_ranks(2)
    if not hasattr(dist, "split_group"):
        raise ranks.Skip("this version has no split_group")
    halves = [list(range(SIZE // 2)), list(range(SIZE // 2, SIZE))]
    mine = halves[0] if RANK < SIZE // 2 else halves[1]
    for _ in range(2):
        check_group(dist.split_group(split_ranks=halves), mine)
    check_group(None, list(range(SIZE)))


def shrink_group():
    need_ranks(2)
    if not hasattr(dist, "shrink_group"):
        raise ranks.Skip("this version has no shrink_group")
    check_group(None, list(range(SIZE)))
    if RANK == SIZE - 1:
        return "rank %d is left out" % (SIZE - 1)
    check_group(dist.shrink_group([SIZE - 1]), list(range(SIZE - 1)))
    return ""


def abort():
    """Aborts process groups, one of them with a call under way that cannot end."""
    for call in (False, True):
        end()
        start()
        check_group(None, list(range(SIZE)))
        if RANK == 0 and SIZE > 1 and call:
            dist.all_reduce(room(COUNT), async_op=True)
        dist.distributed_c10d._abort_process_group()
    start()
    check_group(None, list(range(SIZE)))


# ---- streams and memory --------------------------------------------------------------------------


def streams():
    side = torch.cuda.Stream()
    tensors = []
    for _ in range(10):
        with torch.cuda.stream(side):
            tensor = on_gpu(part_of(RANK, COUNT))
            work = dist.all_reduce(tensor, async_op=True)
            work.wait()  # the side stream waits
            tensors.append(torch.empty_like(tensor).copy_(tensor))
        other = on_gpu(part_of(RANK, COUNT))
        dist.all_reduce(other)
        tensors.append(other)
    side.synchronize()
    for tensor in tensors:
        same(tensor, reduced("sum", COUNT, torch.float32), "sum on two streams")


def capture():
    source, tensor = on_gpu(part_of(RANK, COUNT)), room(COUNT)
    dist.all_reduce(room(COUNT))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        tensor.copy_(source)
        dist.all_reduce(tensor)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    for _ in range(20):
        graph.replay()
    same(tensor, reduced("sum", COUNT, torch.float32), "sum by a graph")
    dist.all_reduce(source)
    same(source, reduced("sum", COUNT, torch.float32), "sum behind the graph")
    del graph


def gpus_of_a_process():
    """torch.cuda.nccl, whose communicators ncclCommInitAll makes: on rank 0, its GPUs."""
    if RANK > 0:
        return
    import torch.cuda.nccl as nccl
    gpus = range(torch.cuda.device_count())
    tensors = [torch.empty(COUNT, device="cuda:%d" % gpu).copy_(part_of(gpu, COUNT))
               for gpu in gpus]
    nccl.all_reduce(tensors)
    for tensor in tensors:
        same(tensor, reduced("sum", COUNT, torch.float32, list(gpus)), "sum over GPUs")


def mempool():
    """Tensors in memory of ncclMemAlloc, registered with the communicator."""
    backend = dist.group.WORLD._get_backend(device())
    if not hasattr(backend, "register_mem_pool"):
        raise ranks.Skip("this backend registers no pools")
    try:
        pool = torch.cuda.MemPool(backend.mem_allocator)
    except RuntimeError as error:  # PyTorch asks whether the GPU has multicast memory
        raise ranks.Skip(str(error).splitlines()[0])
    with torch.cuda.use_mem_pool(pool):
        tensor = torch.empty(COUNT, device=device())
    dist.all_reduce(room(1))
    backend.register_mem_pool(pool)
    tensor.copy_(part_of(RANK, COUNT))
    dist.all_reduce(tensor)
    same(tensor, reduced("sum", COUNT, torch.float32), "sum in memory of ncclMemAlloc")
    backend.deregister_mem_pool(pool)
    del tensor, pool


def functional():
    import torch.distributed._functional_collectives as functional_collectives
    group = dist.group.WORLD
    tensor = functional_collectives.all_reduce(on_gpu(part_of(RANK, COUNT)), "sum", group)
    same(functional_collectives.wait_tensor(tensor), reduced("sum", COUNT, torch.float32), "sum")


def again():
    """The process group ends and is made again."""
    for _ in range(3):
        dist.destroy_process_group()
        start()
        check_group(None, list(range(SIZE)))


PARTS = {function.__name__: function for function in (
    version, all_reduce, all_reduce_async, all_gather, reduce_scatter, all_to_all, broadcast_reduce,
    scatter_gather, send_recv, batch_isend_irecv, coalescing, barrier, objects, new_group,
    split_group, shrink_group, abort, streams, capture, gpus_of_a_process,
    mempool, functional, again)}

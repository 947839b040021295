"""Parts of torch_ranks.py whose ranks are threads of one process, each with a process group and a
stream of its own, so that they can share a GPU. Nothing here may wait for the default stream."""
import datetime
import os
import threading

import torch
import torch.distributed as dist

SIZE, COUNT = int(os.environ["WORLD_SIZE"]), int(os.environ.get("RANKS_COUNT", 1000))
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


class Rank:
    """One rank, in its thread."""

    def __init__(self, group, rank):
        self.group, self.rank = group, rank
        self.device = torch.device("cuda", rank % torch.cuda.device_count())

    def __call__(self, call):
        """Makes the call at the same time as the other ranks, and waits for it. Nothing else may go
        on meanwhile: an allocation by one thread can wait for the kernels of all, and they for a
        call that a thread has not made yet."""
        turns.wait()
        work = call()
        turns.wait()
        work.wait()

    def on_gpu(self, values):
        return torch.empty(values.shape, dtype=values.dtype, device=self.device).copy_(values)

    def room(self, count, dtype=torch.float32):
        return self.on_gpu(torch.full((count,), 99).to(dtype))

    def mine(self, count, dtype=torch.float32):
        return self.on_gpu(part_of(self.rank, count, dtype))

    def same(self, tensor, expected, what):
        if not torch.equal(tensor.cpu(), expected.to(tensor.dtype)):
            raise ValueError("error: rank %d: %s: got %s..., not %s..." % (
                self.rank, what, tensor.flatten()[:4].tolist(), expected.flatten()[:4].tolist()))


def part_of(rank, count, dtype=torch.float32, first=0):
    return ((torch.arange(first, first + count) % 5 + 1) * (rank % 4 + 1)).to(dtype)


def total(count, dtype=torch.float32, first=0):
    return torch.stack([part_of(rank, count, torch.float64, first)
                        for rank in range(SIZE)]).sum(0).to(dtype)


def threads_all_reduce(me):
    for dtype in FLOATS + [torch.int64]:
        for count in (1, 777, COUNT):
            tensor = me.mine(count, dtype)
            me(lambda: me.group.allreduce([tensor]))
            me.same(tensor, total(count, dtype), "all_reduce %s of %d" % (dtype, count))
    for op, factor in ((dist.ReduceOp.AVG, 1 / SIZE), (dist._make_nccl_premul_sum(0.5), 0.5)):
        options = dist.AllreduceOptions()
        options.reduceOp = op
        tensor = me.mine(COUNT)
        me(lambda: me.group.allreduce([tensor], options))
        me.same(tensor, (total(COUNT, torch.float64) * factor).float(), "all_reduce %s" % op)


def threads_blocks(me):
    count = COUNT // SIZE + 1
    mine, out = me.mine(count), me.room(count * SIZE)
    me(lambda: me.group._allgather_base(out, mine))
    me.same(out, torch.cat([part_of(rank, count) for rank in range(SIZE)]), "all_gather")
    whole, part = me.mine(count * SIZE), me.room(count)
    me(lambda: me.group._reduce_scatter_base(part, whole))
    me.same(part, total(count, first=count * me.rank), "reduce_scatter")


def threads_all_to_all(me):
    def sizes(sender):
        return [(sender + 2 * receiver) % 3 * 50 for receiver in range(SIZE)]

    def block(sender, receiver):
        return part_of(sender + receiver, sizes(sender)[receiver], first=receiver)

    sent, received = sizes(me.rank), [sizes(rank)[me.rank] for rank in range(SIZE)]
    out = me.room(sum(received))
    whole = me.on_gpu(torch.cat([block(me.rank, to) for to in range(SIZE)]))
    me(lambda: me.group.alltoall_base(out, whole, received, sent, dist.AllToAllOptions()))
    me.same(out, torch.cat([block(rank, me.rank) for rank in range(SIZE)]), "all_to_all, uneven")


def threads_send_recv(me):
    """Round a ring: the first rank sends before it receives, the others behind."""
    before, after = (me.rank - 1) % SIZE, (me.rank + 1) % SIZE
    if SIZE == 1:
        return
    for count in (1, 777, COUNT):
        out, mine = me.room(count), me.mine(count)
        turns.wait()
        if me.rank == 0:
            me.group.send([mine], after, 0).wait()
        me.group.recv([out], before, 0).wait()
        if me.rank > 0:
            me.group.send([mine], after, 0).wait()
        turns.wait()
        me.same(out, part_of(before, count), "from the rank before")


def threads_broadcast(me):
    for root in range(SIZE):
        tensor = me.mine(COUNT)
        options = dist.BroadcastOptions()
        options.rootRank = root
        me(lambda: me.group.broadcast([tensor], options))
        me.same(tensor, part_of(root, COUNT), "broadcast from %d" % root)


def threads_capture(me):
    """One graph at a time is captured; all are launched together."""
    source, tensor, other = me.mine(COUNT), me.room(COUNT), me.room(COUNT)
    me(lambda: me.group.allreduce([other]))
    torch.cuda.current_stream().synchronize()
    turns.wait()
    graph = torch.cuda.CUDAGraph()
    with capturing:
        graph.capture_begin(capture_error_mode="thread_local")
        tensor.copy_(source)
        me.group.allreduce([tensor]).wait()
        graph.capture_end()
    turns.wait()
    for _ in range(20):
        graph.replay()
    turns.wait()
    me.same(tensor, total(COUNT), "sum by a graph")
    turns.wait()


PARTS = {function.__name__: function for function in (
    threads_all_reduce, threads_blocks, threads_all_to_all, threads_send_recv, threads_broadcast,
    threads_capture)}
capturing, turns = threading.Lock(), threading.Barrier(SIZE, timeout=40)


def in_thread(rank, store, function, failures):
    try:
        device = torch.device("cuda", rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = datetime.timedelta(seconds=50)
        group = dist.ProcessGroupNCCL(store, rank, SIZE, options)
        with torch.cuda.stream(torch.cuda.Stream(device)):
            function(Rank(group, rank))
            torch.cuda.current_stream().synchronize()
        turns.wait()
        group.shutdown()
    except Exception as error:
        failures.append(error)


def run_part(number, function):
    store = dist.PrefixStore("part%d" % number, dist.HashStore())
    failures = []
    threads = [threading.Thread(target=in_thread, args=(rank, store, function, failures))
               for rank in range(SIZE)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and not failures:
        for thread in threads:
            thread.join(0.1)
    if failures:
        raise failures[0]


def run(report, parts):
    """The parts, each with new threads and communicators. One that fails ends the process."""
    for number, part in enumerate(parts):
        if not report.run(part, lambda: run_part(number, PARTS[part])):
            os._exit(1)

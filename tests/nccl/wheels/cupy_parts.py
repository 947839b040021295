"""Parts of cupy_ranks.py: each has a thread for each rank."""
import os
import threading

import cupy
import numpy
from cupy.cuda import nccl

import ranks
from cuda_memory import Runtime, part_of, same, total

SIZE, COUNT = int(os.environ["WORLD_SIZE"]), int(os.environ.get("RANKS_COUNT", 1000))
TYPES = {numpy.int32: nccl.NCCL_INT32, numpy.int64: nccl.NCCL_INT64,
         numpy.uint8: nccl.NCCL_UINT8, numpy.float16: nccl.NCCL_FLOAT16,
         numpy.float32: nccl.NCCL_FLOAT32, numpy.float64: nccl.NCCL_FLOAT64}


def has_runtime():
    try:
        return cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:
        return False


class CupyMemory:
    """As cuda_memory.Runtime, by CuPy's arrays and streams."""

    def __init__(self):
        self.arrays, self.streams = {}, {}

    def devices(self):
        return cupy.cuda.runtime.getDeviceCount()

    def use(self, device):
        cupy.cuda.Device(device).use()

    def stream(self):
        stream = cupy.cuda.Stream(non_blocking=True)
        self.streams[stream.ptr] = stream
        return stream.ptr

    def wait(self, stream):
        self.streams[stream].synchronize()

    def destroy(self, stream):
        del self.streams[stream]

    def upload(self, values, stream):
        with self.streams[stream]:
            array = cupy.asarray(values)
        self.arrays[array.data.ptr] = array
        self.wait(stream)
        return array.data.ptr

    def download(self, memory, count, dtype, stream):
        with self.streams[stream]:
            return self.arrays[memory].get(stream=self.streams[stream])[:count]

    def free(self, memory):
        del self.arrays[memory]


HAS_RUNTIME = has_runtime()
turns = threading.Barrier(SIZE, timeout=40)
CUDA = CupyMemory() if HAS_RUNTIME else Runtime()


class Rank:
    """One rank, in its thread."""

    def __init__(self, rank, comm, stream):
        self.rank, self.comm, self.stream = rank, comm, stream

    def on_gpu(self, values):
        return CUDA.upload(values, self.stream)

    def __call__(self, *calls):
        """Makes the calls at the same time as the other ranks. Nothing else may go on meanwhile: an
        allocation or a copy by one thread can wait for the kernels of all, and they for a call that
        a thread has not made yet."""
        turns.wait()
        for call in calls:
            call()
        turns.wait()

    def mine(self, count, dtype=numpy.float32):
        return self.on_gpu(part_of(self.rank, count, dtype))

    def room(self, count, dtype=numpy.float32):
        return self.on_gpu(numpy.full(count, 99, dtype))

    def same(self, memory, expected, what):
        found = CUDA.download(memory, len(expected), expected.dtype, self.stream)
        same(found, expected, "rank %d: %s" % (self.rank, what))


def run_threads(body):
    """The body in a thread for each rank, with a communicator by a common id. The first failure is
    that of the part; the threads that are left end with the process."""
    identity, failures = nccl.get_unique_id(), []

    def run(rank):
        try:
            CUDA.use(rank % CUDA.devices())
            stream = CUDA.stream()
            comm = nccl.NcclCommunicator(SIZE, identity, rank)
            body(Rank(rank, comm, stream))
            CUDA.wait(stream)
            comm.destroy()
            CUDA.destroy(stream)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(SIZE)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and not failures:
        for thread in threads:
            thread.join(0.05)
    if failures:
        raise failures[0]


def version():
    run_threads(lambda me: None)
    where = "arrays" if HAS_RUNTIME else "communicators only"
    return "cupy %s (%s), %s" % (cupy.__version__, where, ranks.require_ours())


def in_threads(body):
    def part():
        run_threads(body)
    part.__name__ = body.__name__
    return part


@in_threads
def all_reduce(me):
    if (me.comm.size(), me.comm.rank_id()) != (SIZE, me.rank):
        raise ValueError("error: rank %d of %d" % (me.comm.rank_id(), me.comm.size()))
    if me.comm.device_id() != me.rank % CUDA.devices():
        raise ValueError("error: device_id %d" % me.comm.device_id())
    for dtype, code in TYPES.items():
        for count in (1, 777, COUNT):
            source, out = me.mine(count, dtype), me.room(count, dtype)
            me(lambda: me.comm.allReduce(source, out, count, code, nccl.NCCL_SUM, me.stream))
            me.same(out, total(SIZE, count, dtype), "sum of %s" % dtype.__name__)
            me(lambda: me.comm.allReduce(source, source, count, code, nccl.NCCL_MAX, me.stream))
            highest = numpy.max([part_of(rank, count, dtype) for rank in range(SIZE)], axis=0)
            me.same(source, highest, "maximum of %s" % dtype.__name__)
    me.comm.check_async_error()


@in_threads
def blocks(me):
    count, code = COUNT // SIZE + 1, nccl.NCCL_FLOAT32
    mine, out = me.mine(count), me.room(count * SIZE)
    me(lambda: me.comm.allGather(mine, out, count, code, me.stream))
    me.same(out, numpy.concatenate([part_of(rank, count) for rank in range(SIZE)]), "all_gather")
    whole, part = me.mine(count * SIZE), me.room(count)
    me(lambda: me.comm.reduceScatter(whole, part, count, code, nccl.NCCL_SUM, me.stream))
    me.same(part, total(SIZE, count, first=count * me.rank), "reduce_scatter")


@in_threads
def broadcast_reduce(me):
    code = nccl.NCCL_FLOAT32
    for root in range(SIZE):
        memory, out = me.mine(COUNT), me.room(COUNT)
        me(lambda: me.comm.broadcast(memory, out, COUNT, code, root, me.stream))
        me.same(out, part_of(root, COUNT), "broadcast from %d" % root)
        me(lambda: me.comm.reduce(memory, out, COUNT, code, nccl.NCCL_SUM, root, me.stream))
        if me.rank == root:
            me.same(out, total(SIZE, COUNT), "reduce to %d" % root)
        me(lambda: me.comm.bcast(memory, COUNT, code, root, me.stream))
        me.same(memory, part_of(root, COUNT), "bcast from %d" % root)


@in_threads
def send_recv(me):
    code, before, after = nccl.NCCL_FLOAT32, (me.rank - 1) % SIZE, (me.rank + 1) % SIZE
    for count in (1, 777, COUNT):
        memory, out = me.mine(count), me.room(count)
        me(nccl.groupStart, lambda: me.comm.send(memory, count, code, after, me.stream),
           lambda: me.comm.recv(out, count, code, before, me.stream), nccl.groupEnd)
        me.same(out, part_of(before, count), "from the rank before")


@in_threads
def split(me):
    if not hasattr(me.comm, "commSplit"):
        raise ranks.Skip("this version has no commSplit")
    half = me.comm.commSplit(me.rank % 2, -me.rank)
    members = list(range(me.rank % 2, SIZE, 2))
    if half.size() != len(members) or half.rank_id() != members[::-1].index(me.rank):
        raise ValueError("error: rank %d of %d" % (half.rank_id(), half.size()))
    memory = me.mine(COUNT)
    me(lambda: half.allReduce(memory, memory, COUNT, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, me.stream))
    expected = sum(part_of(rank, COUNT) for rank in members)
    me.same(memory, expected, "sum of a half")
    half.destroy()


def init_all():
    """A thread for all GPUs, whose communicators ncclCommInitAll makes."""
    devices = CUDA.devices()
    comms = nccl.NcclCommunicator.initAll(devices)
    all_ranks = []
    for device, comm in enumerate(comms):
        CUDA.use(device)
        all_ranks.append(Rank(device, comm, CUDA.stream()))
    memory = []
    for me in all_ranks:
        CUDA.use(me.rank)
        memory.append(me.mine(COUNT))
    nccl.groupStart()
    for me, mine in zip(all_ranks, memory):
        CUDA.use(me.rank)
        me.comm.allReduce(mine, mine, COUNT, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, me.stream)
    nccl.groupEnd()
    for me, mine in zip(all_ranks, memory):
        CUDA.use(me.rank)
        me.same(mine, total(devices, COUNT), "sum over GPUs")
        me.comm.destroy()


def distributed():
    """cupyx.distributed, with one rank: it takes a process for each."""
    if not HAS_RUNTIME:
        raise ranks.Skip("CuPy's arrays do not work here")
    from cupyx.distributed import NCCLBackend
    backend = NCCLBackend(1, 0, use_mpi=False)
    values = cupy.arange(10, dtype=cupy.float32)
    out = cupy.zeros_like(values)
    backend.all_reduce(values, out)
    backend.barrier()
    same(out.get(), numpy.arange(10, dtype=numpy.float32), "all_reduce")
    backend.stop()


PARTS = {function.__name__: function for function in (
    version, all_reduce, blocks, broadcast_reduce, send_recv, split, init_all, distributed)}

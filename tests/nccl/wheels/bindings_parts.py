"""Parts of bindings_ranks.py: each has a thread for each rank."""
import ctypes
import importlib.util
import os
import sys
import threading
import types

import numpy

import ranks
from cuda_memory import Runtime, part_of, same, total

SIZE, COUNT = int(os.environ["WORLD_SIZE"]), int(os.environ.get("RANKS_COUNT", 1000))
FLOAT, SUM, MAX = 7, 0, 2
TYPES = {numpy.int8: 0, numpy.uint8: 1, numpy.int32: 2, numpy.int64: 4, numpy.float16: 6,
         numpy.float32: FLOAT, numpy.float64: 8}
CUDA = Runtime()
turns = threading.Barrier(SIZE, timeout=40)


# ---- the two bindings, with the same functions ---------------------------------------------------


class Vllm:
    """pynccl_wrapper.py from vLLM's package, without the rest of it."""

    def __init__(self):
        class Logger(types.SimpleNamespace):
            pass

        stubs = {"vllm": {"envs": types.SimpleNamespace(VLLM_USE_NCCL_SYMM_MEM=True)},
                 "vllm.logger": {"init_logger": lambda name: Logger()},
                 "vllm.platforms": {"current_platform": types.SimpleNamespace(
                     is_rocm=lambda: False)},
                 "vllm.utils.nccl": {"find_nccl_library": lambda: "libnccl.so.2"}}
        folder = list(importlib.util.find_spec("vllm").submodule_search_locations)[0]
        for name, contents in stubs.items():
            module = types.ModuleType(name)
            vars(module).update(contents)
            sys.modules[name] = module
        path = os.path.join(folder, "distributed", "device_communicators", "pynccl_wrapper.py")
        spec = importlib.util.spec_from_file_location("pynccl_wrapper", path)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.nccl = self.module.NCCLLibrary()
        for name in ("Reduce", "ReduceScatter", "AllGather", "Send", "Recv", "Broadcast",
                     "AllReduce", "GroupStart", "GroupEnd", "CommDestroy", "CommAbort",
                     "CommSuspend", "CommResume", "CommWindowRegister", "CommWindowDeregister"):
            setattr(self, name, getattr(self.nccl, "nccl" + name))
        self.name = "vLLM's pynccl_wrapper, %s" % self.nccl.ncclGetVersion()

    def identity(self):
        """As vLLM broadcasts it."""
        made = self.nccl.ncclGetUniqueId()
        return self.nccl.unique_id_from_bytes(bytes(made.internal))

    def init(self, size, identity, rank):
        return self.nccl.ncclCommInitRank(size, identity, rank)

    def properties(self, comm):
        found = self.module.ncclCommProperties()
        found.size, found.magic = ctypes.sizeof(found), 0xCAFEBEEF
        found.version = min(self.nccl.ncclGetRawVersion(), 23102)
        self.nccl.NCCL_CHECK(self.nccl._funcs["ncclCommQueryProperties"](
            comm, ctypes.byref(found)))
        return found.rank, found.nRanks, found.cudaDev, found.deviceApiSupport


class Nccl4py:
    """nccl.bindings.nccl, which has NCCL's functions as they are."""

    def __init__(self):
        import nccl.bindings.nccl as bindings
        import nccl.core
        self.nccl, self.core = bindings, nccl.core
        self.name = "nccl4py %s, %s" % (nccl.core.__version__, bindings.get_version())

    def identity(self):
        return self.nccl.get_unique_id()

    def init(self, size, identity, rank):
        return self.nccl.comm_init_rank(size, identity, rank)

    def AllReduce(self, send, recv, count, dtype, op, comm, stream):
        self.nccl.all_reduce(send, recv, count, dtype, op, comm, stream)

    def Reduce(self, send, recv, count, dtype, op, root, comm, stream):
        self.nccl.reduce(send, recv, count, dtype, op, root, comm, stream)

    def ReduceScatter(self, send, recv, count, dtype, op, comm, stream):
        self.nccl.reduce_scatter(send, recv, count, dtype, op, comm, stream)

    def AllGather(self, send, recv, count, dtype, comm, stream):
        self.nccl.all_gather(send, recv, count, dtype, comm, stream)

    def Broadcast(self, send, recv, count, dtype, root, comm, stream):
        self.nccl.broadcast(send, recv, count, dtype, root, comm, stream)

    def Send(self, send, count, dtype, peer, comm, stream):
        self.nccl.send(send, count, dtype, peer, comm, stream)

    def Recv(self, recv, count, dtype, peer, comm, stream):
        self.nccl.recv(recv, count, dtype, peer, comm, stream)

    def GroupStart(self):
        self.nccl.group_start()

    def GroupEnd(self):
        self.nccl.group_end()

    def CommDestroy(self, comm):
        self.nccl.comm_destroy(comm)

    def CommAbort(self, comm):
        self.nccl.comm_abort(comm)

    def CommSuspend(self, comm, flags):
        self.nccl.comm_suspend(comm, flags)

    def CommResume(self, comm):
        self.nccl.comm_resume(comm)

    def CommWindowRegister(self, comm, memory, nbytes, flags):
        return self.nccl.comm_window_register(comm, memory, nbytes, flags)

    def CommWindowDeregister(self, comm, window):
        self.nccl.comm_window_deregister(comm, window)

    def properties(self, comm):
        found = self.core.Communicator(int(comm)).properties
        return found.rank, found.n_ranks, found.cuda_dev, found.device_api_support


def load(package):
    return Vllm() if package == "vllm" else Nccl4py()


# ---- ranks ---------------------------------------------------------------------------------------


class Rank:
    """One rank, in its thread."""

    def __init__(self, binding, rank, comm, stream):
        self.nccl, self.rank, self.comm, self.stream = binding, rank, comm, stream

    def __call__(self, *calls):
        """Makes the calls at the same time as the other ranks, as in cupy_parts.py."""
        turns.wait()
        for call in calls:
            call()
        turns.wait()

    def on_gpu(self, values):
        return CUDA.upload(values, self.stream)

    def mine(self, count, dtype=numpy.float32):
        return self.on_gpu(part_of(self.rank, count, dtype))

    def room(self, count, dtype=numpy.float32):
        return self.on_gpu(numpy.full(count, 99, dtype))

    def same(self, memory, expected, what):
        found = CUDA.download(memory, len(expected), expected.dtype, self.stream)
        same(found, expected, "rank %d: %s" % (self.rank, what))


def in_threads(body):
    """The body in a thread for each rank, which has a communicator by a common id."""
    def part(binding):
        identity, failures = binding.identity(), []

        def run(rank):
            try:
                CUDA.use(rank % CUDA.devices())
                stream = CUDA.stream()
                comm = binding.init(SIZE, identity, rank)
                if body(Rank(binding, rank, comm, stream)) != "ended":
                    CUDA.wait(stream)
                    binding.CommDestroy(comm)
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
        return ""

    part.__name__ = body.__name__
    return part


def version(binding):
    in_threads(lambda me: None)(binding)
    return "%s, %s" % (binding.name, ranks.require_ours())


@in_threads
def all_reduce(me):
    for dtype, code in TYPES.items():
        for count in (1, 777, COUNT):
            source, out = me.mine(count, dtype), me.room(count, dtype)
            me(lambda: me.nccl.AllReduce(source, out, count, code, SUM, me.comm, me.stream))
            me.same(out, total(SIZE, count, dtype), "sum of %s" % dtype.__name__)


@in_threads
def blocks(me):
    count = COUNT // SIZE + 1
    mine, out = me.mine(count), me.room(count * SIZE)
    me(lambda: me.nccl.AllGather(mine, out, count, FLOAT, me.comm, me.stream))
    me.same(out, numpy.concatenate([part_of(rank, count) for rank in range(SIZE)]), "AllGather")
    whole, part = me.mine(count * SIZE), me.room(count)
    me(lambda: me.nccl.ReduceScatter(whole, part, count, FLOAT, SUM, me.comm, me.stream))
    me.same(part, total(SIZE, count, first=count * me.rank), "ReduceScatter")


@in_threads
def broadcast_reduce(me):
    for root in range(SIZE):
        mine, out = me.mine(COUNT), me.room(COUNT)
        me(lambda: me.nccl.Broadcast(mine, out, COUNT, FLOAT, root, me.comm, me.stream))
        me.same(out, part_of(root, COUNT), "Broadcast from %d" % root)
        me(lambda: me.nccl.Reduce(mine, out, COUNT, FLOAT, MAX, root, me.comm, me.stream))
        if me.rank == root:
            highest = numpy.max([part_of(rank, COUNT) for rank in range(SIZE)], axis=0)
            me.same(out, highest, "Reduce to %d" % root)


@in_threads
def send_recv(me):
    before, after = (me.rank - 1) % SIZE, (me.rank + 1) % SIZE
    for count in (1, 777, COUNT):
        mine, out = me.mine(count), me.room(count)
        me(me.nccl.GroupStart,
           lambda: me.nccl.Send(mine, count, FLOAT, after, me.comm, me.stream),
           lambda: me.nccl.Recv(out, count, FLOAT, before, me.comm, me.stream), me.nccl.GroupEnd)
        me.same(out, part_of(before, count), "from the rank before")


@in_threads
def window(me):
    """Symmetric memory, as vLLM registers it: with flag 1, before calls in it."""
    memory = me.mine(COUNT)
    made = me.nccl.CommWindowRegister(me.comm, memory, 4 * COUNT, 1)
    me(lambda: me.nccl.AllReduce(memory, memory, COUNT, FLOAT, SUM, me.comm, me.stream))
    me.same(memory, total(SIZE, COUNT), "sum in a window")
    turns.wait()
    me.nccl.CommWindowDeregister(me.comm, made)


@in_threads
def suspend(me):
    """vLLM's sleep mode frees memory of communicators that are not used for a time."""
    memory = me.mine(COUNT)
    me(lambda: me.nccl.CommSuspend(me.comm, 1))
    me(lambda: me.nccl.CommResume(me.comm))
    me(lambda: me.nccl.AllReduce(memory, memory, COUNT, FLOAT, SUM, me.comm, me.stream))
    me.same(memory, total(SIZE, COUNT), "sum behind a suspension")


@in_threads
def properties(me):
    found = me.nccl.properties(me.comm)
    expected = (me.rank, SIZE, me.rank % CUDA.devices(), False)
    if tuple(found) != expected:
        raise ValueError("error: %s, not %s" % (found, expected))


@in_threads
def abort(me):
    me(lambda: me.nccl.CommAbort(me.comm))
    return "ended"


@in_threads
def core(me):
    """nccl.core on PyTorch's tensors, with objects that it frees with the communicator."""
    if importlib.util.find_spec("torch") is None:
        raise ranks.Skip("torch is not installed")
    import nccl.core
    import torch
    torch.cuda.set_device(me.rank % CUDA.devices())
    comm = nccl.core.Communicator(int(me.comm))

    def tensor(values):
        memory = torch.empty(len(values), dtype=torch.float32, device="cuda")
        with torch.cuda.stream(torch.cuda.ExternalStream(me.stream)):
            return memory.copy_(torch.from_numpy(values))

    def compare(found, expected, what):
        with torch.cuda.stream(torch.cuda.ExternalStream(me.stream)):
            same(found.cpu().numpy(), expected, "rank %d: %s" % (me.rank, what))

    mine, out = tensor(part_of(me.rank, COUNT)), tensor(part_of(9, COUNT))
    halves = comm.create_pre_mul_sum(0.5, nccl.core.FLOAT32)
    for op, factor in ((nccl.core.SUM, 1), (nccl.core.AVG, 1 / SIZE), (halves, 0.5)):
        me(lambda: comm.allreduce(mine, out, op, stream=me.stream))
        compare(out, (total(SIZE, COUNT, numpy.float64) * factor).astype(numpy.float32), "sum")
    count = COUNT // SIZE
    whole = tensor(part_of(me.rank, count * SIZE))
    every = tensor(part_of(9, count * SIZE))
    expected = [part_of(rank, count, first=count * me.rank) for rank in range(SIZE)]
    me(lambda: comm.alltoall(whole, every, stream=me.stream))
    compare(every, numpy.concatenate(expected), "all to all")
    me(lambda: comm.register_window(mine))
    half = comm.split(me.rank % 2, me.rank)
    me(lambda: half.allreduce(mine, out, nccl.core.SUM, stream=me.stream))
    members = range(me.rank % 2, SIZE, 2)
    compare(out, sum(part_of(rank, COUNT) for rank in members), "sum of a half")
    half.destroy()
    comm.destroy()
    return "ended"


PARTS = {function.__name__: function for function in (
    version, all_reduce, blocks, broadcast_reduce, send_recv, window, suspend, properties, core,
    abort)}

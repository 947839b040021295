"""Two front ends in one process: the package coll, and that which the first argument names. Calls
of both take turns, also after a fork(). Its child can use neither; NCCL and MPI have no rule for
that, and their calls are not tried.

    together.py nccl LIBNCCL | mpi | torch
"""
import ctypes
import os
import sys

import coll
import numpy as np

COUNT = 1000


class Nccl:
    """libnccl.so.2 of libcoll, on memory of the host."""

    class UniqueId(ctypes.Structure):
        _fields_ = [("internal", ctypes.c_char * 128)]

    def __init__(self, comm):
        self.lib = ctypes.CDLL(sys.argv[2])
        self.lib.ncclGetLastError.restype = ctypes.c_char_p
        key = np.zeros(128, np.uint8)
        if comm.rank == 0:
            self.check(self.lib.ncclGetUniqueId(key.ctypes.data_as(ctypes.c_void_p)))
        comm.broadcast(key)
        self.comm = ctypes.c_void_p()
        self.check(self.lib.ncclCommInitRank(ctypes.byref(self.comm), comm.size,
                                             self.UniqueId.from_buffer(key), comm.rank))

    def check(self, result):
        if result != 0:
            raise RuntimeError(self.lib.ncclGetLastError(None).decode())

    def allreduce(self, x):
        out = np.empty_like(x)
        float64, add = 8, 0
        self.check(self.lib.ncclAllReduce(
            x.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(x.size), float64, add, self.comm, None))
        return out

    def close(self):
        self.check(self.lib.ncclCommDestroy(self.comm))


class Mpi:
    """mpi4py; with the layer preloaded, its collectives are libcoll's. It has started MPI before
    coll.init()."""

    def __init__(self, comm):
        from mpi4py import MPI
        self.world = MPI.COMM_WORLD
        assert (self.world.rank, self.world.size) == (comm.rank, comm.size)

    def allreduce(self, x):
        out = np.empty_like(x)
        self.world.Allreduce(x, out)
        return out

    def close(self):
        self.world.Barrier()


class Torch:
    """Backend coll of torch.distributed."""

    def __init__(self, comm):
        import coll_torch  # noqa: F401  pylint: disable=unused-import
        import torch
        import torch.distributed as dist
        self.torch, self.dist = torch, dist
        dist.init_process_group("coll")
        assert (dist.get_rank(), dist.get_world_size()) == (comm.rank, comm.size)

    def allreduce(self, x):
        out = self.torch.from_numpy(x.copy())
        self.dist.all_reduce(out)
        return out.numpy()

    def close(self):
        self.dist.destroy_process_group()


def in_child(other, comm):
    """What a child of fork() may not do ends with a sentence. Its exit code is 0 if it did."""
    code = 0
    try:
        comm.allreduce(np.ones(3))
        code |= 1
    except coll.InvalidError as error:
        code |= 2 * ("fork" not in str(error))
    try:
        if isinstance(other, Torch):
            other.allreduce(np.ones(3))
            code |= 4
    except RuntimeError as error:
        code |= 8 * ("fork" not in str(error))
    os._exit(code)


def take_turns(other, comm, stream):
    size = comm.size
    x = np.arange(COUNT) + comm.rank
    x = x.astype("float64")
    expected = size * np.arange(COUNT) + size * (size - 1) / 2
    for _ in range(50):
        work = comm.allreduce(x, stream=stream)
        assert np.array_equal(other.allreduce(x), expected)
        assert np.array_equal(comm.allreduce(x), expected)
        assert np.array_equal(work.wait(), expected)
    mapped = coll.empty(1 << 18)
    mapped[:] = 1
    assert np.all(other.allreduce(mapped) == size)
    assert np.all(comm.allreduce(mapped) == size)


def main():
    if sys.argv[1] == "mpi":
        import mpi4py.MPI  # noqa: F401  pylint: disable=unused-import
    comm = coll.init()
    other = {"nccl": Nccl, "mpi": Mpi, "torch": Torch}[sys.argv[1]](comm)
    stream = coll.Stream()
    take_turns(other, comm, stream)
    child = os.fork()
    if child == 0:
        in_child(other, comm)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, code
    take_turns(other, comm, stream)
    other.close()
    assert comm.allreduce(np.ones(1))[0] == comm.size
    comm.close()
    os.write(1, b"together\n")


main()

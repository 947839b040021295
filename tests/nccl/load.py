"""Loads the library with ctypes, as vLLM and nccl4py do, and sums over four ranks of this process.
Usage: load.py LIBRARY"""
import ctypes
import sys

RANKS, COUNT, FLOAT, SUM = 4, 100, 7, 0

nccl = ctypes.CDLL(sys.argv[1])
nccl.ncclGetErrorString.restype = ctypes.c_char_p
nccl.ncclGetLastError.restype = ctypes.c_char_p
nccl.ncclGetLastError.argtypes = [ctypes.c_void_p]
nccl.ncclCommDestroy.argtypes = [ctypes.c_void_p]
nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                               ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]


def check(result):
    if result != 0:
        sys.exit("%s: %s" % (nccl.ncclGetErrorString(result), nccl.ncclGetLastError(None)))


comms = (ctypes.c_void_p * RANKS)()
buffers = [(ctypes.c_float * COUNT)(*[rank + 1] * COUNT) for rank in range(RANKS)]
check(nccl.ncclCommInitAll(comms, RANKS, None))
check(nccl.ncclGroupStart())
for rank, buffer in enumerate(buffers):
    check(nccl.ncclAllReduce(buffer, buffer, COUNT, FLOAT, SUM, comms[rank], None))
check(nccl.ncclGroupEnd())
for comm in comms:
    check(nccl.ncclCommDestroy(comm))
assert all(list(buffer) == [10.0] * COUNT for buffer in buffers)

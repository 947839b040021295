"""Uses of the package coll that type checkers accept, and others that they must refuse: there,
mypy --strict would complain about an ignored error that is none. Never run."""
from typing import assert_type

import numpy as np

import coll

comm = coll.init()
x = np.ones(3)
stream = coll.Stream()

comm.allreduce(x, "max", out=x, dtype="float64")
comm.allreduce([1, 2], comm.premul_sum(0.5, np.dtype("float32")))
assert_type(comm.broadcast(bytearray(8), root=1), bytearray)
comm.broadcast(x, stream=stream).wait().sum()
assert_type(comm.barrier(stream=stream), coll.Work[None])
assert_type(comm.allgather(x, stream=stream).done(), bool)
assert_type(comm.recv(bytearray(8), 1), bytearray)
with coll.group() as calls, comm as other:
    assert_type(calls, coll.group)
    other.send(x, 1)
part = comm.split(0, call_timeout=1.5)
if part is not None:
    assert_type(part.rank, int)
assert_type(coll.empty((2, 3), "float32").nbytes, int)
assert_type(coll.create(coll.unique_id(), 0, 1, create_timeout=3), coll.Comm)
assert_type(coll.init(transports="shm", tune="builtin"), coll.Comm)
assert_type(coll.unique_id(interfaces="=lo"), bytes)
try:
    comm.check()
except coll.InvalidError as error:
    as_value_error: ValueError = error
except coll.RankLostError as error:
    assert_type(error.rank, int | None)

comm.allreduce(x, "add")  # type: ignore[call-overload]
comm.allreduce(x, stream="none")  # type: ignore[call-overload]
comm.broadcast(x, out=x)  # type: ignore[call-overload]
comm.barrier().wait()  # type: ignore[attr-defined]
comm.split(0).rank  # type: ignore[union-attr]
comm.rank = 3  # type: ignore[misc]
coll.create("id", 0, 1)  # type: ignore[arg-type]
coll.init(transports=["shm"])  # type: ignore[arg-type]

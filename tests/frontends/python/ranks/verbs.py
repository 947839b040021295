"""Every verb with every element type against NumPy: new arrays, out=, in place, mapped memory,
streams and groups. Values are chosen so that each type has all results exactly."""
import coll
import numpy as np

try:
    import ml_dtypes
    NARROW = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
except ImportError:
    NARROW = []

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64", *NARROW]
SHAPE = (5, 3)
comm = coll.init()
rank, size = comm.rank, comm.size
stream = coll.Stream()


def values(of_rank, dtype, shape=SHAPE):
    """1 and 2, so that sums, products and averages are exact in all types."""
    indices = np.arange(int(np.prod(shape))).reshape(shape)
    return (1 + (indices * (of_rank + 1) + of_rank) % 2).astype(dtype)


def everybody(dtype, shape=SHAPE):
    return np.stack([values(of_rank, dtype, shape) for of_rank in range(size)])


def reduced(op, dtype, shape=SHAPE):
    rows = everybody(dtype, shape)
    if op in ("band", "bor", "bxor"):
        function = {"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor}[op]
        return function.reduce(rows)
    wide = rows.astype("float64")
    result = {"sum": wide.sum, "prod": wide.prod, "max": wide.max, "min": wide.min,
              "avg": wide.mean}[op](axis=0)
    if np.dtype(dtype).kind in "iu":
        result = np.trunc(result)
    return result.astype(dtype)


def same(got, wanted, *where):
    assert got.dtype == wanted.dtype, (got.dtype, wanted.dtype, where)
    assert got.shape == wanted.shape, (got.shape, wanted.shape, where)
    assert np.array_equal(got.astype("float64"), wanted.astype("float64")), (got, wanted, where)


def mapped(array):
    made = coll.empty(array.shape, array.dtype)
    made[...] = array
    return made


def ways(call, x, wanted, *where):
    """The call with a new result, with out=, on mapped memory, on a stream and in a group."""
    same(call(x), wanted, *where)
    out = np.zeros(wanted.shape, wanted.dtype)
    assert call(x, out=out) is out
    same(out, wanted, "out", *where)
    out = coll.empty(wanted.shape, wanted.dtype)
    call(mapped(x), out=out)
    same(out, wanted, "mapped", *where)
    same(call(x, stream=stream).wait(), wanted, "stream", *where)
    with coll.group():
        first, second = call(x), call(x, stream=stream)
    same(first, wanted, "group", *where)
    same(second.wait(), wanted, "group, stream", *where)


def reductions(dtype, ops):
    for op in ops:
        wanted = reduced(op, dtype)
        ways(lambda x, **more: comm.allreduce(x, op, **more),
             values(rank, dtype), wanted, "allreduce", op)
        x = values(rank, dtype)
        comm.allreduce(x, op, out=x)
        same(x, wanted, "allreduce in place", op)
        for root in range(size):
            got = comm.reduce(values(rank, dtype), op, root)
            assert (got is None) == (rank != root)
            if rank == root:
                same(got, wanted, "reduce", op)
        shape = (size, *SHAPE)
        ways(lambda x, **more: comm.reduce_scatter(x, op, **more), values(rank, dtype, shape),
             reduced(op, dtype, shape)[rank], "reduce_scatter", op)


def moves(dtype):
    mine, all_of = values(rank, dtype), everybody(dtype)
    ways(comm.allgather, mine, all_of, "allgather")
    rows = everybody(dtype, (size, *SHAPE))
    ways(comm.alltoall, rows[rank], np.ascontiguousarray(rows[:, rank]), "alltoall")
    whole = np.zeros((size, *SHAPE), dtype)
    whole[rank] = mine
    comm.allgather(whole[rank], out=whole)
    same(whole, all_of, "allgather in place")
    for root in range(size):
        x = mine.copy()
        assert comm.broadcast(x, root) is x
        same(x, all_of[root], "broadcast")
        got = comm.gather(mine, root)
        assert (got is None) == (rank != root)
        if rank == root:
            same(got, all_of, "gather")
        out = np.zeros(SHAPE, dtype)
        comm.scatter(all_of if rank == root else None, root, out=out)
        same(out, mine, "scatter")
        if rank == root:
            same(comm.scatter(all_of, root), mine, "scatter, new")
        else:
            comm.scatter(None, root, out=out)
    messages(dtype, mine, all_of)


def extremes(dtype):
    """The highest bit is a sign in some types and the greatest digit in others."""
    numbers = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 1], dtype)
    rows = np.stack([np.roll(numbers, r) for r in range(size)])
    for op, function in (("min", np.min), ("max", np.max)):
        same(comm.allreduce(rows[rank], op), function(rows, axis=0), "extremes", op)


def messages(dtype, mine, all_of):
    right, left = (rank + 1) % size, (rank - 1) % size
    out = np.zeros(SHAPE, dtype)
    with coll.group():
        comm.send(mine, right)
        assert comm.recv(out, left) is out
    same(out, all_of[left], "send and recv in a group")
    if size > 1:  # to itself a rank sends in groups only
        comm.send(mine, right)
        same(comm.recv(np.zeros(SHAPE, dtype), left), all_of[left], "send, then recv")
    with coll.group():
        comm.send(mine, right, stream=stream)
        work = comm.recv(np.zeros(SHAPE, dtype), left, stream=stream)
    same(work.wait(), all_of[left], "send and recv on a stream")
    # Rank r sends r + j + 1 elements to rank j.
    counts = [rank + j + 1 for j in range(size)]
    x = np.concatenate([np.full(n, 1 + rank % 2) for n in counts]).astype(dtype)
    wanted = np.concatenate([np.full(rank + j + 1, 1 + j % 2) for j in range(size)]).astype(dtype)
    same(comm.alltoallv(x, counts, counts), wanted, "alltoallv")
    x = np.zeros(sum(counts), dtype)
    order = counts[::-1]
    displs = [sum(order[:size - 1 - j]) for j in range(size)]
    for n, place in zip(counts, displs):
        x[place:place + n] = np.full(n, 1 + rank % 2).astype(dtype)
    out = np.zeros(len(wanted) + 2, dtype)
    comm.alltoallv(x, counts, counts, send_displs=displs, out=out)
    same(out[:-2], wanted, "alltoallv with displacements")


def other_types():
    """bool, complex, and types by dtype= of unsigned integers."""
    x = np.array([True, rank == 0, False])
    same(comm.allreduce(x, "max"), np.array([True, True, False]), "bool")
    same(comm.allreduce(x, "min"), np.array([True, size == 1, False]), "bool")
    same(comm.allgather(x), np.stack([[True, r == 0, False] for r in range(size)]), "bool")
    for dtype in ("complex64", "complex128"):
        got = comm.allreduce(np.array([1 + 2j, rank], dtype))
        assert got.dtype == dtype and got[0] == size * (1 + 2j)
        got = comm.alltoallv(np.full(size, rank + 1j, dtype), [1] * size, [1] * size)
        assert got.tolist() == [r + 1j for r in range(size)], got
    bits = (np.full(4, 1.5 + rank, "float32").view("uint32") >> 16).astype("uint16")
    got = comm.allreduce(bits, dtype="bfloat16")
    assert got.dtype == np.uint16
    total = (got.astype("uint32") << 16).view("float32")
    assert np.all(total == sum(1.5 + r for r in range(size))), total
    # 1 and the number of ranks, a power of two.
    for name, one, doubling in (("float8_e4m3", 0x38, 8), ("float8_e4m3fn", 0x38, 8),
                                ("float8_e5m2", 0x3c, 4)):
        got = comm.allreduce(np.full(3, one, "uint8"), dtype=name)
        assert np.all(got == one + doubling * (size.bit_length() - 1)), (name, got)


def other_arrays():
    """Buffers that are not NumPy's, lists, numbers, and arrays with gaps."""
    import array
    total = size * (size + 1) // 2
    got = comm.allreduce(array.array("i", [rank + 1, 2]))
    same(got, np.array([total, 2 * size], "int32"), "array.array")
    out = array.array("d", [0.0])
    assert comm.allreduce(array.array("d", [rank + 1]), out=out) is out and out[0] == total
    same(comm.allreduce([rank + 1, 2]), np.array([total, 2 * size]), "list")
    assert float(comm.allreduce(1.5)) == 1.5 * size
    assert comm.allgather(b"ab").tolist() == [[97, 98]] * size
    wide = np.arange(24.0).reshape(4, 6)
    same(comm.allreduce(wide[::2, ::3]), wide[::2, ::3] * size, "gaps")
    same(comm.allreduce(np.asfortranarray(wide)), wide * size, "Fortran's order")
    same(comm.allgather(np.array(3.0)), np.full(size, 3.0), "no axes")
    same(comm.allreduce(np.empty((0, 3))), np.empty((0, 3)), "no elements")
    data = bytearray(8)
    comm.broadcast(data if rank else b"12345678")
    assert bytes(data if rank else b"12345678") == b"12345678"


for each in INTEGERS:
    reductions(each, ["sum", "prod", "max", "min", "avg", "band", "bor", "bxor"])
    extremes(each)
for each in FLOATS:
    reductions(each, ["sum", "prod", "max", "min", "avg"])
for each in INTEGERS + FLOATS:
    moves(each)
other_types()
other_arrays()
scale = comm.premul_sum(0.5, "float64")
same(comm.allreduce(np.full(3, 4.0), scale), np.full(3, 2.0 * size), "premul_sum")
comm.barrier()
comm.barrier(stream=stream).wait()
part = comm.split(rank % 2, -rank)
assert part.size == (size + 1 - rank % 2) // 2
assert part.allgather(np.array(rank)).tolist() == list(range(rank % 2, size, 2))[::-1]
part.close()
stream.close()
comm.close()

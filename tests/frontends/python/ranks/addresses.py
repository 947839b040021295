"""What the library is given is the memory of the program's own objects, by address: of arrays of
NumPy, of mapped memory, of other buffers and, with the argument `torch`, of PyTorch's tensors. Run
with ../../given.c preloaded."""
import array
import os
import sys

import coll
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import given  # noqa: E402  pylint: disable=wrong-import-position

comm = coll.init()
rank, size = comm.rank, comm.size
stream = coll.Stream()


def address(thing):
    """Of the first element."""
    if hasattr(thing, "data_ptr"):
        return thing.data_ptr()
    return np.frombuffer(thing, np.uint8).ctypes.data if not isinstance(thing, np.ndarray) else \
        thing.ctypes.data


def passes(verb, send, recv, call):
    """The call gives the library these two objects' memory, and no other."""
    given.take()
    call()
    wanted = [(verb, *(None if thing is None else address(thing) for thing in (send, recv)))]
    assert given.take() == wanted, (verb, type(send), type(recv))


def verbs(make):
    """Every verb on objects that make(count) returns."""
    x, out = make(12), make(12)
    wide, part = make(12 * size), make(12)
    root = size - 1
    at_root = rank == root
    passes("allreduce", x, out, lambda: comm.allreduce(x, out=out))
    passes("allreduce", x, x, lambda: comm.allreduce(x, out=x))
    passes("reduce", x, out if at_root else None,
           lambda: comm.reduce(x, "sum", root, out=out if at_root else None))
    passes("reduce_scatter", wide, part, lambda: comm.reduce_scatter(wide, out=part))
    passes("allgather", x, wide, lambda: comm.allgather(x, out=wide))
    passes("gather", x, wide if at_root else None,
           lambda: comm.gather(x, root, out=wide if at_root else None))
    passes("scatter", wide if at_root else None, part,
           lambda: comm.scatter(wide if at_root else None, root, out=part))
    passes("broadcast", x, x, lambda: comm.broadcast(x, root))
    other = make(12 * size)
    passes("alltoall", wide, other, lambda: comm.alltoall(wide, out=other))
    counts = [12] * size
    passes("alltoallv", wide, other, lambda: comm.alltoallv(wide, counts, counts, out=other))
    if rank < 2:
        passes("send" if rank == 0 else "recv", x if rank == 0 else None,
               None if rank == 0 else x,
               lambda: comm.send(x, 1) if rank == 0 else comm.recv(x, 0))
    passes("allreduce", x, out, lambda: comm.allreduce(x, out=out, stream=stream).wait())

    def in_a_group():
        with coll.group():
            comm.allreduce(x, out=out)
    passes("allreduce", x, out, in_a_group)


def results_are_new_arrays():
    """Without out=, the result is what the library has written."""
    x = np.ones(10)
    given.take()
    result = comm.allreduce(x)
    assert given.take() == [("allreduce", address(x), address(result))]


def refused(call):
    try:
        call()
        raise AssertionError("memory with gaps was written")
    except coll.InvalidError as error:
        assert "is not C-contiguous, and the call writes to it" in str(error), error


def copies():
    """Only of what is read, and is not contiguous or no array. What is written is refused then."""
    wide = np.ones((6, 4))
    gaps, out = wide[:, ::2], np.empty((6, 2))
    begin, end = address(wide), address(wide) + wide.nbytes
    given.take()
    comm.allreduce(gaps, out=out)
    (_, send, recv), = given.take()
    assert not begin <= send < end and recv == address(out)
    for call in (lambda: comm.allreduce(out, out=gaps), lambda: comm.recv(gaps, 0),
                 lambda: comm.broadcast(gaps, (rank + 1) % size)):
        refused(call)
    assert given.take() == []
    # Contiguous parts are no copies.
    passes("allreduce", wide[2:4], out[2:], lambda: comm.allreduce(wide[2:4], out=out[2:]))


def peers_map(x):
    """Large calls on mapped memory: each rank maps that of the others."""
    files = comm.allgather(np.array(given.inode_at(address(x)))).tolist()
    assert 0 not in files and len(set(files)) == size, files
    comm.allreduce(x, out=x)
    assert all(map(given.has_mapped, files)), files


def tensors():
    import torch
    verbs(torch.ones)
    verbs(lambda count: torch.from_numpy(coll.empty(count, "float32")))
    peers_map(torch.from_numpy(coll.empty(1 << 18, "float32")))
    for dtype in (torch.complex64, torch.int16, torch.float16, torch.bfloat16):
        x = torch.ones(10).to(dtype)
        passes("allreduce", x, x, lambda x=x: comm.allreduce(x, out=x))
    crossed = torch.ones(4, 6).t()
    refused(lambda: comm.allreduce(crossed, out=crossed))


if "torch" in sys.argv[1:]:
    tensors()
else:
    verbs(np.ones)
    verbs(lambda count: np.ones((count, 3), "float32"))
    verbs(coll.empty)
    verbs(lambda count: array.array("d", [1.0] * count))
    verbs(lambda count: memoryview(array.array("i", [1] * count)))
    verbs(lambda count: bytearray(count))
    results_are_new_arrays()
    copies()
    peers_map(coll.empty(1 << 18, "float32"))
comm.barrier()
stream.close()
comm.close()

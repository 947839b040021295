"""Memory is used where it is: addresses of arrays, of mapped memory and of PyTorch's tensors."""
import ctypes
import gc
import sys

import coll
import numpy as np

comm = coll.init()
rank, size = comm.rank, comm.size


def address(array):
    return array.__array_interface__["data"][0]


def mappings():
    """Bytes of memory of coll_mem_alloc: shared files without a name."""
    total = 0
    with open("/proc/self/maps", encoding="ascii") as file:
        for line in file:
            fields = line.split()
            if "s" in fields[1]:
                begin, end = (int(part, 16) for part in fields[0].split("-"))
                total += end - begin
    return total


x = np.full(1000, rank + 1.0)
out = np.empty(1000)
places = address(x), address(out)
assert comm.allreduce(x, out=out) is out
assert (address(x), address(out)) == places

# What the library is given is the array's memory: C code reads the same address.
seen = (ctypes.c_double * 4).from_address(address(out))
assert list(seen) == [size * (size + 1) / 2] * 4

# Mapped memory: views keep it, and the last one frees it.
comm.barrier()
before = mappings()
mapped = coll.empty((1 << 18,), "float64")
assert address(mapped) % 4096 == 0
assert mappings() >= before + mapped.nbytes
view = mapped[5:10]
assert address(view) == address(mapped) + 40
mapped[:] = rank
comm.allreduce(mapped, out=mapped)
del mapped
gc.collect()
assert view[0] == size * (size - 1) / 2
assert mappings() >= before + (1 << 21)
del view
gc.collect()
again = [coll.empty(1 << 18) for _ in range(4)]
held = mappings()
again.clear()
gc.collect()
assert mappings() <= held - 3 * (1 << 21), (before, held, mappings())

# Objects in flight are kept: nothing else refers to them.
stream = coll.Stream()
works = [comm.allreduce(np.full(50000, rank + i, "float32"), stream=stream) for i in range(20)]
junk = [np.full(50000, -1.0, "float32") for _ in range(20)]
for i, work in enumerate(works):
    assert np.all(work.wait() == sum(r + i for r in range(size)))
gone = np.ones(200000)
comm.allreduce(gone, out=gone, stream=stream)
del gone
data = bytearray(800)
work = comm.broadcast(data, stream=stream)
work.wait()
data.extend(b"the buffer is not held any more")
del stream, works, work

if "torch" in sys.argv[1:]:
    import torch
    tensor = torch.full((10,), rank + 1.0)
    target = torch.empty(10)
    place = target.data_ptr()
    assert comm.allreduce(tensor, out=target) is target
    assert target.data_ptr() == place and torch.all(target == size * (size + 1) / 2)
    got = comm.allreduce(tensor.to(torch.bfloat16))
    assert isinstance(got, torch.Tensor) and got.dtype == torch.bfloat16
    assert torch.all(got == size * (size + 1) / 2)
    assert comm.allgather(tensor).shape == (size, 10)
    assert torch.equal(comm.broadcast(torch.full((3,), rank), root=size - 1),
                       torch.full((3,), size - 1))
    # An older PyTorch has no float8, and does not hand over bool.
    names = ["complex64", "int16", "float16"]
    names += ["bool", "float8_e4m3fn", "float8_e5m2"] if hasattr(torch, "float8_e5m2") else []
    for dtype in (getattr(torch, name) for name in names):
        assert comm.allgather(torch.ones(4).to(dtype))[0].dtype == dtype
        if dtype != torch.bool:
            got = comm.allreduce(torch.ones(4).to(dtype))
            wide = got.to(torch.complex64 if dtype.is_complex else torch.float64)
            assert got.dtype == dtype and torch.all(wide == size), got
    cross = comm.allreduce(torch.arange(12.0).reshape(3, 4).t())
    assert torch.equal(cross, size * torch.arange(12.0).reshape(3, 4).t())
    shared = coll.empty(1000, "float32")
    tensor = torch.from_numpy(shared)
    assert tensor.data_ptr() == address(shared)
    tensor.fill_(1.0)
    comm.allreduce(tensor, out=tensor)
    assert shared[0] == size
    stream = coll.Stream()
    assert torch.all(comm.allreduce(torch.ones(9), stream=stream).wait() == size)
    for bad, word in ((torch.ones(3, requires_grad=True), "detach"),
                      (torch.ones(3, device="meta"), ""),
                      (torch.tensor([1 + 2j]).conj(), ""),
                      (torch._neg_view(torch.ones(3)), "resolve_neg")):
        try:
            comm.allgather(bad)
            raise SystemExit("taken: %r" % bad)
        except (coll.InvalidError, BufferError, RuntimeError, ValueError) as error:
            assert word in str(error), error
comm.close()

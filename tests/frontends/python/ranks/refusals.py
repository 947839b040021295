"""What is refused, and with which exception and sentence."""
import contextlib
import os
import threading

import coll
import numpy as np

comm = coll.init()
rank, size = comm.rank, comm.size


@contextlib.contextmanager
def refused(kind, *words):
    try:
        yield
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
    else:
        raise AssertionError("not refused: %s %s" % (kind, words))


class OnDevice:
    """As a tensor of a GPU says where it is."""

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **_):
        raise AssertionError("it must not be asked, which might copy")


x = np.ones(4)
readonly = np.ones(4)
readonly.flags.writeable = False

# Arguments. Nothing is sent, and the communicator still works.
with refused(coll.InvalidError, "read-only", "out"):
    comm.allreduce(x, out=readonly)
for arguments in ({"x": OnDevice()}, {"x": x, "out": OnDevice()}):
    with refused(coll.InvalidError, "is on a device", "CPU"):
        comm.allreduce(**arguments)
with refused(coll.InvalidError, "not C-contiguous"):
    comm.allreduce(x, out=np.ones(8)[::2])
with refused(coll.InvalidError, "out has 3 elements, but the result has 4"):
    comm.allreduce(x, out=np.ones(3))
with refused(coll.InvalidError, "float64", "float32"):
    comm.allreduce(x, out=np.ones(4, "float32"))
with refused(TypeError, "out"):
    comm.allreduce(x, out=[0.0] * 4)
with refused(coll.InvalidError, "op is 'add'", "sum"):
    comm.allreduce(x, "add")
with refused(coll.InvalidError, "band", "float64"):
    comm.allreduce(x, "band")
with refused(coll.InvalidError, "bool", "sum"):
    comm.allreduce(np.array([True]))
with refused(coll.InvalidError, "complex", "max"):
    comm.allreduce(np.array([1j]), "max")
with refused(coll.InvalidError, "format"):
    comm.allreduce(np.ones(4, ">f8"))
with refused(coll.InvalidError):
    comm.allreduce(np.array(["a", "b"]))
with refused(coll.InvalidError):
    comm.allreduce(np.array([object()]))
with refused(coll.InvalidError, "bfloat16"):
    comm.allreduce(x, dtype="bfloat16")
with refused(coll.InvalidError, "no such type"):
    comm.allreduce(x, dtype="float7")
with refused(coll.InvalidError, "shape", "reshape"):
    comm.reduce_scatter(np.ones((size + 1, 2)))
with refused(coll.InvalidError, "cannot be divided among"):
    comm.reduce_scatter(np.ones(size + 1), out=np.ones(1))
with refused(coll.InvalidError, "root"):
    comm.broadcast(x, root=size)
with refused(coll.InvalidError, "peer"):
    comm.send(x, size)
with refused(coll.InvalidError, "send_counts"):
    comm.alltoallv(x, [1], [1] * size)
with refused(coll.InvalidError, "reach to element"):
    comm.alltoallv(x, [9] * size, [9] * size)
none = [0] * size
with refused(coll.InvalidError, "reach to element 5 of x, which has 4"):
    comm.alltoallv(x, [5, *none[1:]], none)
with refused(coll.InvalidError, "reach to element 5 of out, which has 4"):
    comm.alltoallv(x, none, [5, *none[1:]], out=np.ones(4))
with refused(coll.InvalidError, "below 0"):
    comm.alltoallv(x, [-1] * size, [1] * size)
with refused(TypeError, "stream"):
    comm.allreduce(x, stream="none")
with refused(TypeError, "parameter", "axis"):
    comm.allreduce(x, axis=0)
with refused(TypeError, "needs 'x'"):
    comm.allreduce()
with refused(TypeError):
    coll.Comm()
with refused(ValueError):
    comm.allreduce(x, "median")  # InvalidError is a ValueError, too
twin = comm.split(0)
twice, thrice = comm.premul_sum(2.0, "float64"), twin.premul_sum(3.0, "float64")
with refused(coll.InvalidError, "another communicator"):
    comm.allreduce(x, thrice)
assert comm.allreduce(x, twice)[0] == 2 * size and twin.allreduce(x, thrice)[0] == 3 * size
del twice, thrice
twin.close()
if rank != 0:
    with refused(coll.InvalidError, "out="):
        comm.scatter(None, 0)
else:
    with refused(coll.InvalidError, "x is None"):
        comm.scatter(None, 0, out=np.ones(1))
with refused(coll.InvalidError, "reproducible 1", "split"):
    comm.split(0, reproducible=True)
with refused(coll.InvalidError):
    coll.empty(-1)
with refused(coll.InvalidError, "128"):
    coll.create(b"abc", 0, 1)
assert comm.allreduce(x)[0] == size, "the communicator does not work any more"

# A group whose body raises runs none of its calls.
out = np.zeros(4)
with contextlib.suppress(KeyError):
    with coll.group():
        comm.allreduce(x, out=out)
        raise KeyError("stop")
assert out[0] == 0
with refused(coll.InvalidError, "read-only"):
    with coll.group():
        comm.allreduce(x, out=out)
        comm.allreduce(x, out=readonly)
assert out[0] == 0
stream = coll.Stream()
with refused(coll.InvalidError, "group"):
    with coll.group():
        comm.allreduce(x, stream=stream).wait()
assert comm.allreduce(x)[0] == size

# Another process, after fork().
child = os.fork()
if child == 0:
    code = 1
    try:
        comm.allreduce(x)
    except coll.InvalidError as error:
        code = 0 if "fork" in str(error) else 2
        del comm, stream
    os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert comm.allreduce(x)[0] == size

# Threads: ranks in one process, and a call in another thread.
locals_ = coll.local(3)
results = [None] * 3


def work(i):
    results[i] = locals_[i].allreduce(np.array([i + 1.0]))[0]


threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert results == [6.0] * 3
with coll.group():
    sums = [each.allreduce(np.array([2.0])) for each in locals_]
assert [float(each[0]) for each in sums] == [6.0] * 3

started = threading.Event()


def wait_alone():
    started.set()
    with contextlib.suppress(coll.Error):
        locals_[0].barrier()


thread = threading.Thread(target=wait_alone)
thread.start()
started.wait()
while True:  # until the thread is in the call
    try:
        with refused(coll.InvalidError, "another thread"):
            locals_[0].close()
        break
    except AssertionError:
        locals_ = coll.local(3)
        break
for each in locals_:
    if not each.closed:
        each.abort()
thread.join()

# Ranks created by id, alone and in a group.
lone = coll.create(coll.unique_id(), 0, 1)
assert lone.size == 1
lone.close()
key = coll.unique_id()
with coll.group():
    pair = [coll.create(key, i, 2) for i in range(2)]
    with refused(coll.InvalidError, "group"):
        pair[0].rank
assert [each.rank for each in pair] == [0, 1]
for each in pair:
    each.close()
with refused(coll.CallTimeoutError, "1"):
    coll.create(coll.unique_id(), 0, 2, create_timeout=0.2)
with refused(TimeoutError):
    coll.create(coll.unique_id(), 0, 2, create_timeout=0.2)

# A rank that does not come in time: of two ranks, or one that is held up may be another one.
limited = comm.split(0 if rank < 2 else 1, call_timeout=0.3)
if size > 1 and rank < 2:
    try:
        if rank == 0:
            limited.barrier()
        else:
            while True:
                limited.check()
    except coll.CallTimeoutError as error:
        assert error.rank == 1 and "rank 1" in str(error), (error.rank, error)
with contextlib.suppress(coll.Error):
    limited.close()
assert coll.Error("a text").rank is None

# Ranks that do not match finish the communicator.
other = comm.split(0)
with refused(coll.MismatchError, "count 4", "count 5" if size > 1 else ""):
    if size == 1:
        raise coll.MismatchError("count 4")
    other.allreduce(np.ones(4 if rank == 0 else 5))
with contextlib.suppress(coll.Error):
    other.close()

# Use after close.
comm.close()
comm.close()
assert comm.closed
with refused(coll.InvalidError, "closed"):
    comm.allreduce(x)
with refused(coll.InvalidError, "closed"):
    comm.rank
stream.close()
comm = coll.init()
with refused(coll.InvalidError, "closed"):
    comm.allreduce(x, stream=stream)
comm.close()

"""Failures are sentences that name who is to blame. Run with the name of a case; a rank exits with
0 if it has seen what it should."""
import datetime
import gc
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

import coll_torch
from deaths import await_end
from job import cpu_backend, store

CASES = {}
# Of groups and calls that must run into it; the groups have to be made in that time, too.
LIMIT = datetime.timedelta(seconds=3)


def case(function):
    CASES[function.__name__] = function
    return function


def fails(rank, words, call):
    """As expect, on a rank for which another one waits."""
    expect(words, call)
    store().set(f"failed {rank}", "")


def await_failures(*ranks):
    """For a rank that is missing in the calls of these until they have failed."""
    store().wait([f"failed {rank}" for rank in ranks])


def expect(words, call):
    """The call fails, and its text has all the words, in small letters or large ones."""
    try:
        call()
    except Exception as error:  # pylint: disable=broad-except
        text = str(error).lower()
        missing = [word for word in words if word.lower() not in text]
        assert not missing, f"no {missing} in: {error}"
        return str(error)
    raise AssertionError(f"no error with {words}")


@case
def silent_peer(rank, size):
    """The limit of the group ends a receive whose message is not sent, and names its rank."""
    group = dist.new_group(timeout=LIMIT)
    if rank == 1:
        await_failures(0)
    else:
        fails(rank, ["rank 1", "3000 ms"], lambda: dist.recv(torch.empty(3), 1, group=group))


@case
def vanished(rank, size):
    """The process of the Store dies: groups work on, new ones cannot be made."""
    dist.all_reduce(torch.ones(3))
    dist.send(torch.ones(3), 1 - rank) if rank == 0 else dist.recv(torch.ones(3), 1 - rank)
    dist.barrier()
    store_process = int(os.environ["TEST_STORE_PROCESS"])
    if rank == 0:
        os.kill(store_process, signal.SIGKILL)
    await_end(store_process)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert (tensor == size).all()
    dist.send(tensor, 1) if rank == 0 else dist.recv(tensor, 0)
    expect(["job's store", "may have ended"],
           lambda: cpu_backend().monitored_barrier(timeout=LIMIT))
    # A message of a pair that has had none.
    expect(["job's store", "may have ended"], lambda: dist.recv(tensor, 1) if rank == 0 else
           dist.send(tensor, 0))


@case
def shapes(rank, size):
    """Each failed group is replaced by another: the rest of the job works on."""
    def in_new_group(call, words):
        group = dist.new_group()
        expect([f"rank {1 - rank}"] + words, lambda: call(group))
    ones = torch.ones
    in_new_group(lambda g: dist.all_reduce(ones(10 + rank), group=g), ["allreduce"])
    in_new_group(lambda g: (dist.broadcast(ones(10 + rank), 0, group=g), dist.barrier(g)),
                 ["broadcast"])
    in_new_group(lambda g: dist.all_gather([ones(10 + rank)] * 2, ones(10 + rank), group=g),
                 ["allgather"])
    in_new_group(lambda g: dist.reduce_scatter_tensor(ones(5 + rank), ones(10 + 2 * rank), group=g),
                 ["reduce_scatter"])
    in_new_group(lambda g: dist.all_reduce(ones(10, dtype=(torch.float32, torch.float64)[rank]),
                                           group=g), ["float32", "float64"])
    tensor = ones(3)
    dist.all_reduce(tensor)
    assert (tensor == size).all()


@case
def late(rank, size):
    """A call with a limit of its own."""
    options = dist.AllreduceOptions()
    options.timeout = LIMIT
    if rank == 1:
        await_failures(0)
    else:
        fails(rank, ["3000 ms"],
              lambda: cpu_backend().allreduce([torch.ones(3)], options).wait())


@case
def impatient(rank, size):
    """A wait() with a limit of its own: of a collective it ends the group on all ranks."""
    if rank == 1:
        await_failures(0)
        expect(["rank 0"], lambda: dist.all_reduce(torch.ones(3)))
        return
    receive = dist.irecv(torch.empty(3), 1)
    expect(["rank 1", "3000 ms"], lambda: receive.wait(LIMIT))
    work = dist.all_reduce(torch.ones(3), async_op=True)
    fails(rank, ["rank 0", "3000 ms", "can no longer be used"], lambda: work.wait(LIMIT))


@case
def shortened(rank, size):
    """A limit of the group that is set later."""
    backend = cpu_backend()
    # The first is its name in newer versions of PyTorch; before 2.0 there is none.
    names = [name for name in ("set_timeout", "_set_default_timeout") if hasattr(backend, name)]
    if not names:
        return
    getattr(backend, names[0])(LIMIT)
    if rank == 1:
        await_failures(0)
        return
    expect(["rank 1", "3000 ms"], lambda: dist.recv(torch.empty(3), 1))
    fails(rank, ["3000 ms"], lambda: dist.all_reduce(torch.ones(3)))


@case
def limit(rank, size):
    """The limit of the process group names the rank that is missing."""
    group = dist.new_group(timeout=LIMIT)
    if rank == 1:
        await_failures(0, 2)
    else:
        fails(rank, ["rank 1"], lambda: dist.all_reduce(torch.ones(3), group=group))


@case
def missing(rank, size):
    """A rank that does not come to the monitored barrier."""
    words = ["Rank 1 failed to pass"] if rank == 0 else ["received errors", "Rank 1 failed"]
    if rank == 1:
        await_failures(0, 2)
    else:
        fails(rank, words, lambda: cpu_backend().monitored_barrier(timeout=LIMIT))


@case
def all_missing(rank, size):
    """With wait_all_ranks, the monitored barrier names every rank that is missing."""
    if rank > 0:
        await_failures(0)
    else:
        fails(rank, ["Ranks 1, 2 failed"], lambda: cpu_backend().monitored_barrier(
            timeout=LIMIT, wait_all_ranks=True))


@case
def forked(rank, size):
    """A forked child gets a sentence, and ends without waiting for threads that it has not."""
    dist.all_reduce(torch.ones(3))
    dist.all_reduce(torch.ones(3), async_op=True).wait()
    dist.send(torch.ones(3), 1) if rank == 0 else dist.recv(torch.ones(3), 0)
    child = os.fork()
    if child == 0:
        backend = cpu_backend()
        for call in (lambda: dist.all_reduce(torch.ones(3)),
                     lambda: dist.all_reduce(torch.ones(3), async_op=True),
                     lambda: dist.send(torch.ones(3), 1 - rank),
                     lambda: dist.recv(torch.ones(3), 1 - rank),
                     lambda: backend.monitored_barrier(timeout=LIMIT)):
            expect(["forked"], call)
        assert coll_torch.dump() == ""
        if hasattr(backend, "abort"):
            backend.abort()  # does nothing: the parent's group works on
        dist.destroy_process_group()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    dist.all_reduce(torch.ones(3))
    dist.send(torch.ones(3), 1) if rank == 0 else dist.recv(torch.ones(3), 0)
    cpu_backend().monitored_barrier(timeout=datetime.timedelta(seconds=30))


@case
def aborted(rank, size):
    dist.all_reduce(torch.ones(3))
    store().set(f"reduced {rank}", "")
    if rank == 1:
        store().wait([f"reduced {other}" for other in range(size)])
        cpu_backend().abort()
    expect(["rank 1"] if rank != 1 else [], lambda: dist.all_reduce(torch.ones(3)))


@case
def aborted_messages(rank, size):
    """Sends and receives of a group that this rank has aborted."""
    work = dist.irecv(torch.empty(3), 1 - rank)
    cpu_backend().abort()
    expect(["destroyed or aborted"], work.wait)
    expect(["destroyed or aborted"], lambda: dist.isend(torch.ones(3), 1 - rank))
    expect(["destroyed or aborted"], lambda: dist.irecv(torch.ones(3), 1 - rank))


@case
def shut_down(rank, size):
    """A group that was ended takes no further calls."""
    backend = cpu_backend()
    dist.all_reduce(torch.ones(3))
    backend.shutdown()
    expect(["destroyed or shut down"], lambda: dist.all_reduce(torch.ones(3)))
    expect(["destroyed or aborted"], lambda: dist.isend(torch.ones(3), 1 - rank))


@case
def ended_in_callback(rank, size):
    """A callback cannot end the group whose thread it runs in; the process ends all the same."""
    def end(_):
        backend = cpu_backend()
        if hasattr(backend, "shutdown"):
            expect(["callback"], backend.shutdown)
        dist.destroy_process_group()
    dist.all_reduce(torch.ones(3))
    work = dist.all_reduce(torch.ones(1 << 20), async_op=True)
    future = work.get_future().then(end)
    del work
    try:
        future.wait()
    except RuntimeError as error:  # PyTorch may shut the group down, too
        assert "callback" in str(error), error


def create(name, size, rank, limit_ms, place=None):
    """A backend of its own, with a Store in which nothing of the job's groups is."""
    place = place or dist.PrefixStore(name, store())
    return coll_torch.native.create(place, rank, size, limit_ms, name)


@case
def retried(rank, size):
    """A group that could not be made can be made again with the same Store."""
    if rank == 0:
        expect(["missing: 1"], lambda: create("again", size, 0, 500))
    dist.barrier()
    if rank == 0:
        time.sleep(1)  # the others find what the first attempt left
    backend = create("again", size, rank, 10000)
    tensor = torch.ones(3)
    backend.allreduce([tensor], dist.AllreduceOptions()).wait()
    assert (tensor == size).all()


@case
def alone(rank, size):
    """Rank 0 does not make the group."""
    if rank == 1:
        expect(["rank 1 of process group \"alone\"", "rank 0 did not create it", "500 ms"],
               lambda: create("alone", size, 1, 500))


def listeners():
    """{inode: address} of the sockets of this process at which TCP connections can arrive."""
    own = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            own.add(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # the listing's own one
            pass
    found = {}
    for table in ("tcp", "tcp6"):
        with open(f"/proc/self/net/{table}", encoding="ascii") as file:
            rows = [line.split() for line in file][1:]
        found.update({row[9]: row[1].split(":")[0] for row in rows
                      if row[3] == "0A" and f"socket:[{row[9]}]" in own})
    return found


@case
def on_one_host(rank, size):
    """Rank 0 waits for the others at the loopback interface, which other hosts do not reach."""
    loopback = "0100007F"
    before = listeners()
    if rank == 1:
        store().wait(["looked"])
    maker = threading.Thread(target=create, args=("one host", size, rank, 30000))
    maker.start()
    if rank == 0:
        found = {}
        while loopback not in found.values():
            assert maker.is_alive(), "it does not listen there"
            found = {inode: at for inode, at in listeners().items() if inode not in before}
        store().set("looked", "")
    maker.join()


@case
def wrong_settings(rank, size):
    """The library refuses a variable of the environment before it makes a communicator."""
    os.environ["COLL_HANG_MS"] = "soon"
    expect(["COLL_HANG_MS", "soon"], lambda: create("wrong", 1, 0, 500, dist.HashStore()))
    del os.environ["COLL_HANG_MS"]
    create("right", 1, 0, 500, dist.HashStore())


@case
def unready(rank, size):
    """Calls that wait for another rank are not complete, and have no result."""
    if rank == 1:
        store().wait(["asked"])
    works = [dist.all_reduce(torch.ones(3), async_op=True),
             dist.irecv(torch.empty(3), 1) if rank == 0 else dist.isend(torch.ones(3), 0)]
    futures = [work.get_future() for work in works]
    if rank == 0:
        for work, future in zip(works, futures):
            assert not work.is_completed() and not work.is_success() and not future.done()
            expect(["not completed"], work.result)
        store().set("asked", "")
    for work, future in zip(works, futures):
        work.wait()
        assert work.is_completed() and work.is_success() and future.wait()[0].numel() == 3


@case
def freed(rank, size):
    """A tensor that the program drops while its call is under way lives until that has ended."""
    works = [dist.all_reduce(torch.ones(100000), async_op=True) for _ in range(20)]
    for work in works:
        work.wait()
        assert (work.result()[0] == size).all()
    count, peer = 1 << 20, 1 - rank
    works = [dist.isend(torch.full((count,), float(i)), peer) for i in range(4)]
    torch.full((4 * count,), -1.)  # takes the memory of what was freed too early
    got = [torch.empty(count) for _ in range(4)]
    works += [dist.irecv(each, peer) for each in got]
    for work in works:
        work.wait()
    assert all((each == i).all() for i, each in enumerate(got))
    work = dist.all_gather([torch.empty(count) for _ in range(size)], torch.full(
        (count,), float(rank)), async_op=True)
    gc.collect()
    work.wait()
    assert [each[5].item() for each in work.result()] == list(range(size))
    for _ in range(20):  # dropped with their works
        dist.all_reduce(torch.ones(count), async_op=True)
        dist.irecv(torch.empty(3), peer, tag=1)
        dist.isend(torch.ones(3), peer, tag=1)
    gc.collect()
    dist.barrier()


def main():
    dist.init_process_group("coll", timeout=datetime.timedelta(seconds=30))
    CASES[sys.argv[1]](dist.get_rank(), dist.get_world_size())
    os._exit(0)  # ranks of a failed group do not wait for each other


if __name__ == "__main__":
    main()

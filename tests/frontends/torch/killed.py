"""Rank 1 is killed: while the others are in a call, or when they are in none. They print how long
after its death they are told, and what (deaths.py). Run on three ranks (ranks.py) with a way."""
import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

import coll_torch
from deaths import await_end, waits
from job import cpu_backend, store

WAYS = {}
VICTIM = 1


def way(function):
    WAYS[function.__name__] = function
    return function


def exchange_pids(size):
    """Process ids of all ranks."""
    pids = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(pids, torch.tensor([os.getpid()]))
    return [int(pid) for pid in pids]


def die(waiting=()):
    """Kills this process, when those with the ids `waiting` wait in a call."""
    while not all(waits(pid, coll_torch.dump()) for pid in waiting):
        time.sleep(0.001)
    store().set("died", str(time.monotonic()))
    os.kill(os.getpid(), signal.SIGKILL)


def told(call, *words):
    """The call fails; its text names rank 1, or has the words."""
    try:
        call()
    except RuntimeError as error:
        text = str(error).split("\n", maxsplit=1)[0]
        took = time.monotonic() - float(store().get("died"))
        print(f"lost after {took:.2f} s: {text}", flush=True)
        for word in words or ("rank 1",):
            assert word in text, text
        return
    raise AssertionError("no error")


def check_group():
    """The group has failed for good, and says so."""
    try:
        dist.all_reduce(torch.ones(10))
    except RuntimeError as error:
        assert "rank 1" in str(error), error
    else:
        raise AssertionError("the group works without rank 1")
    backend = cpu_backend()
    assert not hasattr(backend, "get_error") or backend.get_error().name == "REMOTE_ERROR"


def in_a_call(rank, pids, call):
    if rank == VICTIM:
        die([pid for pid in pids if pid != os.getpid()])
    told(call)
    check_group()


@way
def blocking(rank, pids):
    in_a_call(rank, pids, lambda: dist.all_reduce(torch.ones(10)))


@way
def large(rank, pids):
    """By other algorithms."""
    in_a_call(rank, pids, lambda: dist.all_reduce(torch.ones(1 << 20)))


@way
def barrier(rank, pids):
    in_a_call(rank, pids, dist.barrier)


@way
def asynchronous(rank, pids):
    """Several calls are under way: the first fails, and the rest behind it."""
    works = [] if rank == VICTIM else [dist.all_reduce(torch.ones(10), async_op=True)
                                       for _ in range(3)]
    in_a_call(rank, pids, lambda: works[-1].wait())
    for work in works:
        told(work.wait)
        assert work.is_completed()


@way
def future(rank, pids):
    if rank != VICTIM:
        work = dist.all_reduce(torch.ones(10), async_op=True)
    in_a_call(rank, pids, lambda: work.get_future().wait())


@way
def between(rank, pids):
    """The others make their call when it is dead."""
    if rank == VICTIM:
        die()
    await_end(pids[VICTIM])
    told(lambda: dist.all_reduce(torch.ones(10)))
    check_group()


@way
def receive(rank, pids):
    """Messages of the pairs have come before. In them rank 1 is also the receiver's number."""
    for other in (0, 2):
        if rank == VICTIM:
            dist.send(torch.ones(3), other)
            dist.recv(torch.empty(3), other)
        if rank == other:
            dist.recv(torch.empty(3), VICTIM)
            dist.send(torch.ones(3), VICTIM)
    if rank == VICTIM:
        die([pids[0], pids[2]])
    for _ in range(2):
        told(lambda: dist.recv(torch.empty(3), VICTIM), "recv from rank 1 of process group")
    told(lambda: dist.send(torch.ones(1 << 20), VICTIM), "send to rank 1 of process group")


@way
def first_message(rank, pids):
    """It dies before it connects for messages: to one that receives, and to one that sends."""
    if rank == VICTIM:
        store().wait(["called 0", "called 2"])
        die()
    work = dist.irecv(torch.empty(3), VICTIM) if rank == 0 else dist.isend(torch.ones(3), VICTIM)
    store().set(f"called {rank}", "")
    told(work.wait)
    told(lambda: dist.isend(torch.ones(3), VICTIM).wait())


@way
def any_source(rank, pids):
    """A receive from any rank goes on while one is left that could send, and ends with the last."""
    if rank == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 2:
        await_end(pids[VICTIM])
        dist.send(torch.full((3,), 2.), 0)
        die([pids[0]])
    got = torch.empty(3)
    assert dist.recv(got) == 2 and (got == 2).all()
    told(lambda: dist.recv(got), "from any rank")
    told(lambda: dist.recv(got), "from any rank")


def main():
    # The limit of calls is far away: it is not what ends them.
    dist.init_process_group("coll", timeout=datetime.timedelta(seconds=600))
    WAYS[sys.argv[1]](dist.get_rank(), exchange_pids(dist.get_world_size()))
    os._exit(0)  # ranks of a failed group do not wait for each other


if __name__ == "__main__":
    main()

"""Rank 1 is killed, or raises an exception, which ends the process or a block of `with`: while the
others are in a call, on a stream, in a group or a split, or when they are in none. They print how
long after its death they are told, and what (../../deaths.py); then `checked`, when the
communicator says the same. Run with a way."""
import os
import pickle
import signal
import sys
import tempfile
import time

import coll
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from deaths import await_end, waits  # noqa: E402  pylint: disable=wrong-import-position

WAY = sys.argv[1]
VICTIM = 1
comm = coll.init()
x = np.ones(1 << 18 if WAY == "large" else 10)
comm.allreduce(x)
pids = comm.allgather(np.array(os.getpid())).tolist()
place = os.path.join(tempfile.gettempdir(), "killed-%d" % pids[0])


def await_waits():
    """Until all others wait in a call."""
    others = [pid for pid in pids if pid != os.getpid()]
    while True:
        comm.dump(place + ".table")
        with open(place + ".table", encoding="utf-8") as file:
            table = file.read()
        if all(waits(pid, table) for pid in others):
            os.unlink(place + ".table")
            return
        time.sleep(0.001)


def end():
    if WAY != "between":
        await_waits()
    with open(place + ".new", "w", encoding="utf-8") as file:
        file.write(str(time.monotonic()))
    os.rename(place + ".new", place)
    if WAY == "block":
        end_block()
    if WAY == "exception":
        raise ValueError("rank 1 has a bug")
    os.kill(os.getpid(), signal.SIGKILL)


def end_block():
    """The others are told by the end of the block: this process lives on until they are."""
    try:
        with comm:
            raise ValueError("rank 1 has a bug")
    except ValueError:
        while not all(os.path.exists("%s-%d" % (place, other)) for other in (0, 2)):
            time.sleep(0.001)
    sys.exit(0)


def make_calls():
    if WAY == "stream":
        stream = coll.Stream()
        works = [comm.allreduce(x, stream=stream) for _ in range(2)]
        try:
            stream.sync()
        except coll.RankLostError as error:
            assert error.rank == VICTIM, error.rank
        works[1].wait()
    elif WAY == "group":
        with coll.group():
            comm.allreduce(x)
    elif WAY == "split":
        comm.split(0)
    elif WAY == "receive":
        comm.recv(np.empty(10), VICTIM)
    else:
        comm.allreduce(x)


if comm.rank == VICTIM:
    end()
if WAY == "between":
    await_end(pids[VICTIM])
try:
    make_calls()
    print("no exception")
except coll.RankLostError as error:
    assert error.rank == VICTIM, error.rank
    with open(place, encoding="utf-8") as file:
        took = time.monotonic() - float(file.read())
    print("lost after %.2f s: %s" % (took, error), flush=True)
    with open("%s-%d" % (place, comm.rank), "w", encoding="utf-8"):
        pass
try:
    comm.check()
except coll.RankLostError as error:
    assert error.rank == VICTIM and pickle.loads(pickle.dumps(error)).rank == VICTIM, error.rank
    print("checked", flush=True)

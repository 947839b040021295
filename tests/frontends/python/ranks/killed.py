"""Rank 1 is killed, or raises an exception. The others report within 2 s who is gone: in a call, on
a stream, in a group or while the communicator is split."""
import os
import pickle
import signal
import sys
import time

import coll
import numpy as np

comm = coll.init()
x = np.ones(10)
comm.allreduce(x)
comm.barrier()
began = time.monotonic()
if comm.rank == 1:
    time.sleep(0.3)
    if sys.argv[1] == "exception":
        raise ValueError("rank 1 has a bug")
    os.kill(os.getpid(), signal.SIGKILL)
try:
    if sys.argv[1] == "stream":
        stream = coll.Stream()
        works = [comm.allreduce(x, stream=stream) for _ in range(2)]
        try:
            stream.sync()
        except coll.RankLostError as error:
            assert error.rank == 1, error.rank
        works[1].wait()
    elif sys.argv[1] == "group":
        with coll.group():
            comm.allreduce(x)
    elif sys.argv[1] == "split":
        comm.split(0)
    else:
        comm.allreduce(x)
    print("no exception")
except coll.RankLostError as error:
    assert error.rank == 1, error.rank
    print("lost after %.2f s: %s" % (time.monotonic() - began - 0.3, error), flush=True)
try:
    comm.check()
except coll.RankLostError as error:
    assert error.rank == 1 and pickle.loads(pickle.dumps(error)).rank == 1, error.rank
    print("checked", flush=True)

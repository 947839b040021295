"""Rank 0 waits for a rank that does not come, and gets SIGINT: KeyboardInterrupt, in the way that
the first argument names. A signal whose handler returns does not end the wait."""
import os
import signal
import sys
import threading
import time

import coll
import numpy as np

WAY = sys.argv[1]
seen = []
# A job in the background of a shell begins with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))


def signal_soon(number, seconds):
    threading.Timer(seconds, os.kill, (os.getpid(), number)).start()


comm = coll.init()
comm.allreduce(np.ones(3))
if comm.rank == 0:
    signal_soon(signal.SIGUSR1, 0.3)
    signal_soon(signal.SIGINT, 0.8)
    began = time.monotonic()
    try:
        if WAY == "call":
            comm.allreduce(np.ones(3))
        elif WAY == "stream":
            comm.allreduce(np.ones(3), stream=coll.Stream()).wait()
        elif WAY == "group":
            with coll.group():
                comm.allreduce(np.ones(3))
        elif WAY == "split":
            comm.split(0)
        elif WAY == "create":
            coll.create(coll.unique_id(), 0, 2)
    except KeyboardInterrupt:
        took = time.monotonic() - began
        assert seen == [signal.SIGUSR1], seen
        assert 0.7 < took < 2.0, took
        print("interrupted", flush=True)
    if WAY == "create":
        comm.barrier()
    os._exit(0)
if WAY == "create":
    comm.barrier()
    os._exit(0)
time.sleep(2.2)
try:
    comm.allreduce(np.ones(3))
    print("no exception")
except coll.Error as error:
    print("told: %s" % error, flush=True)
os._exit(0)

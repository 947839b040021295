"""Rank 0 waits for a rank that does not come before it is interrupted, and gets SIGINT:
KeyboardInterrupt, in the way that the first argument names. Signals whose handlers return do not
end the wait."""
import os
import signal
import sys
import tempfile
import time

import coll
import numpy as np

WAY = sys.argv[1]
HANDLED = 3  # signals whose handler has returned in the call
handled = []


def make_calls():
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


def note(number, frame):
    """A handler. It runs in rank 0's main thread, between two polls of the call."""
    if frame.f_code is make_calls.__code__:
        handled.append(number)
    if len(handled) == HANDLED:
        touch("handled")


def touch(name):
    with open(place + name, "w", encoding="utf-8"):
        pass


def await_file(name, meanwhile=lambda: None):
    while not os.path.exists(place + name):
        meanwhile()
        time.sleep(0.01)
    os.unlink(place + name)


# A job in the background of a shell begins with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGUSR1, note)
comm = coll.init()
pids = comm.allgather(np.array(os.getpid())).tolist()
place = os.path.join(tempfile.gettempdir(), "interrupt-%d-" % pids[0])
comm.barrier()
if comm.rank == 0:
    try:
        make_calls()
    except KeyboardInterrupt:
        assert len(handled) >= HANDLED, handled
        print("interrupted", flush=True)
    touch("interrupted")
    if WAY == "create":
        comm.barrier()
    else:
        await_file("told")  # it is the interrupt that ends the other rank's call
    os._exit(0)
await_file("handled", lambda: os.kill(pids[0], signal.SIGUSR1))
os.kill(pids[0], signal.SIGINT)
await_file("interrupted")
if WAY == "create":
    comm.barrier()
    os._exit(0)
try:
    comm.allreduce(np.ones(3))
    print("no exception")
except coll.Error as error:
    print("told: %s" % error, flush=True)
touch("told")
os._exit(0)

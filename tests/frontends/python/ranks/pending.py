"""Calls for which another rank has not come yet: they are not done, and a report says so. Run on
two ranks, which agree on the order by another communicator."""
import os
import sys
import tempfile
import time

import coll
import numpy as np

comm = coll.init()
other = comm.split(0)
rank = comm.rank
stream = coll.Stream()

# Neither the call nor its stream is done before rank 1 has made its half.
if rank == 1:
    other.barrier()
work = comm.allreduce(np.ones(3), stream=stream)
if rank == 0:
    assert not work.done() and not stream.done()
    other.barrier()
assert work.wait().tolist() == [2, 2, 2]
assert work.done() and stream.done()

# hang= is the time after which a call that waits is reported. Without it that takes 30 s.
place = os.path.join(tempfile.gettempdir(), "pending-%d" % comm.allgather(np.array(os.getpid()))[0])
reported = comm.split(0, hang=0.1)
if rank == 0:
    kept = os.dup(2)
    with open(place, "wb") as file:
        os.dup2(file.fileno(), 2)
other.barrier()
if rank == 1:
    text = ""
    while "rank 1" not in text:
        time.sleep(0.01)
        with open(place, encoding="utf-8") as file:
            text = file.read()
reported.barrier()
if rank == 0:
    os.dup2(kept, 2)
    os.unlink(place)
reported.close()
other.close()
stream.close()
comm.close()

"""Times a small allreduce from Python and from C, in turn in the same processes on the same arrays.
Run by bench/python-overhead and by the tests:

    python -m coll.run -n 2 python_calls.py LOOP-LIBRARY SIZES ROUNDS CALLS

LOOP-LIBRARY: what is built of python_loop.c; SIZES: bytes, as 4,1024; CALLS: per round. Rank 0
prints a JSON line for each size: medians over the rounds, in microseconds per call, where a round's
time is that of its slowest rank. "over" is the median of the differences of the rounds."""
import ctypes
import json
import statistics
import sys
import time

import coll
import numpy as np


def address(array):
    return ctypes.c_void_p(array.__array_interface__["data"][0])


def c_timer(comm, loop_path, x, out, calls):
    """A function that makes the calls in C, with the libcoll that this process has loaded."""
    loop = ctypes.CDLL(loop_path).time_allreduce
    loop.restype = ctypes.c_double
    allreduce = ctypes.cast(ctypes.CDLL(coll.library_path()).coll_allreduce, ctypes.c_void_p)
    arguments = (allreduce, ctypes.c_void_p(comm.handle), address(x), address(out),
                 ctypes.c_size_t(x.size), ctypes.c_int(calls))
    return lambda: loop(*arguments)


def python_timers(comm, x, out, calls):
    """Functions that make the calls with out=, and with a new array for each result."""
    def with_out():
        allreduce = comm.allreduce
        began = time.perf_counter()
        for _ in range(calls):
            allreduce(x, out=out)
        return (time.perf_counter() - began) / calls * 1e6

    def with_new():
        allreduce = comm.allreduce
        began = time.perf_counter()
        for _ in range(calls):
            allreduce(x)
        return (time.perf_counter() - began) / calls * 1e6
    return with_out, with_new


def measure(comm, loop_path, size, rounds, calls):
    x, out = np.ones(size // 4, "float32"), np.empty(size // 4, "float32")
    timers = (c_timer(comm, loop_path, x, out, calls), *python_timers(comm, x, out, calls))
    times = []
    for _ in range(rounds + 1):  # the first one warms up
        row = []
        for timer in timers:
            comm.barrier()
            row.append(timer())
        times.append(row)
    c, python, new = comm.allreduce(np.array(times[1:]), "max").T
    median = statistics.median
    return {"ranks": comm.size, "bytes": size, "c_us": median(c), "python_us": median(python),
            "new_us": median(new), "over_us": median(python - c), "new_over_us": median(new - c)}


def main():
    loop_path, sizes, rounds, calls = sys.argv[1:5]
    with coll.init() as comm:
        for size in map(int, sizes.split(",")):
            row = measure(comm, loop_path, size, int(rounds), int(calls))
            if comm.rank == 0:
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

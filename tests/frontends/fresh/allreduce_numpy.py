"""A sum of two ranks by the package coll. Prints "works"."""
import coll
import numpy as np

comm = coll.init()
assert comm.allreduce(np.ones(3)).tolist() == [2, 2, 2]
if comm.rank == 0:
    print("works")

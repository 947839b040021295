"""The settings of a communicator that a program gives: each of them, in each function that takes
them."""
import os

import coll
import numpy as np

os.environ.pop("COLL_TUNE", None)  # set, it would count before the program's
REFUSED = {  # what is wrong with each, and a part of the sentence
    "transports": ("pigeons", "pigeons"),
    "interfaces": ("=none_has_this_name", "none_has_this_name"),
    "host_id": ("h" * 5000, "COLL_HOST_ID"),
    "algorithms": ("allreduce=magic", "magic"),
    "tune": ("sometimes", "sometimes"),
    "create_timeout": ("soon", "must be real number"),
    "reproducible": (np.ones(2), "ambiguous"),
}


def refuses(function, **settings):
    for name, (value, part) in settings.items():
        try:
            made = function(**{name: value})
        except (coll.InvalidError, TypeError, ValueError) as error:
            assert part in str(error), (name, str(error))
        else:
            raise AssertionError("%s took %s=%r: %s" % (function, name, value, made))


def creates_alone(**settings):
    return coll.create(coll.unique_id(interfaces="=lo"), 0, 1, **settings)


def ring_of(comm):
    comm.allreduce(np.ones(4))
    return comm.algorithm("allreduce")


comm = coll.init(algorithms="allreduce=ring", transports="shm", tune="builtin")
rank, size = comm.rank, comm.size
assert ring_of(comm) == "ring"
assert comm.route(1 - rank) == "shm"

# A split has what it is given, else what its parent has.
with comm.split(0) as child:
    assert ring_of(child) == "ring"
with comm.split(0, algorithms="allreduce=allpairs") as child:
    assert ring_of(child) == "allpairs"

# Ranks that say that they are on hosts of their own.
with coll.init(host_id="host%d" % rank, interfaces="=lo", create_timeout=20) as apart:
    assert apart.route(1 - rank) == "tcp"
    assert apart.allreduce(np.ones(3)).tolist() == [size] * 3

for each in coll.local(2, algorithms="allreduce=ring"):
    each.abort()
key = comm.broadcast(bytearray(coll.unique_id(interfaces="=lo", create_timeout=20)))
with coll.create(bytes(key), rank, size, algorithms="allreduce=ring") as made:
    assert ring_of(made) == "ring"

refuses(coll.init, **REFUSED)
refuses(creates_alone, **REFUSED)
THREADS = {name: REFUSED[name] for name in REFUSED if name != "interfaces"}  # use no network
refuses(lambda **settings: coll.local(1, **settings), **THREADS)
refuses(coll.unique_id, interfaces=REFUSED["interfaces"])
refuses(lambda **settings: comm.split(rank, **settings), algorithms=REFUSED["algorithms"],
        reproducible=REFUSED["reproducible"])
for wrong in (7, b"shm", "shm\0tcp"):
    refuses(coll.init, transports=(wrong, "transports is"))
comm.barrier()
comm.close()

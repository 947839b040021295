"""Describes PyTorch's Gloo for peers_measure (measure.h): torch.distributed on tensors that are
views of the buffers. Calls that PyTorch has in place only begin with a copy to the output.

    gloo_torch.py LIBRARY OPTIONS...    LIBRARY: libpeers_measure.so; OPTIONS: as of collbench

Ranks are those of RANK and WORLD_SIZE, as collrun sets them. They find each other through a file
in the folder GLOO_STORE, which must be empty."""
import ctypes
import os
import sys

import torch
import torch.distributed as dist


class Call(ctypes.Structure):
    _fields_ = [("collective", ctypes.c_int), ("count", ctypes.c_size_t), ("root", ctypes.c_int),
                ("even", ctypes.c_bool)]


# A callback cannot return c_char_p: the text must outlive it. NULL is None.
MESSAGE = ctypes.c_void_p
SUPPORTS = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int)
CALL = ctypes.CFUNCTYPE(MESSAGE, ctypes.c_void_p, ctypes.POINTER(Call), ctypes.c_void_p,
                        ctypes.c_void_p)
BARRIER = ctypes.CFUNCTYPE(MESSAGE, ctypes.c_void_p)
MAX = ctypes.CFUNCTYPE(MESSAGE, ctypes.c_void_p, ctypes.POINTER(ctypes.c_double), ctypes.c_int)


class Library(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("rank", ctypes.c_int), ("ranks", ctypes.c_int),
                ("context", ctypes.c_void_p), ("supports", SUPPORTS), ("call", CALL),
                ("barrier", BARRIER), ("max", MAX), ("complete", ctypes.c_void_p),
                ("gpu", ctypes.c_void_p)]


def view(address, count):
    """The tensor of `count` floats at an address."""
    array = (ctypes.c_float * count).from_address(address)
    return torch.frombuffer(array, dtype=torch.float32)


class Collectives:
    """Each function takes (count, root, address of the input, of the output) and returns a
    function without arguments that makes the call."""

    def __init__(self, rank, ranks):
        self.rank, self.ranks = rank, ranks

    def allreduce(self, count, _root, send, recv):
        source, result = view(send, count), view(recv, count)
        return lambda: (result.copy_(source), dist.all_reduce(result))

    def reduce(self, count, root, send, recv):
        """Gloo uses the tensors of all ranks for partial sums."""
        source = view(send, count)
        result = view(recv, count) if self.rank == root else torch.empty(count)
        return lambda: (result.copy_(source), dist.reduce(result, root))

    def reduce_scatter(self, count, _root, send, recv):
        source, result = view(send, count * self.ranks), view(recv, count)
        return lambda: dist.reduce_scatter_tensor(result, source)

    def allgather(self, count, _root, send, recv):
        source, result = view(send, count), view(recv, count * self.ranks)
        return lambda: dist.all_gather_into_tensor(result, source)

    def broadcast(self, count, root, send, recv):
        result = view(recv, count)
        if self.rank != root:
            return lambda: dist.broadcast(result, root)
        source = view(send, count)
        return lambda: (result.copy_(source), dist.broadcast(result, root))

    def gather(self, count, root, send, recv):
        source, blocks = view(send, count), None
        if self.rank == root:
            blocks = list(view(recv, count * self.ranks).chunk(self.ranks))
        return lambda: dist.gather(source, blocks, root)

    def scatter(self, count, root, send, recv):
        result, blocks = view(recv, count), None
        if self.rank == root:
            blocks = list(view(send, count * self.ranks).chunk(self.ranks))
        return lambda: dist.scatter(result, blocks, root)

    def alltoall(self, count, _root, send, recv):
        source, result = view(send, count * self.ranks), view(recv, count * self.ranks)
        return lambda: dist.all_to_all_single(result, source)

    def barrier(self, _count, _root, _send, _recv):
        return dist.barrier


class Peer:
    """The functions of peers_library_t. An exception becomes a message."""

    def __init__(self, measure, rank, ranks):
        measure.coll_collective_name.restype = ctypes.c_char_p
        self.name_of = measure.coll_collective_name
        self.collectives = Collectives(rank, ranks)
        self.prepared = {}  # (collective, count, root, send, recv): function that makes the call
        self.message = None

    def text_of(self, error):
        self.message = ctypes.create_string_buffer(str(error).encode())
        return ctypes.addressof(self.message)

    def attempt(self, function):
        try:
            function()
            return None
        except Exception as error:  # pylint: disable=broad-except
            return self.text_of(error)

    def supports(self, _context, collective):
        return hasattr(self.collectives, self.name_of(collective).decode())

    def prepare(self, key):
        collective, *arguments = key
        make = getattr(self.collectives, self.name_of(collective).decode())
        self.prepared[key] = make(*arguments)

    def call(self, _context, call, send, recv):
        call = call.contents
        key = call.collective, call.count, call.root, send, recv
        if key not in self.prepared:
            message = self.attempt(lambda: self.prepare(key))
            if message:
                return message
        return self.attempt(self.prepared[key])

    def barrier(self, _context):
        return self.attempt(dist.barrier)

    def max(self, _context, values, count):
        array = (ctypes.c_double * count).from_address(ctypes.addressof(values.contents))
        tensor = torch.frombuffer(array, dtype=torch.float64)
        return self.attempt(lambda: dist.all_reduce(tensor, dist.ReduceOp.MAX))


def main():
    missing = [name for name in ("RANK", "WORLD_SIZE", "GLOO_STORE") if name not in os.environ]
    if missing or len(sys.argv) < 2:
        sys.exit("gloo_torch.py: start this with collrun, and an empty folder in GLOO_STORE")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = os.path.join(os.path.abspath(os.environ["GLOO_STORE"]), "store")
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
    measure = ctypes.CDLL(os.path.abspath(sys.argv[1]))
    peer = Peer(measure, rank, ranks)
    library = Library(("Gloo of PyTorch " + torch.__version__).encode(), rank, ranks, None,
                      SUPPORTS(peer.supports), CALL(peer.call), BARRIER(peer.barrier),
                      MAX(peer.max), None, None)
    words = [word.encode() for word in ["gloo_torch.py", *sys.argv[2:]]]
    code = measure.peers_measure(len(words), (ctypes.c_char_p * (len(words) + 1))(*words, None),
                                 ctypes.byref(library))
    if code == 0:
        dist.barrier()
        dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(code)  # other ranks may wait for this one forever, so it must not wait for them


if __name__ == "__main__":
    main()

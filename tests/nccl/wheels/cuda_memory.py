"""Memory and streams of GPUs through ctypes, for packages whose own do not run on the stand-ins."""
import ctypes

import numpy


class Runtime:
    """The functions of libcudart.so.13 that are needed here."""

    def __init__(self):
        self.library = ctypes.CDLL("libcudart.so.13")
        self.library.cudaGetErrorString.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            text = self.library.cudaGetErrorString(result).decode()
            raise RuntimeError("error: %s: %s" % (name, text))

    def devices(self):
        count = ctypes.c_int()
        self.call("cudaGetDeviceCount", ctypes.byref(count))
        return count.value

    def use(self, device):
        self.call("cudaSetDevice", device)

    def stream(self):
        """A stream of the thread's device that does not wait for the default stream."""
        made = ctypes.c_void_p()
        self.call("cudaStreamCreateWithFlags", ctypes.byref(made), 1)
        return made.value

    def wait(self, stream):
        self.call("cudaStreamSynchronize", ctypes.c_void_p(stream))

    def destroy(self, stream):
        self.call("cudaStreamDestroy", ctypes.c_void_p(stream))

    def upload(self, values, stream):
        """Memory of the thread's device with the values of an array."""
        memory = ctypes.c_void_p()
        self.call("cudaMalloc", ctypes.byref(memory), ctypes.c_size_t(max(values.nbytes, 1)))
        self.copy(memory.value, values.ctypes.data, values.nbytes, 1, stream)
        self.wait(stream)  # the array may be freed
        return memory.value

    def download(self, memory, count, dtype, stream):
        values = numpy.empty(count, dtype)
        self.copy(values.ctypes.data, memory, values.nbytes, 2, stream)
        self.wait(stream)
        return values

    def copy(self, dst, src, nbytes, kind, stream):
        self.call("cudaMemcpyAsync", ctypes.c_void_p(dst), ctypes.c_void_p(src),
                  ctypes.c_size_t(nbytes), kind, ctypes.c_void_p(stream))

    def free(self, memory):
        self.call("cudaFree", ctypes.c_void_p(memory))


def part_of(rank, count, dtype=numpy.float32, first=0):
    """What a rank contributes: small integers, whose sums are exact in every type."""
    values = (numpy.arange(first, first + count) % 5 + 1) * (rank % 4 + 1)
    return values.astype(dtype)


def total(size, count, dtype=numpy.float32, first=0):
    parts = [part_of(rank, count, numpy.float64, first) for rank in range(size)]
    return sum(parts).astype(dtype)


def same(found, expected, what):
    if not numpy.array_equal(found, expected):
        different = numpy.nonzero(numpy.asarray(found) != numpy.asarray(expected))[0]
        at = int(different[0])
        raise ValueError("error: %s: %d of %d elements differ, element %d is %s, not %s" % (
            what, len(different), len(found), at, found[at], expected[at]))

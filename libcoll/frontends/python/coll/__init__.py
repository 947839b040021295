"""Collective communication between processes or threads, on NumPy arrays and PyTorch tensors.

    import coll, numpy as np
    comm = coll.init()                          # under python -m coll.run -n 2 prog.py
    print(comm.allreduce(np.ones(3)))           # [2. 2. 2.]

Arrays are NumPy's, any object with the buffer protocol, or with __dlpack__ in memory of the CPU,
as PyTorch's tensors. Nothing is copied, except x that is not C-contiguous (a copy is sent) and
what is no array, as a list (numpy.asarray makes one). An array that is written must be contiguous
and writable. Results are PyTorch tensors if x is one, else NumPy arrays.

Element types: int8 to int64, uint8 to uint64, float16, float32, float64, bfloat16, float8_e4m3fn,
float8_e5m2; bool as bytes, complex64 and complex128 as pairs. NumPy has the narrow floats from the
package ml_dtypes; without it use uint16 or uint8 with dtype="bfloat16" and so on.

Errors are subclasses of coll.Error, whose text names the rank and says what to do. Its attribute
rank is the number of the rank that was lost or is missing, or None.
"""
import atexit as _atexit
import sys as _sys

import numpy as _np

from ._coll import (CallTimeoutError, Comm, Error, InternalError, InvalidError, Memory,
                    MismatchError, Op, OutOfMemoryError, RankLostError, Stream, SystemCallError,
                    UnsupportedError, Work, _close_all, create, group, init, knobs, library_path,
                    local, unique_id, version)

__all__ = ["CallTimeoutError", "Comm", "Error", "InternalError", "InvalidError", "Memory",
           "MismatchError", "Op", "OutOfMemoryError", "RankLostError", "Stream", "SystemCallError",
           "UnsupportedError", "Work", "create", "empty", "empty_like", "group", "init", "knobs",
           "library_path", "local", "unique_id", "version"]
__version__ = version()

# Bytes of the element types that NumPy has only with ml_dtypes, and their names there.
_NARROW = {"bfloat16": ("bfloat16", "uint16"), "float8_e4m3": ("float8_e4m3fn", "uint8"),
           "float8_e4m3fn": ("float8_e4m3fn", "uint8"), "float8_e5m2": ("float8_e5m2", "uint8")}


def _numpy_dtype(dtype):
    if not isinstance(dtype, str) or dtype not in _NARROW:
        return _np.dtype(dtype)
    name, unsigned = _NARROW[dtype]
    try:
        import ml_dtypes  # pylint: disable=import-outside-toplevel
    except ImportError:
        return _np.dtype(unsigned)
    return _np.dtype(getattr(ml_dtypes, name))


def empty(shape, dtype=float):
    """An array in memory that the other ranks of this machine can map, which makes large calls
    faster. It is zeroed and begins at a page. Freed when the last view of it is.

    `dtype` is NumPy's, or 'bfloat16', 'float8_e4m3' or 'float8_e5m2': an array of ml_dtypes where
    that is installed, else of uint16 or uint8. torch.from_numpy(coll.empty(...)) is a tensor in
    the same memory.

    >>> x = coll.empty((2, 3), "float32")
    >>> x.shape, x.nbytes, float(x.sum())
    ((2, 3), 24, 0.0)
    """
    dtype = _numpy_dtype(dtype)
    shape = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    count = 1
    for length in shape:
        if length < 0:
            raise InvalidError("empty: the shape %r has an axis below 0" % (shape,))
        count *= int(length)
    return _np.ndarray(shape, dtype, buffer=Memory(count * dtype.itemsize))


def empty_like(x):
    """An array as coll.empty makes it, with the shape and type of x, an array of NumPy.

    >>> import numpy as np
    >>> coll.empty_like(np.ones((2, 3), "int8")).nbytes
    6
    """
    x = _np.asanyarray(x)
    return empty(x.shape, x.dtype)


@_atexit.register
def _at_exit():
    """Closes communicators. After an exception that nobody caught they stay as they are: the exit
    of the process tells the other ranks that this one has failed."""
    _close_all(hasattr(_sys, "last_type"))

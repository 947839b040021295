"""Backend `coll` of torch.distributed: collectives of tensors of the CPU and of CUDA by libcoll.

    import coll_torch  # not needed with PyTorch 2.5 and later
    torch.distributed.init_process_group("coll")
"""
from __future__ import annotations

import operator
import os
import sys
from typing import TYPE_CHECKING

from . import built_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

__version__ = built_for.VERSION
__all__ = ["dump", "empty", "register"]


def _minor(version):
    return tuple(int(part) for part in version.split(".")[:2])


def _load():
    """The compiled part; a sentence if it is for another PyTorch than this one."""
    import torch
    wants, has = built_for.TORCH_VERSION, torch.__version__.split("+")[0]
    again = ("Install coll-torch again for this one: pip install --force-reinstall --no-deps "
             "libcoll/frontends/torch in libcoll's folder")
    if _minor(wants) != _minor(has):
        raise ImportError(f"coll_torch was compiled for PyTorch {wants}, and this is PyTorch "
                          f"{has}. {again}")
    try:
        from . import native
    except ImportError as error:
        if "undefined symbol" in str(error):
            raise ImportError(f"coll_torch was compiled for another build of PyTorch {has} than "
                              f"this one. {again}") from None
        raise ImportError(f"the compiled part of coll_torch cannot be loaded ({error}). {again}") \
            from None
    return native


def _share_buckets():
    """Lets DistributedDataParallel ask the backend for the memory of its buckets, which PyTorch has
    off by default. The variable holds for NCCL's groups, too, so it is left alone beside GPUs."""
    import torch
    if not torch.cuda.is_available():
        os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")


def _create(options, backend_options):
    native = _load()
    _share_buckets()
    timeout = options.timeout
    if getattr(backend_options, "_timeout", None) is not None:
        timeout = backend_options._timeout
    return native.create(options.store, options.group_rank, options.group_size,
                         int(timeout.total_seconds() * 1000), options.group_id or "default")


def _extents(shape):
    """The arguments of empty() as a list of int: numbers, or one sequence of them."""
    if len(shape) == 1:
        try:
            return [operator.index(shape[0])]
        except TypeError:
            shape = shape[0]
    return [operator.index(extent) for extent in shape]


def empty(*shape: int | Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
    """A CPU tensor of this shape, given as to torch.empty, in memory that the other ranks of this
    machine can map, which makes large collectives faster. It is zeroed. `dtype` is that of
    torch.get_default_dtype() if it is None. The memory is freed with the last tensor that uses it.

        coll_torch.empty(1024, 1024, dtype=torch.bfloat16)
    """
    import torch
    return _load().empty(_extents(shape), torch.get_default_dtype() if dtype is None else dtype)


def dump(group: object = None) -> str:
    """A table of what each rank of a process group does: its process and whether that runs, the
    number of its calls that are complete, the current or latest call, and the ranks that it waits
    for. It waits for no rank, and any thread may ask, also while another one is in a call. The
    other groups of this process are in it, too. `group` is the job's own one if it is None.

        print(coll_torch.dump())
    """
    import torch
    import torch.distributed as dist
    group = group or dist.distributed_c10d._get_default_group()
    # Before PyTorch 2.0 the process group is the backend.
    backend_of = getattr(group, "_get_backend", lambda device: group)
    return _load().describe(backend_of(torch.device("cpu")))


def _devices() -> list[str]:
    """The kinds of devices whose tensors the compiled part takes."""
    return ["cpu", "cuda"] if _minor(built_for.TORCH_VERSION) >= (2, 10) else ["cpu"]


def register() -> None:
    """Registers the backend with torch.distributed. Importing the package does this."""
    import torch
    import torch.distributed as dist
    if not dist.is_available() or "COLL" in dist.Backend._plugins:
        return
    # Before PyTorch 2.0 a process group has one backend, whatever the device.
    devices = {"devices": _devices()} if _minor(torch.__version__) >= (2, 0) else {}
    dist.Backend.register_backend("coll", _create, extended_api=True, **devices)


def autoload() -> None:
    """Called by PyTorch when it is imported. Never raises: a backend that cannot be used must not
    make PyTorch unusable, and its error is raised when it is asked for."""
    try:
        register()
    except Exception as error:  # pylint: disable=broad-except
        print(f"coll_torch: not registered: {error}", file=sys.stderr)


# While PyTorch is being imported, it calls autoload() at its end.
if "torch" not in sys.modules or hasattr(sys.modules["torch"], "distributed"):
    register()

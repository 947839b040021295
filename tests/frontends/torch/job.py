"""What programs on several ranks ask of their job, with all versions of PyTorch."""
import torch
import torch.distributed as dist


def store():
    """The job's own Store."""
    return dist.distributed_c10d._get_default_store()


def cpu_backend(group=None):
    """What the package registers. Before PyTorch 2.0 that is the process group itself."""
    group = group or dist.distributed_c10d._get_default_group()
    return getattr(group, "_get_backend", lambda device: group)(torch.device("cpu"))

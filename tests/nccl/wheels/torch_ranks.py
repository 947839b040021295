"""PyTorch's torch.distributed over our libnccl.so.2, compared with values that are computed on the
CPU. Ranks are processes, a GPU for each or sharing them, and threads of one process. Buffers are
filled and read through memory of the host, so that most parts need no kernels of PyTorch.

    torch_ranks.py --library PREFIX/lib/libcoll/libnccl.so.2 --ranks 2

docs/nccl.md says how to run it without a GPU."""
import importlib.util
import os
import sys

import ranks

CALLS = ["version", "all_reduce", "all_reduce_async", "all_gather", "reduce_scatter", "all_to_all",
         "broadcast_reduce", "scatter_gather", "send_recv", "batch_isend_irecv", "coalescing",
         "barrier", "objects", "new_group", "streams", "capture", "gpus_of_a_process", "mempool",
         "functional", "again"]
GROUPS = ["version", "all_reduce", "send_recv", "batch_isend_irecv", "new_group", "split_group",
          "barrier", "shrink_group", "abort"]
# PyTorch 2.15 has three implementations, of which the first is named "nccl", too. Eager: the
# communicator is made at once, and new groups are splits of it.
SESSIONS = [
    ranks.Session("calls", CALLS),
    ranks.Session("legacy", CALLS, {"RANKS_BACKEND": "nccl-legacy"}),
    ranks.Session("lazy", CALLS, {"RANKS_BACKEND": "nccl-lazy"}),
    ranks.Session("eager", GROUPS, {"RANKS_EAGER": "1"}),
    ranks.Session("legacy_eager", GROUPS, {"RANKS_EAGER": "1", "RANKS_BACKEND": "nccl-legacy"}),
    ranks.Session("nonblocking", GROUPS, {"RANKS_EAGER": "1",
                                          "TORCH_NCCL_USE_COMM_NONBLOCKING": "1"}),
    ranks.Session("legacy_nonblocking", GROUPS, {
        "RANKS_EAGER": "1", "RANKS_BACKEND": "nccl-legacy",
        "TORCH_NCCL_USE_COMM_NONBLOCKING": "1"}),
    ranks.Session("registered", ["all_reduce", "all_gather", "send_recv", "new_group"],
                  {"RANKS_EAGER": "1", "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "1"}),
    ranks.Session("models", ["ddp", "ddp_bfloat16", "zero", "fsdp", "tensor_parallel"]),
    ranks.Session("threads", ["threads_all_reduce", "threads_blocks", "threads_all_to_all",
                              "threads_send_recv", "threads_broadcast", "threads_capture"],
                  threads=True),
]


def missing():
    spec = importlib.util.find_spec("torch")
    if spec is None:
        return "torch is not installed"
    path = os.path.join(list(spec.submodule_search_locations)[0], "lib", "libtorch_cuda.so")
    return "" if os.path.exists(path) else "torch is not one for CUDA"


def run_rank(session, parts):
    """One process: of one rank, or of all if these are threads."""
    report = ranks.Report(os.environ["RANKS_REPORT"])
    if session == "threads":
        import torch_threads
        torch_threads.run(report, parts)
        return
    import torch_models
    import torch_parts
    functions = dict(torch_parts.PARTS, **torch_models.PARTS)
    if not torch_parts.has_backend():
        for part in parts:
            report.write(part, "skipped", "this PyTorch has no backend %s" % torch_parts.BACKEND)
        return
    torch_parts.start()
    for part in parts:
        if not report.run(part, functions[part]):
            # Other ranks may wait for this one.
            sys.stderr.flush()
            os._exit(1)
    torch_parts.end()


def main():
    options = ranks.arguments(__doc__, missing())
    if options.rank_of:
        run_rank(options.rank_of[0], options.rank_of[1].split(","))
        return 0
    return ranks.launch(options, os.path.abspath(__file__), SESSIONS)


if __name__ == "__main__":
    sys.exit(main())

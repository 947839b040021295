"""CuPy's cupy.cuda.nccl over our libnccl.so.2: ranks are threads of one process, which may share a
GPU. Where CuPy's runtime does not work, as on the stand-in for NVIDIA's driver, buffers are memory
of libcudart.so.13, and only the communicators are CuPy's.

    cupy_ranks.py --library PREFIX/lib/libcoll/libnccl.so.2 --ranks 4"""
import importlib.util
import os
import sys

import ranks

PARTS = ["version", "all_reduce", "blocks", "broadcast_reduce", "send_recv", "split", "init_all",
         "distributed"]
SESSIONS = [ranks.Session("cupy", PARTS, threads=True)]


def missing():
    if importlib.util.find_spec("cupy") is None:
        return "cupy is not installed"
    return ""


def run_rank(parts):
    import cupy_parts
    report = ranks.Report(os.environ["RANKS_REPORT"])
    for part in parts:
        if not report.run(part, cupy_parts.PARTS[part]):
            sys.stderr.flush()
            os._exit(1)


def main():
    options = ranks.arguments(__doc__, missing())
    if options.rank_of:
        run_rank(options.rank_of[1].split(","))
        return 0
    return ranks.launch(options, os.path.abspath(__file__), SESSIONS)


if __name__ == "__main__":
    sys.exit(main())

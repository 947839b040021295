"""vLLM's and NVIDIA's bindings of NCCL for Python over our libnccl.so.2: vLLM's pynccl_wrapper.py
alone, and nccl4py's nccl.bindings. Ranks are threads of one process; memory is libcudart's.

    bindings_ranks.py --library PREFIX/lib/libcoll/libnccl.so.2 --ranks 2"""
import importlib.util
import os
import sys

import ranks

PARTS = ["version", "all_reduce", "blocks", "broadcast_reduce", "send_recv", "window", "suspend",
         "properties", "abort"]
MODULES = {"vllm": ["vllm", "torch"], "nccl4py": ["nccl"]}


def missing(name):
    absent = [each for each in MODULES[name] if importlib.util.find_spec(each) is None]
    return "%s is not installed" % " and ".join(absent) if absent else ""


def sessions():
    """Those of the packages that are installed. A part of each has the package's name."""
    parts = {"vllm": PARTS, "nccl4py": PARTS + ["core"]}
    return [ranks.Session(name, ["%s_%s" % (name, part) if part != "version" else part
                                 for part in parts[name]], threads=True)
            for name in MODULES if not missing(name)]


def run_rank(package, parts):
    import bindings_parts
    report = ranks.Report(os.environ["RANKS_REPORT"])
    binding = bindings_parts.load(package)
    for part in parts:
        function = bindings_parts.PARTS[part.removeprefix(package + "_")]
        if not report.run(part, lambda: function(binding)):
            sys.stderr.flush()
            os._exit(1)


def main():
    absent = [text for text in map(missing, MODULES) if text]
    options = ranks.arguments(__doc__, "; ".join(absent) if len(absent) == len(MODULES) else "")
    if options.rank_of:
        run_rank(options.rank_of[0], options.rank_of[1].split(","))
        return 0
    for text in absent:
        print("skipped: %s" % text)
    return ranks.launch(options, os.path.abspath(__file__), sessions())


if __name__ == "__main__":
    sys.exit(main())

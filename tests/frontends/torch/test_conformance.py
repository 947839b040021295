"""Some of PyTorch's own tests of its backends, over backend coll on three ranks: one for each
collective, messages, groups and DDP. conformance.py runs all. Prints TAP.

    test_conformance.py PACKAGE, where PACKAGE is the folder that has coll_torch
"""
import argparse
import importlib.util
import os
import sys

sys.path.insert(0, os.path.abspath(sys.argv[1]))
sys.dont_write_bytecode = True
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import torch.distributed  # noqa: E402
import conformance  # noqa: E402

# With Gloo's name PyTorch runs the most of its tests.
OPTIONS = argparse.Namespace(backend="coll", name="gloo", world_size=3, timeout=60)
NAMES = ["test_DistributedDataParallelCPU", "test_all_gather_coalesced_complex",
         "test_all_gather_object_default_pg", "test_all_reduce_coalesced_sum",
         "test_all_reduce_product", "test_all_reduce_sum_async", "test_all_reduce_sum_complex",
         "test_barrier_timeout_full_group", "test_batch_isend_irecv_gloo_tags",
         "test_broadcast_full_group", "test_destroy_full_group", "test_gather_full_group",
         "test_irecv", "test_reduce_max", "test_scatter_complex", "test_scatter_object_list",
         "test_send_recv_any_source", "test_send_recv_with_tag"]
# Functions that PyTorch 1.13 has for its own backends only.
NAMES_SINCE_2 = ["test_get_future", "test_monitored_barrier_gloo"]


def main():
    if importlib.util.find_spec("expecttest") is None:
        print("1..0 # SKIP PyTorch's own tests need the package expecttest (PyPI: expecttest)")
        return
    tests = conformance.load(OPTIONS)
    names = NAMES + (NAMES_SINCE_2 if hasattr(torch.distributed, "_coalescing_manager") else [])
    print(f"1..{len(names)}", flush=True)
    for number, name in enumerate(names, 1):
        result, output = conformance.run(tests, name, OPTIONS.timeout)
        good = result == "pass"
        print(f"{'' if good else 'not '}ok {number} - {name}", flush=True)
        if not good:
            print(result, output[-3000:], file=sys.stderr)


if __name__ == "__main__":
    main()

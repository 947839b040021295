"""The front end for PyTorch, from the build folder: runs the programs beside this file on several
ranks: a sample of them, and all if COLL_TEST_FULL is set. Prints TAP.

    test_torch.py PACKAGE, where PACKAGE is the folder that has coll_torch
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "..", "..", "..", "libcoll", "frontends", "torch")
PACKAGE = os.path.abspath(sys.argv.pop(1))
sys.path[:0] = [PACKAGE, os.path.join(HERE, "..", "..", "bench")]
sys.dont_write_bytecode = True
import package  # noqa: E402
import ranks  # noqa: E402
import tap  # noqa: E402
import torch  # noqa: E402

FULL = bool(os.environ.get("COLL_TEST_FULL"))
SIZES = (2, 4) if FULL else (2,)
# The cases of runs that are not full: calls, messages, DDP, and what is refused.
SAMPLE = ("collectives", "sends_and_receives", "distributed_data_parallel_as_over_gloo",
          "memory_that_others_can_map", "other_version_of_pytorch", "shapes_that_differ",
          "refusals", "tensors_dropped_in_flight", "forked_process")
VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
MAKE_GROUP = """
import torch.distributed as dist
try:
    dist.init_process_group("coll", store=dist.HashStore(), rank=0, world_size=1)
    dist.barrier()
    print("works")
except ImportError as error:
    print(error)
"""


def since(major, minor, what):
    """For tests of what PyTorch has from a version on."""
    return unittest.skipIf(VERSION < (major, minor), f"PyTorch {torch.__version__} has no {what}")


def python(code, folder, **environment):
    """The output of a program that finds the packages in a folder."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100,
                          env=dict(os.environ, PYTHONPATH=folder, **environment), check=False)
    return done.stdout + done.stderr


class Torch(unittest.TestCase):
    def passes(self, size, *command):
        results = ranks.run(size, *command)
        self.assertEqual(results.codes, [0] * size, results)

    def each_size(self, *command):
        for size in SIZES:
            self.passes(size, *command)

    def fails_well(self, case, size=2):
        """A case of failures.py, whose ranks check what they are told."""
        self.passes(size, "failures", case)

    def test_collectives_on_1_rank(self):
        self.passes(1, "collectives")

    def test_collectives(self):
        self.each_size("collectives")

    def test_groups_and_objects(self):
        self.each_size("groups")

    def test_sends_and_receives(self):
        self.each_size("messages")

    def test_distributed_data_parallel_as_over_gloo(self):
        self.each_size("ddp")

    def test_communication_hooks(self):
        for hook in ("compressing_hook", "chained_hook", "powersgd_hook"):
            self.each_size("parallel", hook)

    def test_zero_redundancy_optimizer(self):
        self.each_size("parallel", "zero")

    @since(2, 0, "FSDP for Python 3.11")
    def test_fsdp(self):
        self.each_size("parallel", "fsdp")

    @since(2, 6, "fully_shard")
    def test_fsdp2(self):
        self.each_size("parallel", "fsdp2")

    @since(2, 5, "torch.distributed.tensor")
    def test_dtensor(self):
        self.each_size("parallel", "dtensor")

    def test_memory_that_others_can_map(self):
        self.passes(2, "shared")

    @since(2, 0, "torchrun for Python 3.11")
    def test_torchrun_starts_all_ranks_again(self):
        results = {}
        for kind in ("dies", "whole"):
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(
                    [sys.executable, "-m", "torch.distributed.run", "--standalone",
                     "--nproc_per_node", "2", "--max_restarts", "1", "--monitor_interval", "0.2",
                     os.path.join(HERE, "elastic.py"), folder, kind],
                    env=dict(os.environ, PYTHONPATH=PACKAGE), capture_output=True, text=True,
                    timeout=100, check=False)
                self.assertEqual(done.returncode, 0, done.stderr[-3000:])
                with open(os.path.join(folder, "result"), encoding="utf-8") as file:
                    results[kind] = file.read().split()
        attempt, step, loss = results["dies"]
        self.assertEqual((attempt, step), ("1", "3"), "the attempt, and the step it began with")
        self.assertEqual(loss, results["whole"][2])

    @since(2, 0, "torchrun for Python 3.11")
    def test_package_coll_in_the_same_process(self):
        path = PACKAGE + os.pathsep + os.path.join(PACKAGE, os.pardir, "python")
        if python("import coll; coll.init", path):
            self.skipTest("the package coll was not built, or there is no NumPy")
        together = os.path.join(HERE, os.pardir, "python", "ranks", "together.py")
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
             together, "torch"],
            env=dict(os.environ, PYTHONPATH=path), capture_output=True, text=True, timeout=100,
            check=False)
        self.assertEqual(done.stdout.split(), ["together"] * 2, done.stderr[-3000:])

    def test_other_version_of_pytorch(self):
        with tempfile.TemporaryDirectory() as folder:
            native = package.copy(PACKAGE, folder)
            path = os.path.join(folder, "coll_torch", "built_for.py")
            with open(path, encoding="utf-8") as file:
                built_for = file.read()
            with open(path, "w", encoding="utf-8") as file:
                file.write(re.sub('TORCH_VERSION = ".*"', 'TORCH_VERSION = "0.9.1"', built_for))
            text = python("import coll_torch" + MAKE_GROUP, folder)
            self.assertIn("was compiled for PyTorch 0.9.1, and this is PyTorch", text)
            self.assertIn("pip install", text)
            with open(path, "w", encoding="utf-8") as file:
                file.write(built_for)
            symbol = b"N4c10d7BackendE" if VERSION >= (2, 0) else b"N4c10d12ProcessGroupE"
            with open(native, "rb") as file:  # the same version, but without this symbol
                content = file.read()
            self.assertIn(symbol, content)
            content = content.replace(symbol, symbol.swapcase())
            with open(native, "wb") as file:
                file.write(content)
            text = python("import coll_torch" + MAKE_GROUP, folder)
            self.assertIn("compiled for another build of PyTorch", text)
            self.assertNotIn("c10d", text)

    @since(2, 5, "entry points for backends")
    def test_import_is_not_needed(self):
        """PyTorch loads the entry point of pyproject.toml from what pip writes for it."""
        with tempfile.TemporaryDirectory() as folder:
            native = package.copy(PACKAGE, folder)
            facts = os.path.join(folder, "coll_torch-0.1.0.dist-info")
            os.mkdir(facts)
            with open(os.path.join(facts, "METADATA"), "w", encoding="utf-8") as file:
                file.write("Metadata-Version: 2.1\nName: coll-torch\nVersion: 0.1.0\n")
            with open(os.path.join(SOURCES, "pyproject.toml"), encoding="utf-8") as file:
                entry = re.search(r'entry-points."(.*)"\]\n(\w+) = "(.*)"', file.read())
            with open(os.path.join(facts, "entry_points.txt"), "w", encoding="utf-8") as file:
                file.write(f"[{entry[1]}]\n{entry[2]} = {entry[3]}\n")
            self.assertEqual(python(MAKE_GROUP, folder, TORCH_DEVICE_BACKEND_AUTOLOAD="1"),
                             "works\n")
            with open(native, "w", encoding="utf-8") as file:
                file.write("A damaged package harms nobody who does not ask for it.\n")
            text = python("import torch; print(torch.ones(1))" + MAKE_GROUP, folder,
                          TORCH_DEVICE_BACKEND_AUTOLOAD="1")
            self.assertIn("tensor([1.])", text)
            self.assertIn("cannot be loaded", text)

    def test_limit_of_a_receive_names_its_rank(self):
        self.fails_well("silent_peer")

    def test_store_that_vanishes(self):
        self.fails_well("vanished")

    def test_shapes_that_differ(self):
        self.fails_well("shapes")

    def test_refusals(self):
        self.passes(2, "refusals")

    def test_call_with_a_limit_of_its_own(self):
        self.fails_well("late")

    def test_limits_of_waits(self):
        self.fails_well("impatient")

    def test_limit_that_is_set_later(self):
        self.fails_well("shortened")

    def test_limit_of_a_group_names_the_missing_rank(self):
        self.fails_well("limit", 3)

    def test_monitored_barrier_names_the_missing_rank(self):
        self.fails_well("missing", 3)

    def test_monitored_barrier_names_all_missing_ranks(self):
        self.fails_well("all_missing", 3)

    def test_forked_process(self):
        self.fails_well("forked")

    def test_group_that_is_ended_in_a_callback(self):
        self.fails_well("ended_in_callback")

    @since(2, 0, "abort of a backend")
    def test_abort(self):
        self.fails_well("aborted")

    @since(2, 0, "abort of a backend")
    def test_abort_ends_messages(self):
        self.fails_well("aborted_messages")

    @since(2, 6, "shutdown of a backend")
    def test_calls_after_the_end(self):
        self.fails_well("shut_down")

    def test_calls_that_are_not_complete(self):
        self.fails_well("unready")

    def test_group_that_rank_0_does_not_make(self):
        self.fails_well("alone")

    def test_rendezvous_on_one_host(self):
        self.fails_well("on_one_host")

    def test_group_that_is_made_at_the_second_attempt(self):
        self.fails_well("retried")

    def test_wrong_variable_of_the_environment(self):
        self.fails_well("wrong_settings")

    def test_tensors_dropped_in_flight(self):
        self.fails_well("freed")


if __name__ == "__main__":
    for each in dir(Torch):
        if each.startswith("test_") and each[5:] not in SAMPLE and not FULL:
            delattr(Torch, each)
    tap.run()

"""Runs PyTorch's own tests of its backends, torch.testing._internal.distributed.distributed_test,
with backend coll, and lists what passes beside another backend's list.

    conformance.py RESULTS [--backend coll] [--world-size 3] [--only PATTERN] [--seconds LIMIT]
                   [--as gloo] [--larger RESULTS] [--against RESULTS_OF_GLOO]

RESULTS gets a line `STATUS NAME REASON` per test: pass, skip, FAIL, CRASH or TIMEOUT, and why it
was skipped; the output of a test that did not pass goes to RESULTS.NAME. Tests that RESULTS has
already are not run again, and no test begins after LIMIT seconds, so the list can be run in parts.
With --as gloo, the tests are those that PyTorch has for the backend of that name, and --backend is
what they get when they ask for it. With --larger, only the tests are run that those results of
fewer ranks skip for their number. With --against, prints the tests that pass there and not here,
and the exit code is 1 if there are any. conformance_table.py makes a table of several RESULTS.

PyTorch is imported once and every test runs in forked processes: importing it takes longer than a
test, and PyTorch's own runner does so in each rank of each test. The tests need the package
expecttest."""
import argparse
import inspect
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
import unittest

NEEDS_RANKS = "world ?size|small_worldsize"


def substitute(dist, name, backend):
    """Process groups of the backend `name` are made with `backend`."""
    def replaced(function):
        signature = inspect.signature(function)

        def call(*args, **kwargs):
            bound = signature.bind(*args, **kwargs)
            if bound.arguments.get("backend") == name:
                bound.arguments["backend"] = backend
            return function(*bound.args, **bound.kwargs)
        return call
    for function in ("init_process_group", "new_group"):
        setattr(dist, function, replaced(getattr(dist, function)))


def without_replicated_tensors():
    """The tests of PyTorch 1.13 switch on a part of DDP that Python 3.11 cannot import."""
    try:
        from torch.nn.parallel import _replicated_tensor_ddp_utils as switch
    except ImportError:
        return
    switch._set_ddp_with_replicated_tensor = lambda value: None


def load(options):
    """The class of tests. The module reads these variables when it is imported."""
    name = options.name or options.backend
    os.environ.update(BACKEND=name, WORLD_SIZE=str(options.world_size),
                      OMP_NUM_THREADS="1", TEMP_DIR=tempfile.gettempdir(),
                      DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(options.timeout))
    import torch.distributed as dist
    from torch.testing._internal import common_distributed
    if options.backend == "coll":
        import coll_torch  # noqa: F401  pylint: disable=unused-import
        for feature in ("ddp", "subgroup", "plugin"):
            common_distributed.DistTestCases.backend_feature[feature].add("coll")
    from torch.testing._internal.distributed import distributed_test
    without_replicated_tensors()
    if name != options.backend:
        substitute(dist, name, options.backend)

    class TestBackend(distributed_test.TestDistBackend,
                      distributed_test.DistributedTest._DistTestBase):
        crashed = []

        def setUp(self):
            super().setUp()
            self._start_processes(multiprocessing.get_context("fork").Process)

        def _check_return_codes(self, *arguments):
            # The original looks at the first rank's alone. SIGTERM is its own.
            codes = [process.exitcode for process in self.processes]
            self.crashed.extend(code for code in codes
                                if code and code < 0 and code != -signal.SIGTERM)
            super()._check_return_codes(*arguments)

    return TestBackend


def run_here(tests, name, scratch):
    """Runs a test in this process; its output goes to scratch/output. Returns its status, and the
    reason if it was skipped."""
    output = os.open(os.path.join(scratch, "output"), os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ["TEMP_DIR"] = scratch
    tempfile.tempdir = scratch
    test = tests(name)
    result = unittest.TextTestRunner(verbosity=2).run(test)
    if tests.crashed:
        return f"CRASH signals {tests.crashed}"
    if not result.wasSuccessful():
        return "FAIL"
    return "skip " + result.skipped[0][1] if result.skipped else "pass"


def run(tests, name, timeout):
    """The status (with the reason of a skip) and the output of a test."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        child = os.fork()
        if child == 0:
            os.setsid()
            status = "CRASH"
            try:
                status = run_here(tests, name, scratch)
            finally:
                with open(os.path.join(scratch, "status"), "w", encoding="utf-8") as file:
                    file.write(status)
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(0)
        deadline = time.monotonic() + timeout
        done = 0
        while done == 0 and time.monotonic() < deadline:
            done, _ = os.waitpid(child, os.WNOHANG)
            time.sleep(0.02)
        try:
            os.killpg(child, signal.SIGKILL)  # also what a test has left running
        except ProcessLookupError:
            pass
        if done == 0:
            os.waitpid(child, 0)
        with open(os.path.join(scratch, "output"), encoding="utf-8", errors="replace") as file:
            text = file.read()
        if done == 0:
            return "TIMEOUT", text
        with open(os.path.join(scratch, "status"), encoding="utf-8") as file:
            return file.read(), text


def read(path):
    """{name: (status, reason)} of a file of results."""
    results = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                status, name, reason = (line.rstrip("\n") + "  ").split(" ", 2)
                results[name] = (status, reason.strip())
    return results


def write(path, name, result, output):
    """Adds a line to the results, and the output if the test has not passed."""
    status, _, reason = result.partition(" ")
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{status} {name} {' '.join(reason.split())}".rstrip() + "\n")
    if status not in ("pass", "skip"):
        with open(f"{path}.{name}", "w", encoding="utf-8") as file:
            file.write(output)
    return status, reason


def chosen(tests, options):
    """The names of the tests to run."""
    names = [name for name in sorted(dir(tests)) if name.startswith("test_")]
    if options.larger:
        fewer = read(options.larger)
        names = [name for name in names if fewer.get(name, ("",))[0] == "skip" and
                 re.search(NEEDS_RANKS, fewer[name][1])]
    return [name for name in names if re.search(options.only, name)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("results")
    parser.add_argument("--backend", default="coll")
    parser.add_argument("--as", dest="name")
    parser.add_argument("--world-size", type=int, default=3)
    parser.add_argument("--timeout", type=int, default=60)
    parser.add_argument("--seconds", type=int, default=10 ** 6)
    parser.add_argument("--only", default=".")
    parser.add_argument("--larger")
    parser.add_argument("--against")
    options = parser.parse_args()
    done = read(options.results)
    tests = load(options)
    begin = time.monotonic()
    left = [name for name in chosen(tests, options) if name not in done]
    while left and time.monotonic() - begin < options.seconds:
        name = left.pop(0)
        done[name] = write(options.results, name, *run(tests, name, options.timeout))
    statuses = [status for status, _ in done.values()]
    counts = {status: statuses.count(status) for status in sorted(set(statuses))}
    print(counts, f"{len(left)} left" if left else "complete")
    other = read(options.against) if options.against else {}
    worse = [name for name in done
             if other.get(name, ("",))[0] == "pass" and done[name][0] != "pass"]
    for name in worse:
        print(*done[name][:1], f"{name}, which passes in {options.against}:", done[name][1])
    sys.exit(bool(worse))


if __name__ == "__main__":
    main()

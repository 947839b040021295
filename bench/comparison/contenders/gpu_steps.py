"""The steps that decide whether libcoll is right on the GPUs here. Each returns a Result, of which
`figures` are documents for the results, and `shown` is a table for the screen."""
import collections
import os
import re
import shutil
import signal
import time

from comparison.launch import end_group

PASS, FAIL, SKIP = "pass", "FAIL", "-"
Result = collections.namedtuple("Result", "outcome note figures shown", defaults=(None, ""))

# All but those of blocks of different sizes, which GPUs do not have.
COLLECTIVES = ("allreduce,reduce,reduce_scatter,allgather,broadcast,gather,scatter,alltoall,"
               "alltoallv,barrier,sendrecv")
COUNTS = "0,1,3,1001,65537,1048583"
ALL_COUNTS = "1,1001,65537"  # where there are many combinations
VIRTUAL_COUNTS = "0,1,1001"
VIRTUAL_ALL_COUNTS = "257"
SANITIZER_SECONDS = 20  # for each of its tools
EXIT_SECONDS = 2.0  # after which the ranks of a job must have noticed that one was killed


def reason(out, err):
    """The line that says most: of a rank's own failure, not of what it means for others."""
    lines = [line for line in (err.strip() or out).splitlines() if line.strip()]
    ranks = [line for line in lines if re.match(r"\S+: rank \d+: .", line)]
    own = [line for line in ranks if "the communicator has failed" not in line]
    return (own or ranks or lines or [""])[0]


def failure(code, out, err, limit):
    if code is None:
        return Result(FAIL, "did not end within %d s" % limit)
    return Result(FAIL, "exit code %s: %s" % (code, reason(out, err)))


def rows_of(out):
    """Numbers of rows in the lines of --print brief."""
    return sum(int(match.group(1)) for match in
               re.finditer(r"^  [a-z_]+ +\S+ +(\d+) +\d+ ", out, re.MULTILINE))


def run_exact(machine, command, limit, one_gpu):
    """Runs collbench, which checks every element."""
    limit = machine.limit(limit)
    code, out, err = machine.run(command, limit, one_gpu)
    if code != 0 or not re.search(r"^# Wrong elements *: 0 OK$", out, re.MULTILINE):
        return failure(code, out, err, limit)
    return Result(PASS, "%d rows" % rows_of(out))


def combine(results):
    for name, result in results:
        if result.outcome == FAIL:
            return Result(FAIL, "%s: %s" % (name, result.note))
    return Result(PASS, "; ".join("%s: %s" % pair for pair in
                                  ((name, result.note) for name, result in results)))


def exact_words(machine, ranks):
    counts = VIRTUAL_COUNTS if machine.standin else COUNTS
    few = VIRTUAL_ALL_COUNTS if machine.standin else ALL_COUNTS
    brief = ["-n", "0", "--print", "brief"]
    algorithms = [COLLECTIVES, "--algo", "all", "--counts", counts, *brief]
    types = ["allreduce,reduce_scatter,reduce", "-d", "all", "-o", "all", "--counts", few, *brief]
    every = types + ["--algo", "all"]
    return [("algorithms", algorithms), ("dtypes and ops", types)] + (
        [] if machine.standin or ranks > 2 else [("all of these", every)])


def exact(machine, ranks, one_gpu):
    """All collectives, algorithms, dtypes and operations, in place and not; ranks as threads. Every
    algorithm with every dtype and operation is some 20,000 rows, so only 2 ranks run those."""
    results = []
    for name, words in exact_words(machine, ranks):
        result = run_exact(machine, machine.collbench(*words, "-g", ranks), 120, one_gpu)
        results.append((name, result))
        if result.outcome == FAIL:
            break
    return combine(results)


def exact_processes(machine, ranks, one_gpu):
    """The same with a process for each rank. On one GPU the copy engines carry out the calls."""
    results = []
    for name, words in exact_words(machine, ranks)[:2]:
        command = machine.collrun(ranks, machine.collbench(*words, "--mem", "cuda"))
        result = run_exact(machine, command, 120, one_gpu)
        results.append((name, result))
        if result.outcome == FAIL:
            break
    return combine(results)


def hosts(machine, ranks, one_gpu):
    """Processes of two hosts, which are this one by two names: calls go through the host. Also in
    graphs, which tell it of their calls with each launch."""
    few = VIRTUAL_ALL_COUNTS if machine.standin else "0,1001,2097153"
    launches = ["allreduce,alltoall,sendrecv", "--sizes", "64,8M", "-n", 3, "-G",
                5 if machine.standin else 100, "--print", "brief"]
    results = []
    for name, words in (("calls", [COLLECTIVES, "--counts", few, "-n", 2, "--print", "brief"]),
                        ("graphs", launches)):
        command = machine.collrun(ranks, [
            "sh", "-c", 'COLL_HOST_ID=host$((RANK * 2 / WORLD_SIZE)) exec "$@"', "-",
            *machine.collbench(*words, "--mem", "cuda", "--check", 1)])
        result = run_exact(machine, command, 60, one_gpu)
        if result.outcome == FAIL and "without libsodium" in result.note:
            return Result(SKIP, "a build without libsodium serves one host")
        results.append((name, result))
        if result.outcome == FAIL:
            break
    return combine(results)


def graphs(machine, ranks, one_gpu):
    """Captured calls, replayed 1,000 times, between checked ones."""
    launches, calls = (100, 10) if not machine.standin else (5, 3)
    words = ["allreduce,allgather,reduce_scatter,alltoall,broadcast", "--sizes", "64,64K,1M",
             "--print", "brief", "-n", calls, "-G", launches, "-g", ranks]
    return run_exact(machine, machine.collbench(*words), 60, one_gpu)


def registered(machine, ranks, one_gpu):
    words = ["allreduce,allgather", "--mem", "cuda-coll", "-R", "--sizes", "64,1M", "-n", "0",
             "--print", "brief", "-g", ranks]
    return run_exact(machine, machine.collbench(*words), 60, one_gpu)


def abort(machine, ranks, one_gpu):
    """A rank aborts while the kernels of the others wait for it."""
    limit = machine.limit(30)
    code, out, err = machine.run([machine.path("bench/gpu_abort"), str(ranks)], limit, one_gpu)
    if code != 0:
        return failure(code, out, err, limit)
    took_ms = float(out)
    outcome = PASS if took_ms < 1e3 * EXIT_SECONDS else FAIL
    return Result(outcome, "the others returned after %.1f ms" % took_ms)


def children_of(parent):
    """Process ids of a process' children, in the order in which they were started."""
    try:
        with open("/proc/%d/task/%d/children" % (parent, parent)) as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def wait_for_children(process, count):
    for _ in range(100):
        found = children_of(process.pid)
        if len(found) >= count or process.poll() is not None:
            return found
        time.sleep(0.1)
    return []


def kill_one(machine, ranks, one_gpu):
    """kill -9 of a rank in the middle of calls: the others end, and no memory of a GPU is lost."""
    before = machine.used_bytes()
    words = ["allreduce", "--sizes", "1M", "-n", "0", "-c", "1000000", "--mem", "cuda"]
    process = machine.start(machine.collrun(ranks, machine.collbench(*words)), one_gpu)
    try:
        children = wait_for_children(process, ranks)
        time.sleep(3 if not machine.standin else 1.5)
        if process.poll() is not None or len(children) < ranks:
            _, err = process.communicate(timeout=10)
            return Result(FAIL, "the ranks ended early: " + reason("", err))
        os.kill(children[-1], signal.SIGKILL)
        begin = time.monotonic()
        process.communicate(timeout=machine.limit(20))
        took = time.monotonic() - begin
    except Exception as error:  # whatever happened, the ranks must not stay
        end_group(process)
        process.communicate()
        return Result(FAIL, "after the kill: %s" % error)
    if took > EXIT_SECONDS:
        return Result(FAIL, "the others needed %.1f s" % took)
    time.sleep(0.5)
    after = machine.used_bytes()
    lost = [b - a for a, b in zip(before, after)]
    if any(mebibytes > 64 for mebibytes in lost):
        return Result(FAIL, "GPU memory is still in use: %s MiB more than before" % lost)
    return Result(PASS, "the others ended after %.2f s%s" % (took, ", no GPU memory lost"
                                                           if after else ""))


def sanitizer(machine, ranks, one_gpu):
    """compute-sanitizer: accesses outside memory, and barriers that not all threads reach."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if machine.standin or not os.path.exists(tool):
        return Result(SKIP, "compute-sanitizer is not installed" if not machine.standin else
                      "the tests run under ThreadSanitizer and AddressSanitizer instead")
    results = []
    for kind in ("memcheck", "synccheck"):
        command = [tool, "--tool", kind, "--error-exitcode", "9",
                   *machine.collbench(COLLECTIVES, "--counts", "1001", "-n", "0", "-g", ranks)]
        limit = machine.limit(SANITIZER_SECONDS)
        code, out, err = machine.run(command, limit, one_gpu)
        if code is None:
            results.append((kind, Result(PASS, "not decided within %d s: the tool may run one "
                                               "kernel at a time" % limit)))
        elif code == 0:
            results.append((kind, Result(PASS, "no errors")))
        else:
            results.append((kind, failure(code, out, err, limit)))
    return combine(results)

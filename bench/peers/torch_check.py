"""Whether torch.distributed of PyTorch gets right results from a libnccl.so.2, with ranks that are
processes, on one GPU unless there are several. With --device cpu from gloo instead, which shows
that this program is right.

    torch_check.py --library LIBDIR/libcoll/libnccl.so.2
    torch_check.py --device cpu --ranks 4
    torch_check.py --device cpu --only ddp,destroy --json     one JSON object a check

A check that fails is shown with what its rank printed. Exit codes: 0, 1 something failed, 2 the
command line is wrong, 3 there is no PyTorch, or no GPU that it can use."""
import argparse
import copy
import ctypes
import datetime
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time

PASS, FAIL, SKIP, BEGIN = "pass", "FAIL", "-", "begin"
NOTHING_HERE = 3
CAPTURE_REFUSED = "cannot be captured into a graph"  # by the executor that serves a shared GPU
GRACE_SECONDS = 5   # for the ranks that are left when one has failed
CALL_SECONDS = 20   # of torch.distributed's own time limit
PRINTED_LINES = 12  # of a rank's standard error
STEPS = 3           # of the training; and replays of a graph


class Wrong(Exception):
    """A result is not what it should be. The communicator still works."""


class NotHere(Exception):
    """The check says nothing on this device."""


# ---- checks, in a rank ---------------------------------------------------------------------------

class Rank:
    """What a check needs of PyTorch. A check returns what is worth a note."""

    def __init__(self, options):
        import torch
        import torch.distributed
        self.torch, self.dist = torch, torch.distributed
        self.index, self.size, self.library = options.rank, options.ranks, options.library
        self.is_cuda, self.store = options.device == "cuda", options.store
        self.device = torch.device("cpu")

    def open(self):
        """Returns why nothing can be checked here, or None."""
        if self.is_cuda:
            if not self.torch.cuda.is_available():
                return "PyTorch %s can use no GPU" % self.torch.__version__
            self.device = self.torch.device("cuda", self.index % self.torch.cuda.device_count())
            self.torch.cuda.set_device(self.device)
        self.dist.init_process_group(
            "nccl" if self.is_cuda else "gloo", init_method="file://" + self.store,
            rank=self.index, world_size=self.size,
            timeout=datetime.timedelta(seconds=CALL_SECONDS))
        return None

    def tensor(self, values, dtype=None):
        return self.torch.tensor(values, dtype=dtype or self.torch.float32, device=self.device)

    def expect(self, found, values, what):
        expected = self.tensor(values, found.dtype)
        if found.shape != expected.shape or not bool((found == expected).all()):
            raise Wrong("%s: %s instead of %s" % (what, found.tolist()[:8], expected.tolist()[:8]))


def library_of(symbol):
    """The file that has the function which PyTorch's libraries find first, as those that were
    preloaded come before all others; None if none is preloaded. A wheel's own one is mapped too."""
    try:
        address = ctypes.cast(getattr(ctypes.CDLL(None), symbol), ctypes.c_void_p).value
    except AttributeError:
        return None
    with open("/proc/self/maps") as maps:
        for line in maps:
            words = line.split(None, 5)
            begin, end = (int(word, 16) for word in words[0].split("-"))
            if begin <= address < end:
                return words[5].strip()
    return None


def check_library(rank):
    """That PyTorch uses the library that is to be checked."""
    if not rank.is_cuda:
        raise NotHere("gloo is inside PyTorch")
    found = library_of("ncclGetVersion")
    if rank.library and found != os.path.realpath(rank.library):
        raise Wrong("PyTorch calls %s instead" % (found or "a libnccl.so.2 of its own"))
    return "PyTorch %s, NCCL %s" % (rank.torch.__version__,
                                    ".".join(map(str, rank.torch.cuda.nccl.version())))


def check_allreduce(rank):
    total = rank.size * (rank.size + 1) // 2
    for dtype in (rank.torch.float32, rank.torch.bfloat16, rank.torch.int64):
        for count in (1, 1000, 100003):
            values = rank.tensor([rank.index + 1] * count, dtype)
            rank.dist.all_reduce(values)
            rank.expect(values, [total] * count, "%d of %s" % (count, dtype))
    return ""


def make_model(torch):
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))


def check_ddp(rank):
    """Gradients of the ranks' parts of a batch, averaged, are those of the whole in one process."""
    torch = rank.torch
    alone = make_model(torch).to(rank.device)
    shared = torch.nn.parallel.DistributedDataParallel(
        copy.deepcopy(alone), device_ids=[rank.device.index] if rank.is_cuda else None)
    worst = 0.0
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        whole = torch.randn(8 * rank.size, 32, generator=generator).to(rank.device)
        part = whole[8 * rank.index:8 * (rank.index + 1)]
        for model, inputs in ((alone, whole), (shared, part)):
            model.zero_grad()
            model(inputs).square().mean().backward()
        for one, other in zip(alone.parameters(), shared.parameters()):
            worst = max(worst, float((one.grad - other.grad).abs().max() / one.grad.abs().max()))
            with torch.no_grad():
                one -= 0.1 * one.grad
                other -= 0.1 * other.grad
        if not worst < 1e-4:
            raise Wrong("step %d: gradients differ by %.2g of the largest" % (step, worst))
    return "%d steps, gradients differ by %.1g at most" % (STEPS, worst)


def check_all_to_all(rank):
    """all_to_all_single: equal parts, and parts of 1 + (the sum of both ranks) elements."""
    index, everyone = rank.index, range(rank.size)
    for name, count in (("equal", lambda a, b: 3), ("unequal", lambda a, b: 1 + a + b)):
        sent = [100 * index + peer for peer in everyone for _ in range(count(index, peer))]
        taken = [100 * peer + index for peer in everyone for _ in range(count(peer, index))]
        output = rank.tensor([-1] * len(taken))
        rank.dist.all_to_all_single(output, rank.tensor(sent),
                                    [count(peer, index) for peer in everyone],
                                    [count(index, peer) for peer in everyone])
        rank.expect(output, taken, name + " parts")
    return ""


def check_batch(rank):
    """batch_isend_irecv: to the next rank and to the one before, each in one batch."""
    dist, size = rank.dist, rank.size
    after, before = (rank.index + 1) % size, (rank.index - 1) % size
    for count in (1, 10007):
        sent = [rank.tensor([10 * rank.index + way] * count) for way in range(2)]
        taken = [rank.tensor([-1] * count) for _ in range(2)]
        requests = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, sent[0], after), dist.P2POp(dist.irecv, taken[0], before),
            dist.P2POp(dist.isend, sent[1], before), dist.P2POp(dist.irecv, taken[1], after)])
        for request in requests:
            request.wait()
        rank.expect(taken[0], [10 * before] * count, "from the rank before")
        rank.expect(taken[1], [10 * after + 1] * count, "from the next rank")
    return ""


def all_texts(error):
    """Of an exception and those behind it: the end of a capture that failed raises another one."""
    while error is not None:
        yield str(error)
        error = error.__context__


def check_capture(rank):
    """An allreduce in a CUDA graph; an executor that has none must say so."""
    torch, dist = rank.torch, rank.dist
    if not rank.is_cuda:
        raise NotHere("graphs are CUDA's")
    group = dist.new_group()  # whose communicator is made by the first call, which is not captured
    values = rank.tensor([1.0] * 1000)
    dist.all_reduce(values, group=group)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            dist.all_reduce(values, group=group)
    except Exception as error:
        for text in all_texts(error):
            if CAPTURE_REFUSED in text:
                return "refused as it should be: " + next(
                    line for line in text.splitlines() if CAPTURE_REFUSED in line).strip()
        raise
    for replay in range(STEPS):
        values.fill_(rank.index + replay)
        graph.replay()
        torch.cuda.synchronize()
        total = rank.size * (rank.size - 1) // 2 + rank.size * replay
        rank.expect(values, [total] * 1000, "replay %d" % replay)
    return "%d replays" % STEPS


def check_destroy(rank):
    begin = time.monotonic()
    rank.dist.destroy_process_group()
    if rank.dist.is_initialized():
        raise Wrong("the process group is still there")
    return "after %.1f s" % (time.monotonic() - begin)


CHECKS = {"library": check_library, "allreduce": check_allreduce, "ddp": check_ddp,
          "all_to_all": check_all_to_all, "batch_isend_irecv": check_batch,
          "capture": check_capture, "destroy": check_destroy}


def emit(check, outcome, note=""):
    print(json.dumps({"check": check, "outcome": outcome, "note": note}), flush=True)


def run_check(rank, name):
    emit(name, BEGIN)
    try:
        emit(name, PASS, CHECKS[name](rank))
    except NotHere as reason:
        emit(name, SKIP, str(reason))
    except Wrong as wrong:
        emit(name, FAIL, str(wrong))


def run_rank(options):
    rank, name = Rank(options), "start"
    try:
        emit(name, BEGIN)
        reason = rank.open()
        emit(name, SKIP if reason else PASS, reason or "")
        if reason:
            return NOTHING_HERE
        for name in options.only:
            run_check(rank, name)
    except Exception as error:
        print(error, file=sys.stderr, flush=True)
        emit(name, FAIL, "%s: %s" % (type(error).__name__, (str(error).splitlines() or [""])[0]))
        os._exit(1)  # what the failed communicator has begun may not end
    return 0


# ---- the ranks' parent ---------------------------------------------------------------------------

def rank_environment(options):
    environment = dict(os.environ, OMP_NUM_THREADS="1", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    environment.setdefault("NCCL_DEBUG", "WARN")
    if options.library:
        others = environment.get("LD_PRELOAD", "")
        environment["LD_PRELOAD"] = options.library + (":" + others if others else "")
    return environment


def rank_command(options, rank, store):
    return [sys.executable, os.path.abspath(__file__), "--rank", str(rank), "--store", store,
            "--ranks", str(options.ranks), "--device", options.device,
            "--only", ",".join(options.only),
            *(["--library", options.library] if options.library else [])]


def wait_for_all(processes, seconds):
    """Returns then at the latest, and some time after one has failed."""
    limit = time.monotonic() + seconds
    while any(process.poll() is None for process in processes):
        if any(process.poll() not in (None, 0) for process in processes):
            limit = min(limit, time.monotonic() + GRACE_SECONDS)
        if time.monotonic() > limit:
            return
        time.sleep(0.05)


def read_lines(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def read_rank(folder, rank, code):
    """{check: (outcome, note, lines that it printed)} of a rank; one that it was in when it ended
    has failed."""
    errors = [line for line in read_lines(os.path.join(folder, "err.%d" % rank)) if line.strip()]
    found = {}
    for line in read_lines(os.path.join(folder, "out.%d" % rank)):
        if line.startswith('{"check"'):
            row = json.loads(line)
            found[row["check"]] = (row["outcome"], row["note"], errors[-PRINTED_LINES:])
    for check, (outcome, _, printed) in found.items():
        if outcome == BEGIN:
            how = "was ended here" if code is None or code == -9 else "exit code %d" % code
            found[check] = (FAIL, how, printed)
    return found or {"start": (FAIL, "exit code %s" % code, errors[-PRINTED_LINES:])}


def merge(checks, ranks):
    """A row for each check: it passed if it did on all ranks."""
    for check in ["start", *checks]:
        found = [(rank, *results[check]) for rank, results in enumerate(ranks) if check in results]
        failed = [each for each in found if each[1] == FAIL]
        # One that was waiting for another says least.
        failed.sort(key=lambda each: each[2] == "was ended here")
        if failed:
            rank, outcome, note, printed = failed[0]
            yield {"check": check, "outcome": FAIL, "note": "rank %d: %s" % (rank, note),
                   "printed": printed}
        elif not found:
            yield {"check": check, "outcome": SKIP, "note": "not run"}
        elif check != "start" or found[0][1] == SKIP:
            yield {"check": check, "outcome": found[0][1], "note": found[0][2]}


def run_ranks(commands, environment, checks, seconds, folder):
    """The rows of merge()."""
    processes = []
    for rank, command in enumerate(commands):
        with open(os.path.join(folder, "out.%d" % rank), "w") as out, \
                open(os.path.join(folder, "err.%d" % rank), "w") as err:
            processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                              stderr=err, env=environment))
    try:
        wait_for_all(processes, seconds)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return list(merge(checks, [read_rank(folder, rank, process.returncode)
                               for rank, process in enumerate(processes)]))


def show(row, as_json):
    if as_json:
        print(json.dumps(row), flush=True)
        return
    print("%-18s %-4s  %s" % (row["check"], row["outcome"], row["note"]), flush=True)
    for line in row.get("printed", []):
        print("    " + line)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: gloo (cuda)")
    add("--library", help="the libnccl.so.2, which is preloaded")
    add("--ranks", type=int, default=2, help="number of processes (2)")
    add("--only", default=",".join(CHECKS), type=lambda text: text.split(","),
        help="a list of %s" % ", ".join(CHECKS))
    add("--seconds", type=float, default=60, help="time limit (60)")
    add("--json", action="store_true", help="print a JSON object for each check")
    add("--rank", type=int, help=argparse.SUPPRESS)  # of those that this program starts
    add("--store", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for check in options.only:
        if check not in CHECKS:
            parser.error("--only %s: there are %s" % (check, ", ".join(CHECKS)))
    if options.ranks < 1:
        parser.error("--ranks %d: at least 1" % options.ranks)
    if options.library and not re.search(r"\.so\b", os.path.basename(options.library)):
        parser.error("--library %s: not a shared library" % options.library)
    return options


def main():
    options = parse_arguments()
    if options.rank is not None:
        return run_rank(options)
    if importlib.util.find_spec("torch") is None:
        print("torch_check: %s has no PyTorch" % sys.executable, file=sys.stderr)
        return NOTHING_HERE
    if options.library and not os.path.exists(options.library):
        print("torch_check: %s does not exist" % options.library, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        rows = run_ranks([rank_command(options, rank, store) for rank in range(options.ranks)],
                         rank_environment(options), options.only, options.seconds, folder)
    if rows[0]["check"] == "start" and rows[0]["outcome"] == SKIP:
        print("torch_check: " + rows[0]["note"], file=sys.stderr)
        return NOTHING_HERE
    for row in rows:
        show(row, options.json)
    return 1 if any(row["outcome"] == FAIL for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

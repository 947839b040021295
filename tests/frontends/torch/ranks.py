"""Runs a program on several ranks. PyTorch is imported once, which takes longer than a test, and
the ranks are forked: each gets the environment that torchrun gives its processes. As under torchrun
the job's Store is served by a process that is no rank."""
import faulthandler
import importlib
import os
import signal
import sys
import tempfile
import time
import traceback

LINES_SHOWN = 25

os.environ.update(OMP_NUM_THREADS="1", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import torch.distributed as dist  # noqa: E402
import coll_torch  # noqa: E402,F401  pylint: disable=unused-import


class Results:
    """Exit codes (minus a signal's number) and outputs of the ranks, and how long they ran."""

    def __init__(self, codes, outputs, seconds):
        self.codes, self.outputs, self.seconds = codes, outputs, seconds

    def __str__(self):
        text = f"exit codes {self.codes} after {self.seconds:.1f} s\n"
        for rank, output in enumerate(self.outputs):
            lines = output.strip().split("\n")[-LINES_SHOWN:]
            text += "".join(f"rank {rank}: {line}\n" for line in lines)
        return text


def _serve_store(port_pipe):
    """The process of the Store: tells its port and lives until it is killed."""
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    os.write(port_pipe, str(store.port).encode())
    os.close(port_pipe)
    while True:
        signal.pause()


def _start_store():
    """(process, port) of a new Store."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        try:
            _serve_store(writing)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        return process, int(pipe.read())


def _be_rank(rank, size, port, store, output, program, arguments):
    """What a forked process does; does not return."""
    code = 1
    try:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        faulthandler.register(signal.SIGUSR1)
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank),
                          LOCAL_WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(port), TORCHELASTIC_RESTART_COUNT="0",
                          TORCHELASTIC_USE_AGENT_STORE="True", TEST_STORE_PROCESS=str(store))
        sys.argv = [program, *arguments]
        importlib.import_module(program).main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _reap(processes, codes):
    for rank, process in enumerate(processes):
        if codes[rank] is None:
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                codes[rank] = os.waitstatus_to_exitcode(status)


def _await(processes, seconds):
    """Exit codes; what still runs after the limit writes its stacks and is killed."""
    codes = [None] * len(processes)
    deadline = time.monotonic() + seconds
    while None in codes and time.monotonic() < deadline:
        _reap(processes, codes)
        time.sleep(0.005)
    for end in (signal.SIGUSR1, signal.SIGKILL):
        for rank, process in enumerate(processes):
            if codes[rank] is None:
                os.kill(process, end)
        time.sleep(0.5 if None in codes else 0)
    while None in codes:
        _reap(processes, codes)
    return codes


def run(size, program, *arguments, seconds=240):
    """Calls main() of the module `program` of this folder on `size` ranks."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"rank{rank}") for rank in range(size)]
        store, port = _start_store()
        begin = time.monotonic()
        processes = []
        for rank in range(size):
            process = os.fork()
            if process == 0:
                _be_rank(rank, size, port, store, paths[rank], program, arguments)
            processes.append(process)
        codes = _await(processes, seconds)
        try:
            os.kill(store, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(store, 0)
        outputs = []
        for path in paths:
            with open(path, encoding="utf-8", errors="replace") as file:
                outputs.append(file.read())
        return Results(codes, outputs, time.monotonic() - begin)

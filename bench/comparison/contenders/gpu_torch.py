"""PyTorch on libcoll's libnccl.so.2; on virtual GPUs, on gloo."""
import os

from comparison.command import ROOT
from comparison.contenders.gpu_steps import FAIL, PASS, SKIP, Result
from comparison.launch import json_lines

PROGRAM = "bench/peers/torch_check.py"
LIBRARY = "libcoll/frontends/nccl/libnccl.so.2"
NOTHING_HERE = 3  # as in PROGRAM
SECONDS = 120


def command(machine, ranks, seconds):
    library = ["--device", "cpu"] if machine.standin else ["--library", machine.path(LIBRARY)]
    return [machine.python, os.path.join(ROOT, PROGRAM), "--json", "--ranks", str(ranks),
            "--seconds", "%.1f" % seconds, *library]


def last_line(text):
    return (text.strip().splitlines() or ["no message"])[-1]


def lines_of(rows):
    for row in rows:
        yield ("%-18s %-4s  %s" % (row["check"], row["outcome"], row["note"])).rstrip()
        yield from ("  " + line for line in row.get("printed", []))


def torch(machine, ranks, one_gpu):
    """DDP, all_to_all_single, batch_isend_irecv, a graph, and the end; ranks are processes."""
    limit = machine.limit(SECONDS)
    # The program ends its ranks a little earlier, and so says in which check they were.
    words = command(machine, ranks, max(1, limit - 3))
    plain = {"LD_PRELOAD": ""} if machine.standin else {}
    code, out, err = machine.run(words, limit, one_gpu, plain)
    if code == NOTHING_HERE:
        return Result(SKIP, last_line(err))
    rows = json_lines(out)
    failed = [row for row in rows if row["outcome"] == FAIL]
    passed = sum(row["outcome"] == PASS for row in rows)
    if failed:
        note = "%(check)s: %(note)s" % failed[0]
    elif code != 0:
        note = "did not end" if code is None else last_line(err)
    else:
        return Result(PASS, "%d checks" % passed, rows, "\n".join(lines_of(rows)))
    return Result(FAIL, note, rows, "\n".join(lines_of(rows)))

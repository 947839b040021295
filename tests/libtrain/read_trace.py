#!/usr/bin/env python3
"""Checks a file of gpt train --trace.

Usage: read_trace.py FILE RANKS TRACKS [SLICES], with a comma between the names of the axes' tracks,
and of passes the number of slices of a micro-batch.
"""
import json
import sys

path, ranks, tracks = sys.argv[1], int(sys.argv[2]), set(sys.argv[3].split(","))
slices = int(sys.argv[4]) if len(sys.argv) > 4 else 1
parts = [", slice %d" % i for i in range(slices)] if slices > 1 else [""]
passes = [kind + " %d" % i + part
          for kind in ("forward", "backward") for i in range(2) for part in parts]
with open(path, encoding="ascii") as file:
    events = json.load(file)["traceEvents"]


def metadata(name):
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events
            if e["ph"] == "M" and e["name"] == name}


processes, threads = metadata("process_name"), metadata("thread_name")
assert sorted(rank for rank, _ in processes) == list(range(ranks)), processes
for rank in range(ranks):
    names = {name for (pid, _), name in threads.items() if pid == rank}
    assert names == tracks | {"compute"}, (rank, names)

spans = [e for e in events if e["ph"] == "X"]
for (rank, tid), name in threads.items():
    own = sorted((e["ts"], -e["dur"], e["name"]) for e in spans
                 if (e["pid"], e["tid"]) == (rank, tid))
    assert own, (rank, name)
    if name == "compute":
        for wanted in passes + ["update", "evaluation"]:
            count = sum(e[2] == wanted for e in own)
            assert count >= (1 if wanted == "evaluation" else 3), (rank, wanted, count)
    ends = []
    for start, minus_duration, what in own:
        assert start >= 0 and minus_duration <= 0, what
        while ends and ends[-1] <= start + 0.001:
            ends.pop()
        end = start - minus_duration
        assert not ends or end <= ends[-1] + 0.002, (rank, name, what, start)
        ends.append(end)
print(len(spans), "spans")

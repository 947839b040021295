#!/usr/bin/env python3
"""Claims to be the program by whose name it is called: collrun, collbench, limit, gpt, step,
accuracy, an MPI's mpiexec and mpicc, coll-mpi, or an interpreter that has PyTorch. Each prints or
writes what the comparisons in bench/ read, at once: a call takes 1 us and 1 ns per byte, a step
40 ms."""
import json
import os
import sys

WORDS = sys.argv[1:]
CONFIG = {"vocabulary": 256, "context": 16, "layers": 1, "heads": 1, "width": 8}
SELF = os.path.realpath(__file__)


def option(name, default=""):
    return WORDS[WORDS.index(name) + 1] if name in WORDS else default


def show(document):
    print(json.dumps(document), flush=True)


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def pass_on(first):
    """Runs the rest of the command."""
    os.execvp(WORDS[first], WORDS[first:])


def collrun():
    first = 0
    while WORDS[first].startswith("-"):
        first += 2
    pass_on(first)


def collbench():
    asked = [(name, algorithm, int(size)) for name in WORDS[0].split(",")
             for algorithm in option("--algo", "ring").split(",")
             for size in (option("--sizes").split(",") if name != "barrier" else ["0"])]
    slower = 1000 if os.environ.get("COLL_TOPO_PACED") == "1" else 1
    rows = [{"collective": name, "bytes": size, "algo_asked": algorithm, "in_place": None,
             "algorithms": [{"algo": "ring", "ruled_out": None, "chosen": True, "time_us": 900}],
             "out_of_place": {"time_us": slower * (1 + size / 1000), "wrong": 0,
                              "algo": algorithm}} for name, algorithm, size in asked]
    write(option("--json"), json.dumps({"libcoll": "0", "rows": rows}))


def limit():
    moves = [{"bytes": int(size), "mapped_us": int(size) / 500, "staged_us": int(size) / 400}
             for size in option("--sizes").split(",")]
    show({"barrier_us": 0.1, "round_trip_us": 0.2, "one_way_us": 0.1, "moves": moves})


def gpt():
    if WORDS[0] == "schedule":
        write(option("--json"), json.dumps({"bubble_of_equal_stages": 1 / 9}))
        return
    if option("--tp") == "3":
        sys.exit("gpt: 4 attention heads cannot be cut into 3")
    records = [{"record": "setup", "model": {"parameters": 1000, **CONFIG}}]
    records += [{"record": "step", "ms": 40.0, "tensor_waited_ms": 1.0}] * 12
    write(option("--log", os.devnull), "".join(json.dumps(record) + "\n" for record in records))
    write(option("--out"), "checkpoint")


def answer_requests():
    for line in sys.stdin:
        show({"limit_ms": 50.0} if line == "limit\n" else {"ms": [40.0] * int(line.split()[1])})


def step():
    count = int(option("--steps", "0"))
    show({"config": CONFIG, "steps": [{"ms": 40.0}] * count, "product_flops_per_s": 1e9,
          "flops": 3e7, "losses": [5.0 - i / 10 for i in range(count + 1)]})
    if "--serve" in WORDS:
        answer_requests()


def mpiexec():
    print("mpiexec (Open MPI) 5.0.1") if WORDS == ["--version"] else pass_on(2)


def mpicc():
    os.symlink(SELF, option("-o"))


def loop():
    """bench/peers/mpi_loop.c."""
    for verb in WORDS[1].split(","):
        for size in WORDS[2].split(","):
            print(verb, size, 10.0)
            if "COLL_MPI_STATS" in os.environ:
                print("libcoll: MPI_%s %s 9 1" % (verb.title(), size), file=sys.stderr)


def python():
    called = " ".join(map(os.path.basename, WORDS))
    if WORDS[0] == "-c":
        print("Python 3, PyTorch 9")
    elif "coll.run" in called:
        for size in WORDS[6].split(","):
            show({"ranks": int(WORDS[3]), "bytes": int(size), "c_us": 1.0, "python_us": 1.2,
                  "over_us": 0.2, "new_us": 1.5, "new_over_us": 0.5})
    elif "torch_calls.py run" in called:
        times = {name + end: 1.0 for name in ("coll", "mapped", "gloo")
                 for end in ("_us", "_python_us")}
        for size in WORDS[-3].split(","):
            show({"ranks": 2, "bytes": int(size), "calls": 5, **times})
    elif "torch_training.py" in called:
        show({"ranks": 2, "parameters": 10, "steps": 3, "loss_difference": 0, "coll_ms": 1,
              "gloo_ms": 2, "alone_ms": 1})
    elif "op_accuracy_torch.py" in called:
        errors = {"rms": 0.2, "max": 1.0}
        show({"dtype": "bfloat16", "version": "9", "outputs": [
            {"op": "linear", "output": "out", "cases": 3, "ours": errors, "torch": errors}]})
    elif "gradients_torch.py" in called:
        found = {"tensors": {"a": {"float32": 1e-7, "float64": 1e-7}}, "torch": 0.0}
        show({"version": "9", "checkpoints": [found] * len(WORDS[2:])})
    elif "--weights" in WORDS:
        show({"losses": [5.0 - i / 10 for i in range(int(option("--steps")))]})
    elif "gpt2_torch.py" in called:
        show({"version": "9.9+cpu"})
        answer_requests()


NAMES = {"collrun": collrun, "collbench": collbench, "limit": limit, "gpt": gpt, "step": step,
         "accuracy": lambda: None, "mpiexec": mpiexec, "mpicc": mpicc, "python": python,
         "coll-mpi": lambda: pass_on(2)}
NAMES.get(os.path.basename(sys.argv[0]), loop)()

"""bench/gpu_memory.cu, which the machine with the GPU compiles, and the tests for threads of the
host."""
import glob
import os
import shutil
import tempfile

from comparison.command import ROOT
from comparison.contenders import gpus
from comparison.contenders.gpu_steps import PASS, SKIP, Result, failure
from comparison.launch import json_lines

SOURCES = ("bench/gpu_memory.cu", "bench/gpu_memory")
PROGRAM = "bench/gpu_memory"  # in the build folder
COMPILE_SECONDS = 60
MEASURE_SECONDS = 60
VIRTUAL = "tests/gpu/virtual_cuda.cuh"
# Few threads and little memory: each thread of the virtual GPU is one of the host.
VIRTUAL_WORDS = ["--bytes", "1M", "--threads", "34", "--messages", "20", "--rounds", "1"]


def compiler(standin):
    """Its path, or None."""
    return shutil.which("c++") if standin else gpus.find_program("nvcc")


def compile_command(standin, to, architecture):
    """architecture: of the GPU, such as "90"."""
    command = [compiler(standin), "-std=c++17"]
    if standin:
        command += ["-O1", "-pthread", "-Wno-unknown-pragmas", "-x", "c++", "-include",
                    os.path.join(ROOT, VIRTUAL)]
    else:
        command += ["-O3", "-arch=sm_" + architecture]
    return command + ["-I" + ROOT, os.path.join(ROOT, SOURCES[0]), "-o", to]


def compile_program(machine, _ranks, _one_gpu):
    if not compiler(machine.standin):
        return Result(SKIP, "c++ is not installed" if machine.standin else
                      "nvcc is not installed, so the step memory has no program")
    path, limit = machine.path(PROGRAM), machine.limit(COMPILE_SECONDS)
    architecture = None if machine.standin else max(gpus.gpu_architectures(1), key=int)
    # A compiler needs no GPU, also none that is virtual.
    code, out, err = machine.run(compile_command(machine.standin, path, architecture),
                                 limit, extra={"LD_PRELOAD": ""})
    if code != 0:
        return failure(code, out, err, limit)
    return Result(PASS, "for the host" if machine.standin else "for sm_" + architecture)


def is_current(path):
    """Whether it was compiled after the last change of its sources."""
    sources = [os.path.join(ROOT, SOURCES[0]),
               *glob.glob(os.path.join(ROOT, SOURCES[1], "*")), os.path.join(ROOT, VIRTUAL)]
    return os.path.exists(path) and os.path.getmtime(path) >= max(
        os.path.getmtime(source) for source in sources if os.path.exists(source))


def summary(figures):
    """The least of the hops, and the most of each kind of move."""
    hops = {row["way"]: row["ns"] for row in figures if row["figure"] == "hop"}
    notes = ["hop %s" % ", ".join("%s %.0f ns" % pair for pair in hops.items())]
    for kind in ("copy", "reduce"):
        speeds = [row["gbs"] for row in figures if row["figure"] == kind]
        notes += ["%s %.0f GB/s" % (kind, max(speeds))] if speeds else []
    return "; ".join(notes)


def memory(machine, _ranks, one_gpu):
    """Flags, fences, copies and reductions."""
    if not is_current(machine.path(PROGRAM)):
        compiled = compile_program(machine, 1, one_gpu)
        if compiled.outcome != PASS:
            return compiled
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "figures")
        words, limit = VIRTUAL_WORDS if machine.standin else [], machine.limit(MEASURE_SECONDS)
        code, out, err = machine.run([machine.path(PROGRAM), "--json", file, *words],
                                     limit, one_gpu, {"LD_PRELOAD": ""})
        if code != 0:
            return failure(code, out, err, limit)
        with open(file, encoding="utf-8") as lines:
            figures = json_lines(lines.read())
    return Result(PASS, summary(figures), figures, out)

"""bench/gpu_memory.cu, which the machine with the GPU compiles, and the tests for threads of the
host."""
import os
import shutil

from comparison.command import ROOT
from comparison.contenders import gpus

SOURCES = ("bench/gpu_memory.cu", "bench/gpu_memory")
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

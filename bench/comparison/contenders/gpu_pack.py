"""A folder with what tools/gpu-check runs, for a machine with GPUs that has no packages: programs
and libraries of a build folder, the libraries that these need, and what nvcc compiles there."""
import glob
import os
import re
import shutil
import subprocess

from comparison import machine as provenance
from comparison.command import ROOT
from comparison.contenders import gpu_memory, gpu_torch, gpus

BYTES_MAX = 40 << 20
SCRIPTS = ("tools/gpu-check", "tools/gpu-speed", "bench/comparison", *gpu_memory.SOURCES,
           gpu_torch.PROGRAM)
VIRTUAL_SCRIPTS = (gpu_memory.VIRTUAL,)
PROGRAMS = gpus.PROGRAMS + ("libcoll/libcoll.so.0",)
MORE = ("bench/peer-nccl", gpu_torch.LIBRARY)  # where they are built
STANDIN = ("tests/gpu/standin/libcuda.so.1", "tests/gpu/libstandin_kernel.so")
# Of the C library, and of the driver: they belong to the machine.
THERE = re.compile(r"(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|resolv|gcc_s|cuda))\.so\b.*")
RUN = """#!/bin/sh
# tools/gpu-check with the programs and libraries of this folder; all its options but --build.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
LD_LIBRARY_PATH=$here/libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec python3 "$here/tools/gpu-check" --no-build --build "$here/build" "$@"
"""


def needed(path):
    """{name: path} of the libraries that a program needs, of all that these need, too. Raises
    RuntimeError if one is not found."""
    text = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*(\S+) => (/\S+|not found)", line)
        if not match or THERE.fullmatch(match.group(1)):
            continue
        if match.group(2) == "not found":
            raise RuntimeError("%s needs %s, which is not found" % (path, match.group(1)))
        found[match.group(1)] = match.group(2)
    return found


def copy_scripts(folder, standin):
    for name in SCRIPTS + (VIRTUAL_SCRIPTS if standin else ()):
        to = os.path.join(folder, name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        if os.path.isdir(os.path.join(ROOT, name)):
            shutil.copytree(os.path.join(ROOT, name), to,
                            ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(os.path.join(ROOT, name), to)
    os.makedirs(os.path.join(folder, "bench", "results"))
    with open(os.path.join(folder, provenance.REVISION), "w") as file:
        file.write(provenance.revision() + "\n")
    run = os.path.join(folder, "run")
    with open(run, "w") as file:
        file.write(RUN)
    os.chmod(run, 0o755)


def copy_programs(build, folder, standin):
    """Without what only a debugger reads, where `strip` is installed."""
    libraries = {}
    for name in PROGRAMS + MORE + (STANDIN if standin else ()):
        path, to = os.path.join(build, name), os.path.join(folder, "build", name)
        if name in MORE and not os.path.exists(path):
            continue
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(path, to)
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-unneeded", to], check=True)
        libraries.update(needed(path))
    os.makedirs(os.path.join(folder, "libraries"))
    packed = {os.path.basename(name) for name in PROGRAMS + MORE + STANDIN}
    for name, path in libraries.items():
        if name not in packed:
            shutil.copy(path, os.path.join(folder, "libraries", name))


def size_of(folder):
    return sum(os.path.getsize(path) for path in
               glob.glob(os.path.join(folder, "**"), recursive=True) if os.path.isfile(path))


def pack(build, folder, standin):
    """Makes the folder, which must not exist. Returns its bytes. If it raises OSError or
    RuntimeError, there is none."""
    os.mkdir(folder)
    try:
        copy_scripts(folder, standin)
        copy_programs(build, folder, standin)
        size = size_of(folder)
        if size > BYTES_MAX:
            raise RuntimeError("it has %.1f MB, more than %d" % (size / 1e6, BYTES_MAX / 1e6))
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise RuntimeError(str(error)) from error
    return size

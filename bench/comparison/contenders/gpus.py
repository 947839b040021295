"""What is on this machine: the driver, its GPUs, NCCL, and the programs of tools/gpu-check."""
import ctypes
import glob
import os
import shutil
import subprocess
import sys
import time

from comparison import launch

PROGRAMS = ("bench/collbench", "tools/collrun", "bench/gpu_limit", "bench/gpu_abort")
CUDA_LIBRARIES = ("/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/lib/x86_64-linux-gnu",
                  "/usr/lib/aarch64-linux-gnu", "/usr/local/lib", "/usr/lib64")


def gpu_count():
    """(number of GPUs, "") or (0, why there is none)."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return 0, "NVIDIA's driver cannot be loaded: %s" % error
    result = driver.cuInit(0)
    count = ctypes.c_int(0)
    if result == 0:
        result = driver.cuDeviceGetCount(ctypes.byref(count))
    if result not in (0, 100):  # 100: CUDA_ERROR_NO_DEVICE
        return 0, "NVIDIA's driver does not start (CUDA error %d)" % result
    return count.value, "" if count.value > 0 else "NVIDIA's driver finds no GPU"


def gpu_architectures(count):
    """Compute capabilities, such as {"90"}, of the first `count` GPUs."""
    driver, found = ctypes.CDLL("libcuda.so.1"), set()
    for device in range(count):
        numbers = []
        for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
            number = ctypes.c_int(0)
            driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
            numbers.append(str(number.value))
        found.add("".join(numbers))
    return found


def multiprocessors():
    """Of the first GPU."""
    number = ctypes.c_int(0)
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuDeviceGetAttribute(ctypes.byref(number), 16, 0)  # MULTIPROCESSOR_COUNT
    return number.value


def find_program(name, given=None):
    """The path of a program of CUDA's toolkit, or None. Searches also where CUDA and Python
    packages install it."""
    if given:
        return given if os.access(given, os.X_OK) else None
    found = shutil.which(name)
    if found:
        return found
    places = [os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin")]
    for folder in sys.path:
        places += glob.glob(os.path.join(folder, "nvidia", "*", "bin"))
        places.append(os.path.join(folder, "triton", "backends", "nvidia", "bin"))
    for place in places:
        path = os.path.join(place, name)
        if os.access(path, os.X_OK):
            return path
    return None


def find_nccl(given):
    """The path of a libnccl.so.2 that is not ours, or None."""
    if given:
        return given
    places = os.environ.get("LD_LIBRARY_PATH", "").split(":") + list(CUDA_LIBRARIES)
    for folder in sys.path:
        places += glob.glob(os.path.join(folder, "nvidia", "nccl", "lib"))
    for place in places:
        path = os.path.join(place, "libnccl.so.2")
        if place and os.path.exists(path):
            return path
    return None


class Machine:
    """How programs are started here: on the GPUs, or on the virtual ones of the stand-in."""

    def __init__(self, build, standin, gpus, deadline):
        self.build, self.standin, self.gpus, self.deadline = build, standin, gpus, deadline
        self.python = sys.executable  # the one whose PyTorch is checked
        self.environment = dict(os.environ)
        if standin:
            tests = os.path.join(build, "tests", "gpu")
            folders = [os.path.join(tests, "standin"), os.environ.get("LD_LIBRARY_PATH", "")]
            self.environment["LD_LIBRARY_PATH"] = ":".join(folders).strip(":")
            self.environment["LD_PRELOAD"] = self.kernel()
            self.environment["COLL_STANDIN_GPUS"] = str(gpus)

    def kernel(self):
        """What registers the kernel with the stand-in."""
        found = glob.glob(os.path.join(self.build, "tests", "gpu", "**", "libstandin_kernel.so"),
                          recursive=True)
        return found[0] if found else ""

    def path(self, program):
        return os.path.join(self.build, program)

    def missing(self):
        names = [name for name in PROGRAMS if not os.path.exists(self.path(name))]
        return names + (["tests/gpu/libstandin_kernel.so"] if self.standin and not self.kernel()
                        else [])

    def multiprocessors(self):
        return multiprocessors()

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def limit(self, seconds):
        """What is left of so many seconds, at least 1, in which a program must end."""
        return max(1, min(seconds, self.seconds_left()))

    def command_environment(self, one_gpu, extra):
        environment = dict(self.environment)
        if one_gpu:
            first = environment.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
            environment["CUDA_VISIBLE_DEVICES"] = first
        environment.update(extra or {})
        return environment

    def start(self, command, one_gpu=False, extra=None, **keywords):
        return subprocess.Popen(command, env=self.command_environment(one_gpu, extra), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True, **keywords)

    def run(self, command, limit, one_gpu=False, extra=None):
        """(exit code, stdout, stderr); the code is None if the time limit ended it."""
        process = self.start(command, one_gpu, extra)
        try:
            out, err = process.communicate(timeout=self.limit(limit))
            return process.returncode, out, err
        except subprocess.TimeoutExpired:
            launch.end_group(process)
            out, err = process.communicate()
            return None, out, err

    def collbench(self, *words):
        return launch.collbench(self.build, *words)

    def collrun(self, ranks, command):
        return launch.collrun(self.build, ranks, *command)

    def used_bytes(self):
        """GPU memory in use, in MiB, of each GPU; [] where nvidia-smi cannot tell."""
        if self.standin or not shutil.which("nvidia-smi"):
            return []
        code, out, _ = self.run(["nvidia-smi", "--query-gpu=memory.used",
                                 "--format=csv,noheader,nounits"], 30)
        words = out.split()
        return [int(word) for word in words] if code == 0 and all(
            word.isdigit() for word in words) else []

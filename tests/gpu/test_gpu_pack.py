"""tools/gpu-check pack: the folder runs where there are gcc, Python and the CUDA toolkit alone: in
a chroot in which these are, without a network and without the libraries that libcoll needs, on
virtual GPUs. Prints TAP.

    test_gpu_pack.py SOURCE-FOLDER BUILD-FOLDER
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE, BUILD = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(SOURCE, "tests", "bench"), os.path.join(SOURCE, "bench")]
import tap  # noqa: E402
from comparison.contenders import gpu_pack  # noqa: E402

TOOL = os.path.join(SOURCE, "tools", "gpu-check")
SECONDS_MAX = 240  # that the folder is told to take at most
INSIDE = ("unshare", "--mount", "--net", "--propagation", "private", "sh", "-ec")
# Bound read-only where they exist: what machines with GPUs have.
THERE = ("/usr", "/bin", "/lib", "/lib64", "/etc", sys.base_prefix)
PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")
# $1: root; $2: the folder; $3: what there is; $4: what is hidden; then the command.
CHROOT = """
root=$1 folder=$2 there=$3 hidden=$4
shift 4
for each in $there; do
  if [ -L "$each" ]; then
    ln -s "$(readlink "$each")" "$root$each"
    continue
  fi
  mkdir -p "$root$each"
  mount --bind "$each" "$root$each"
  mount -o remount,bind,ro "$root$each"
done
for each in $hidden; do mount --bind /dev/null "$root$each"; done
ip link set lo up # ranks of one machine meet there
for each in proc dev pack tmp; do mkdir -p "$root/$each"; done
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$folder" "$root/pack"
exec chroot "$root" "$@"
"""


def folders():
    """Those of THERE, without ones that are links to or inside of others."""
    found = []
    for path in THERE:
        if os.path.isdir(path) and not any(path.startswith(each + "/") for each in found):
            found.append(path)
    return found


def libraries_here():
    """Where this machine has the libraries that the folder carries."""
    program = os.path.join(BUILD, "tools", "collrun")
    return sorted(os.path.realpath(path) for path in gpu_pack.needed(program).values())


def may_chroot():
    command = [*INSIDE, "mount --bind / /mnt && umount /mnt"]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


class Pack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.parent = tempfile.mkdtemp()
        cls.folder = os.path.join(cls.parent, "pack")
        result = subprocess.run([TOOL, "pack", cls.folder, "--standin", "--build", BUILD],
                                capture_output=True, text=True)
        if result.returncode != 0:
            raise AssertionError(result.stdout + result.stderr)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.parent)

    def test_its_size(self):
        size = gpu_pack.size_of(self.folder)
        self.assertGreater(size, 1 << 20)
        self.assertLess(size, 40 << 20)

    def test_what_the_machine_compiles_and_interprets(self):
        for name in ("bench/gpu_memory.cu", "bench/gpu_memory/device.cuh",
                     "bench/peers/torch_check.py", "build/libcoll/frontends/nccl/libnccl.so.2"):
            self.assertTrue(os.path.exists(os.path.join(self.folder, name)), name)

    def test_what_is_too_large_is_not_left(self):
        folder = os.path.join(self.parent, "large")
        most, gpu_pack.BYTES_MAX = gpu_pack.BYTES_MAX, 1 << 20
        try:
            with self.assertRaisesRegex(RuntimeError, "more than"):
                gpu_pack.pack(BUILD, folder, True)
        finally:
            gpu_pack.BYTES_MAX = most
        self.assertFalse(os.path.exists(folder))

    def test_a_folder_that_exists(self):
        result = subprocess.run([TOOL, "pack", self.folder, "--standin", "--build", BUILD],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("File exists", result.stderr)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "run")))

    def test_a_build_without_programs(self):
        folder = os.path.join(self.parent, "none")
        result = subprocess.run([TOOL, "pack", folder, "--standin", "--build", "/nonexistent"],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("/nonexistent/bench/collbench", result.stderr)
        self.assertFalse(os.path.exists(folder))

    def run_inside(self, hidden, *words):
        root = os.path.join(self.parent, "root")
        shutil.rmtree(root, ignore_errors=True)
        return subprocess.run(
            [*INSIDE, CHROOT, "sh", root, self.folder, " ".join(folders()), " ".join(hidden),
             *words], capture_output=True, text=True, timeout=2 * SECONDS_MAX,
            env={"PATH": ":".join([os.path.dirname(sys.executable), *PATH])})

    def test_it_runs_where_nothing_is_installed(self):
        if not may_chroot():
            self.skipTest("mounts can be made by root only, in a namespace")
        hidden = libraries_here()
        self.assertGreater(len(hidden), 0)
        plain = self.run_inside(hidden, "/pack/build/tools/collrun", "--version")
        self.assertIn("error while loading shared libraries", plain.stderr)
        begin = time.monotonic()
        result = self.run_inside(hidden, "/pack/run", "--standin", "--ranks", "2", "--no-speed",
                                 "--minutes", str(SECONDS_MAX / 60), "--output", "/pack/result")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertLess(time.monotonic() - begin, SECONDS_MAX)
        self.assertIn("all steps passed", result.stdout)
        with open(os.path.join(self.folder, "result.json")) as file:
            outcomes = {row["step"]: row["outcome"] for row in json.load(file)["steps"]}
        # The folder has the sources, which the machine compiles.
        compiler = shutil.which("c++", path=":".join(PATH))
        self.assertEqual(outcomes["memory"], "pass" if compiler else "-")


tap.run()

"""The build of tools/gpu-check on a machine without hwloc, libsodium, jansson, expat and Criterion,
and what runs of it. Their headers cannot be included here: a mount namespace, which root can make,
has an #error in place of each. Prints TAP.

    test_packages.py SOURCE-FOLDER BUILD-FOLDER
"""
import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HEADERS = ("hwloc.h", "sodium.h", "jansson.h", "expat.h", "criterion/criterion.h")
NAMESPACE = ("unshare", "--mount", "--propagation", "private")
INSIDE = "COLL_TEST_PACKAGES_HIDDEN"
PROGRAMS = ("tests/gpu/libstandin_kernel.so", "tests/device/test_device")
SOURCE = os.path.abspath(sys.argv[1])
sys.path[:0] = [os.path.join(SOURCE, "tests", "bench"), os.path.join(SOURCE, "bench")]
import tap  # noqa: E402


def load_tool():
    """tools/gpu-check as a module."""
    loader = importlib.machinery.SourceFileLoader("gpu_check", os.path.join(SOURCE, "tools",
                                                                            "gpu-check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


def skip_all(reason):
    print("1..0 # SKIP %s" % reason)
    sys.exit(0)


def enter_namespace():
    """Runs this program again where mounts are its own."""
    try:
        subprocess.run([*NAMESPACE, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        skip_all("headers can be hidden by root only, in a mount namespace")
    os.environ[INSIDE] = "1"
    os.execvp(NAMESPACE[0], [*NAMESPACE, sys.executable, *sys.argv])


def compiler():
    return os.environ.get("CC", "cc").split()[-1]


def header_path(name):
    """Where the compiler finds a header; None: nowhere."""
    result = subprocess.run([compiler(), "-E", "-xc", "-"], input="#include <%s>\n" % name,
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return None
    return next(line.split('"')[1] for line in result.stdout.splitlines()
                if line.startswith("# ") and line.split('"')[1].endswith("/" + name))


def hide_headers(folder):
    blocked = os.path.join(folder, "hidden.h")
    with open(blocked, "w") as file:
        file.write("#error hidden by the test\n")
    for name in HEADERS:
        path = header_path(name)
        if path and subprocess.run(["mount", "--bind", blocked, path],
                                   capture_output=True).returncode != 0:
            skip_all("%s cannot be hidden here" % path)
        if header_path(name):
            skip_all("%s is still found" % name)


class Bare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.build = os.path.join(cls.folder, "build")
        hide_headers(cls.folder)
        os.mkdir(os.path.join(cls.folder, "none"))
        with open(os.path.join(cls.folder, "native.ini"), "w") as file:
            file.write("[binaries]\nc = '%s'\ncmake = '/nonexistent'\n" % compiler())
        environment = dict(os.environ, PKG_CONFIG_LIBDIR=os.path.join(cls.folder, "none"),
                           PKG_CONFIG_PATH="")
        environment.pop("CC", None)
        tool = load_tool()
        setup = ["meson", "setup", cls.build, SOURCE, "--native-file",
                 os.path.join(cls.folder, "native.ini"), "-Dtrain=false", "-Dcriterion=auto",
                 "--buildtype=plain", *tool.PACKAGES]
        ninja = ["ninja", "-C", cls.build, *tool.TARGETS, *PROGRAMS]
        for command in (setup, ninja):
            result = subprocess.run(command, capture_output=True, text=True, env=environment)
            if result.returncode != 0:
                raise AssertionError((result.stdout + result.stderr)[-3000:])

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def run_program(self, program, *words, code=0, **variables):
        environment = dict(os.environ, **variables)
        result = subprocess.run([os.path.join(self.build, program), *words], text=True,
                                capture_output=True, env=environment, timeout=200)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def collbench(self, ranks, *words, code=0, **variables):
        return self.run_program("tools/collrun", "-n", str(ranks),
                                os.path.join(self.build, "bench", "collbench"), *words, code=code,
                                **variables)

    def test_nothing_is_linked(self):
        path = os.path.join(self.build, "libcoll", "libcoll.so.0")
        linked = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        for name in ("hwloc", "sodium", "jansson", "expat"):
            self.assertNotIn(name, linked)

    def test_ranks_of_this_host(self):
        file = os.path.join(self.folder, "rows.json")
        text = self.collbench(2, "all", "--algo", "all", "--counts", "0,1,1001", "-n", "1",
                              "--print", "brief", "--json", file)
        self.assertIn("Wrong elements    : 0 OK", text)
        with open(file) as rows:
            document = json.load(rows)
        self.assertGreater(len(document["rows"]), 50)
        self.assertEqual(document["wrong"], 0)

    def test_the_machine_is_found(self):
        text = self.collbench(2, "barrier", "-n", "1", COLL_DEBUG="1", XDG_CACHE_HOME=self.folder)
        self.assertRegex(text, r"this machine \(discovered\): 1 host, .*core")

    def test_other_hosts_are_refused(self):
        reason = "built without libsodium: jobs of several hosts need it"
        self.assertIn(reason, self.run_program("tools/collrun", "--hosts", "a,b", "true", code=1))
        self.assertIn(reason, self.collbench(2, "barrier", code=1, COLL_TRANSPORTS="tcp"))
        collbench = os.path.join(self.build, "bench", "collbench")
        for address in ("0.0.0.0:20001", "[::]:20001"):
            text = self.run_program(collbench, "barrier", code=1, COLL_RANK="0", COLL_SIZE="2",
                                    COLL_ADDRESS=address)
            self.assertIn(reason, text)

    def test_files_of_topologies_are_refused(self):
        for name, text, package in (("x.json", "{}", "jansson"), ("x.xml", "<system/>", "expat"),
                                    ("h.xml", "<topology/>", "hwloc")):
            path = os.path.join(self.folder, name)
            with open(path, "w") as file:
                file.write(text)
            text = self.collbench(2, "barrier", code=1, COLL_TOPO_FILE=path)
            self.assertIn("%s: built without %s" % (name, package), text)

    def test_a_conformance_kit_runs(self):
        text = self.run_program("tests/device/test_device", "--filter", "host/*")
        self.assertNotIn("not ok", text)
        self.assertIn("ok 1", text)

    def test_the_steps_on_virtual_gpus(self):
        result = subprocess.run([os.path.join(SOURCE, "tools", "gpu-check"), "--standin",
                                 "--no-build", "--build", self.build, "--ranks", "2", "--steps",
                                 "graphs,abort"], capture_output=True, text=True, timeout=200)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("all steps passed", result.stdout)


if INSIDE not in os.environ:
    enter_namespace()
sys.argv[1:] = []
tap.run()

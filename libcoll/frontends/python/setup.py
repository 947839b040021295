"""Builds the wheel of the package coll. The rest of the sources are in the folders above: meson
builds libcoll.so and collrun there, which go into the package beside the extension. So a
wheel can be built from a checkout, but not from a source archive of this folder.

    pip install libcoll/frontends/python
"""
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LIBRARY = "libcoll.so.0"
PACKAGES = ("gcc meson ninja-build pkg-config python3-dev libhwloc-dev libjansson-dev "
            "libsodium-dev libexpat1-dev libibverbs-dev")
MINIMAL_PYTHON = (3, 11)


def project_version():
    """The version in the meson.build of the project."""
    path = ROOT / "meson.build"
    if not (ROOT / "libcoll" / "include" / "coll.h").exists():
        sys.exit("coll: the sources of libcoll are not in %s; build the wheel in a checkout" % ROOT)
    return re.search(r"version: '([^']+)'", path.read_text(encoding="utf-8")).group(1)


def run(*command):
    """Runs a tool without the variables by which pip isolates this build from the system's Python,
    in which meson may be written."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
    try:
        subprocess.run(command, check=True, env=environment)
    except FileNotFoundError:
        sys.exit("coll: %s is not installed; on Debian: apt-get install %s"
                 % (command[0], PACKAGES))
    except subprocess.CalledProcessError as error:
        sys.exit("coll: %s failed, see above; on Debian it needs: %s"
                 % (" ".join(command[:2]), PACKAGES))


class BuildWithLibrary(build_ext):
    """Builds libcoll.so and collrun first, and links the extension with the former."""

    def run(self):
        build = pathlib.Path(self.build_temp).resolve() / "meson"
        if not (build / "build.ninja").exists():
            run("meson", "setup", str(build), str(ROOT), "-Dtests=false", "-Dtrain=false",
                "-Dpython=" + sys.executable)
        run("ninja", "-C", str(build), "libcoll/libcoll.so.%s" % project_version(),
            "tools/collrun")
        package = pathlib.Path(self.build_lib).resolve() / "coll"
        if self.inplace:
            package = HERE / "coll"
        package.mkdir(parents=True, exist_ok=True)
        library = package / LIBRARY
        shutil.copy(build / "libcoll" / ("libcoll.so." + project_version()), library)
        shutil.copy(build / "tools" / "collrun", package / "collrun")
        self.extensions[0].extra_objects = [str(library)]
        super().run()

    def get_outputs(self):
        package = os.path.join(self.build_lib, "coll")
        return super().get_outputs() + [os.path.join(package, LIBRARY),
                                        os.path.join(package, "collrun")]


class StableAbiWheel(bdist_wheel):
    """One wheel for all versions of Python from 3.11 on."""

    def finalize_options(self):
        self.py_limited_api = "cp%d%d" % MINIMAL_PYTHON
        super().finalize_options()


os.chdir(HERE)
setup(
    version=project_version(),
    ext_modules=[Extension(
        "coll._coll", sorted(glob.glob("src/*.c")), py_limited_api=True,
        define_macros=[("Py_LIMITED_API", "0x030b0000"), ("_GNU_SOURCE", "1")],
        include_dirs=[str(ROOT / "libcoll" / "include")], libraries=["dl"],
        extra_compile_args=["-std=c11", "-O2", "-fvisibility=hidden"],
        extra_link_args=["-Wl,-rpath,$ORIGIN", "-pthread"])],
    cmdclass={"build_ext": BuildWithLibrary, "bdist_wheel": StableAbiWheel})

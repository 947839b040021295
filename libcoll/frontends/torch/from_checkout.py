"""Builds the wheel of coll-torch (PEP 517) by meson-python, for which it is a project with libcoll
as a subproject. That is a symbolic link to the root of the checkout, made for the time of the
build: archives and copies of a checkout may have lost one. So a wheel can be built from a checkout,
but not from a source archive of this folder."""
import contextlib
import os
import pathlib
import shutil
import sys
import tempfile

import mesonpy

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]


class UnsupportedOperation(Exception):
    """The name that PEP 517 gives to what a backend does not do."""


@contextlib.contextmanager
def project():
    """The project in a folder of its own, which is the current one meanwhile."""
    if not (ROOT / "libcoll" / "include" / "coll.h").exists():
        sys.exit(f"coll-torch: the sources of libcoll are not in {ROOT}; build it in a checkout")
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="coll-torch-") as folder:
        for name in ("pyproject.toml", "meson.build"):
            shutil.copy(HERE / name, folder)
        subprojects = pathlib.Path(folder, "subprojects")
        subprojects.mkdir()
        (subprojects / "libcoll").symlink_to(ROOT)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def get_requires_for_build_wheel(config_settings=None):
    return mesonpy.get_requires_for_build_wheel(config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    wheels = os.path.abspath(wheel_directory)
    with project():
        return mesonpy.build_wheel(wheels, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("the sources of libcoll are not in this folder; build a wheel")

"""Copies of the package in a build folder, for tests that change something of it."""
import glob
import os
import shutil


def copy(package, folder):
    """Copies coll_torch of the folder `package` as it is installed; returns the path of its
    compiled part."""
    target = os.path.join(folder, "coll_torch")
    os.mkdir(target)
    for name in os.listdir(os.path.join(package, "coll_torch")):
        path = os.path.join(package, "coll_torch", name)
        if os.path.isfile(path):
            shutil.copy(path, target)
    return glob.glob(os.path.join(target, "native.*"))[0]

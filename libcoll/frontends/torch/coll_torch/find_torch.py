"""Prints what a build needs to know of the PyTorch of this Python: version, folder, and whether it
has the strings of GCC's newer library (1 or 0). Does not import it, which takes seconds. Run with
`python -I`, it finds the packages of the user's environment also where pip builds in another."""
import glob
import importlib.util
import os
import re
import sys


def main():
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit(f"{sys.executable} has no PyTorch: install it first (pip install torch), then "
                 "coll-torch, which is compiled for it")
    folder = os.path.dirname(spec.origin)
    with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
        version = re.search(r"__version__ = '([^']+)'", file.read())
    headers = os.path.join(folder, "include/torch/csrc/distributed/c10d")
    if version is None or not glob.glob(headers):
        sys.exit(f"the PyTorch in {folder} has no headers of torch.distributed to compile against: "
                 "install them (Debian: libtorch-dev), or another build of it")
    with open(os.path.join(folder, "lib", "libc10.so"), "rb") as file:
        new_strings = b"__cxx1112basic_string" in file.read()
    print(re.match(r"[0-9.]+", version.group(1)).group(0).rstrip("."), folder, int(new_strings))


if __name__ == "__main__":
    main()

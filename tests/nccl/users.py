#!/usr/bin/env python3
"""Which functions of NCCL other people's packages look up: users.txt, from the packages that are
installed. Reads their files and imports none of them.

    users.py                   prints the lines
    users.py --check LIBRARY   says what the library lacks of users.txt, and where an installed
                               package of the same version looks up other functions than it says"""
import argparse
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "users.txt")


def folder_of(module):
    spec = importlib.util.find_spec(module)
    return list(spec.submodule_search_locations)[0] if spec else ""


def files_in(folder, pattern):
    return [os.path.join(root, name) for root, _, names in os.walk(folder) for name in names
            if re.fullmatch(pattern, name)]


def linked(paths):
    """The functions that libraries are linked with."""
    found = set()
    for path in paths:
        lines = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True,
                               text=True, check=True).stdout
        found.update(re.findall(r"\bU (nccl[A-Z]\w*)", lines))
    return found


def torch():
    return linked(files_in(os.path.join(folder_of("torch"), "lib"), r"libtorch\w*\.so"))


def cupy():
    return linked(files_in(folder_of("cupy_backends"), r"nccl\..*so"))


def vllm():
    """A table of ctypes, and C++ that is compiled when it is used."""
    found = set()
    folder = os.path.join(folder_of("vllm"), "distributed", "device_communicators")
    for path in files_in(folder, r"pynccl\w*\.py"):
        text = open(path).read()
        found.update(re.findall(r'"(nccl[A-Z]\w*)",', text))
        found.update(re.findall(r"\b(nccl(?:Mem|Comm)[A-Z]\w*)\(", text))
    return {name for name in found if name in known()}


def nccl4py():
    """A table of pointers that dlsym fills, by the names of its variables."""
    found = set()
    for path in files_in(os.path.join(folder_of("nccl"), "bindings", "_internal"), r"nccl\..*so"):
        with open(path, "rb") as library:
            names = re.findall(rb"_internal_4nccl___(nccl[A-Z]\w*)", library.read())
        found.update(name.decode() for name in names)
    return found


def known():
    """The functions that NCCL has."""
    return set(open(os.path.join(os.path.dirname(FILE), "symbols.txt")).read().split())


# The module by which a package is found, its distributions, and how its functions are.
PACKAGES = {"torch": ("torch", ["torch"], torch),
            "cupy": ("cupy_backends", ["cupy-cuda13x", "cupy-cuda12x", "cupy"], cupy),
            "vllm": ("vllm", ["vllm"], vllm),
            "nccl4py": ("nccl", ["nccl4py"], nccl4py)}


def version_of(names):
    for name in names:
        try:
            return importlib.metadata.version(name).split("+")[0]
        except importlib.metadata.PackageNotFoundError:
            pass
    return ""


def installed():
    """{package: (version, functions)}"""
    found = {}
    for name, (module, distributions, functions) in PACKAGES.items():
        version = version_of(distributions)
        if version and importlib.util.find_spec(module):
            found[name] = (version, functions())
    return found


def read():
    """What users.txt says, as installed() does."""
    versions, functions = {}, {}
    for line in open(FILE):
        words = line.split()
        if line.startswith("# version"):
            versions[words[2]] = words[3]
        elif words and not line.startswith("#"):
            for package in words[1:]:
                functions.setdefault(package, set()).add(words[0])
    return {name: (version, functions.get(name, set())) for name, version in versions.items()}


def write(found):
    for name, (version, _) in found.items():
        print("# version %s %s" % (name, version))
    for function in sorted(set().union(*(functions for _, functions in found.values()))):
        users = [name for name, (_, functions) in found.items() if function in functions]
        print(" ".join([function] + users))


def check(library):
    output = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True,
                            text=True, check=True).stdout
    exported = set(re.findall(r"\b(nccl[A-Z]\w*)$", output, re.MULTILINE))
    found, failures = installed(), 0
    for name, (version, functions) in read().items():
        missing = sorted(functions - exported)
        print("%s %s: %d functions%s" % (name, version, len(functions),
                                         ", missing " + " ".join(missing) if missing else ""))
        failures += len(missing)
        if name not in found:
            continue
        there, really = found[name]
        print("  installed here: %s, %d functions" % (there, len(really)))
        failures += len(really - exported)
        if sorted(really - exported):
            print("  missing %s" % " ".join(sorted(really - exported)))
        if there == version and really != functions:
            print("  users.txt differs: %s" % " ".join(sorted(really ^ functions)))
            failures += 1
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", metavar="LIBRARY")
    options = parser.parse_args()
    if options.check:
        return check(options.check)
    write(installed())
    return 0


if __name__ == "__main__":
    sys.exit(main())

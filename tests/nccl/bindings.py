"""Where the loader binds the functions of NCCL that other people's packages look up (users.txt):
in the library, though another libnccl.so.2 is found first. Speaks TAP.

    bindings.py LIBRARY LINKED-PROGRAM"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

LIBRARY, PROGRAM = (os.path.realpath(path) for path in sys.argv[1:3])
FOLDER = os.path.dirname(os.path.realpath(__file__))
# As CuPy and vLLM do: by name, each function when it is needed.
LOOK_UP = """import ctypes, sys
library = ctypes.CDLL("libnccl.so.2")
for name in sys.argv[1:]:
    getattr(library, name)
number = ctypes.c_int()
library.ncclGetVersion(ctypes.byref(number))
print(number.value)
"""


def users():
    with open(os.path.join(FOLDER, "users.txt")) as file:
        return [line.split()[0] for line in file if not line.startswith("#")]


def bound(command, folder, **variables):
    """{function: files that it was bound to}, and what the command has printed. The loader finds
    another library of that name in the folder."""
    environment = dict(os.environ, LD_DEBUG="bindings", LD_LIBRARY_PATH=folder, **variables)
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    if result.returncode != 0:
        raise RuntimeError("%s: %s" % (command[0], result.stderr[-1000:]))
    found = {}
    for file, name in re.findall(r"binding file \S+ \[\d+\] to (\S+) \[\d+\]: normal symbol "
                                 r"`(nccl[A-Z]\w*)'", result.stderr):
        found.setdefault(name, set()).add(os.path.realpath(file))
    return found, result.stdout


def elsewhere(found):
    return ["%s: %s" % (name, ", ".join(sorted(found.get(name, {"nowhere"}))))
            for name in users() if found.get(name) != {LIBRARY}]


def check(number, text, wrong):
    for line in wrong:
        print("# " + line)
    print("%s %d - %s" % ("not ok" if wrong else "ok", number, text))


def main():
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(LIBRARY, os.path.join(folder, "libnccl.so.2"))
        linked, _ = bound([PROGRAM], folder, LD_PRELOAD=LIBRARY, LD_BIND_NOW="1")
        check(1, "preloaded, all %d functions of a program that is linked with NCCL"
              % len(users()), elsewhere(linked))
        other, _ = bound([PROGRAM], folder, LD_BIND_NOW="1")
        check(2, "without that, the loader takes the other one",
              ["it takes none"] if not elsewhere(other) else [])
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(LIBRARY, os.path.join(folder, "libnccl.so.2"))
        loaded, text = bound([sys.executable, "-c", LOOK_UP, *users()], folder)
        check(3, "loaded by name by Python's ctypes, version " + text.strip(), elsewhere(loaded))
    print("1..3")


main()

"""The front end for PyTorch gives the library the tensors' own memory. Prints TAP.

    test_addresses.py PACKAGE EXTENSION LIBRARY GIVEN

PACKAGE: the folder that has coll_torch; EXTENSION: its compiled part, linked with LIBRARY, which is
libcoll.so; GIVEN: the library of ../given.c, which is preloaded."""
import os
import shutil
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE, EXTENSION, LIBRARY, GIVEN = map(os.path.abspath, sys.argv[1:])
if os.environ.get("LD_PRELOAD") != GIVEN:
    os.environ.update(LD_PRELOAD=GIVEN, LD_LIBRARY_PATH=os.path.dirname(LIBRARY))
    os.execv(sys.executable, [sys.executable, *sys.argv])
del sys.argv[1:]
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench"))
sys.dont_write_bytecode = True
import package  # noqa: E402
import tap  # noqa: E402


class Addresses(unittest.TestCase):
    def test_tensors_are_not_copied(self):
        with tempfile.TemporaryDirectory() as folder:
            native = package.copy(PACKAGE, folder)
            shutil.copy(EXTENSION, native)
            sys.path.insert(0, folder)
            import ranks
            results = ranks.run(2, "addresses")
        self.assertEqual(results.codes, [0, 0], results)


if __name__ == "__main__":
    tap.run()

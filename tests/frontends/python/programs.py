"""How the tests of the package coll run the programs of ranks/."""
import importlib
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def skip_without(*modules):
    """Ends the test, as skipped, if this Python cannot import them."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            print(f"1..0 # SKIP {sys.executable} has no {module}: {error}")
            sys.exit(0)


class Programs:
    """The package in a build folder."""

    def __init__(self, build):
        self.package = os.path.join(build, "libcoll", "frontends", "python")
        self.tools = os.path.join(build, "tools")

    def run(self, ranks, program, *arguments, timeout=100, **variables):
        """Runs a program of ranks/, or a path, by python -m coll.run."""
        environment = dict(os.environ, PYTHONPATH=self.package,
                           PATH=self.tools + os.pathsep + os.environ["PATH"], **variables)
        environment.pop("PYTHONUNBUFFERED", None)  # would divide lines, which ranks may mix
        command = [sys.executable, "-m", "coll.run", "-n", str(ranks),
                   os.path.join(HERE, "ranks", program), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=timeout, check=False)

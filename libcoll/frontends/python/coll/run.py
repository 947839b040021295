"""python -m coll.run -n 4 [options] prog.py [arguments]: starts the ranks of a Python program with
collrun, whose options it takes (python -m coll.run --help). A program whose name ends in .py is run
by this interpreter, and so are `-m MODULE` and `-c CODE` in the place of a program."""
import os
import shutil
import sys

# Options of collrun without a value, and with two; all others have one, in the next word, behind
# "=", or right behind a letter. Names may follow one dash.
FLAGS = {"prefix", "show-layout", "print-address", "knobs", "h", "help", "oversubscribe",
         "tag-output", "prepend-rank", "allow-run-as-root", "report-bindings", "display-map",
         "display-allocation", "quiet", "verbose", "l", "q", "v"}
PAIRS = {"genv", "env", "mca", "prtemca", "pmixmca"}
NAMES = {"np", "nproc-per-node", "npernode", "host", "hosts", "hostfile", "folder", "first-rank"}
LETTERS = "nNHfx"


def collrun_path() -> str | None:
    """Path of collrun: in the package, else in PATH."""
    bundled = os.path.join(os.path.dirname(os.path.abspath(__file__)), "collrun")
    return bundled if os.path.exists(bundled) else shutil.which("collrun")


def value_count(word: str) -> int:
    """How many of the words behind an option are its values."""
    name = word.lstrip("-").split("=")[0].replace("_", "-")
    if name in FLAGS:
        return 0
    is_attached = not word.startswith("--") and name[1:] and name[0] in LETTERS  # -n4
    values = 2 if name in PAIRS else 1
    return values - 1 if "=" in word or (is_attached and name not in NAMES) else values


def program_index(words: list[str]) -> int:
    """Index of the program in the words, or their number if there is none."""
    i = 0
    while i < len(words) and words[i].startswith("-") and words[i] not in ("-m", "-c"):
        if words[i] == "--":
            return i + 1
        i += 1 + value_count(words[i])
    return min(i, len(words))


def command_line(words: list[str], collrun: str) -> list[str]:
    """The command of collrun."""
    start = program_index(words)
    program = list(words[start:])
    if program and (program[0] in ("-m", "-c") or program[0].endswith(".py")):
        program.insert(0, sys.executable)
    return [collrun, *words[:start], *program]


def main() -> None:
    collrun = collrun_path()
    if collrun is None:
        sys.exit("coll.run: there is no collrun in the package or in PATH; install the package "
                 "with pip, or put the build folder's tools/ into PATH")
    command = command_line(sys.argv[1:], collrun)
    sys.stdout.flush()
    os.execv(collrun, command)


if __name__ == "__main__":
    main()

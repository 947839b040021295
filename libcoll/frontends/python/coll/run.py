"""python -m coll.run -n 4 [options] prog.py [arguments]: starts the ranks of a Python program with
collrun, whose options it takes (python -m coll.run --help). A program whose name ends in .py is run
by this interpreter, and so are `-m MODULE` and `-c CODE` in the place of a program."""
import os
import shutil
import sys

# Options of collrun without a value; all others have one, in the next word or behind "=".
FLAGS = {"--prefix", "--show-layout", "--print-address", "-h", "--help"}


def collrun_path() -> str | None:
    """Path of collrun: in the package, else in PATH."""
    bundled = os.path.join(os.path.dirname(os.path.abspath(__file__)), "collrun")
    return bundled if os.path.exists(bundled) else shutil.which("collrun")


def program_index(words: list[str]) -> int:
    """Index of the program in the words, or their number if there is none."""
    i = 0
    while i < len(words) and words[i].startswith("-") and words[i] not in ("-m", "-c"):
        if words[i] == "--":
            return i + 1
        has_value = words[i] not in FLAGS and "=" not in words[i]
        is_short = not words[i].startswith("--") and len(words[i]) > 2  # -n4
        i += 2 if has_value and not is_short else 1
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

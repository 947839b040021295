"""Compares an allreduce from Python (the package coll) with the same call from C: in the same
processes, on the same NumPy arrays of float32, in turn in every round. "Python out=" writes to an
array of the caller, "Python new" returns a new one. Times are in us per call: medians over the
rounds, each with the time of its slowest rank. With one rank nothing waits: the difference is what
Python costs. The target is 2 us more than in C, with out=.

Run it on an idle machine. The load average before and after is part of the results."""
import os
import sys

from comparison import arguments, command, launch, machine, sizes, table

NAME = "bench/python-overhead"
LOOP = os.path.join("bench", "pythonoverhead_loop.so")
TARGETS = [LOOP, "tools/collrun", "libcoll/frontends/python/coll/_coll.abi3.so",
           *("libcoll/frontends/python/coll/" + name for name in ("__init__.py", "run.py"))]
TARGET_US = 2.0  # that a call from Python may take longer than from C


def parse_arguments():
    parser = command.Parser(NAME, __doc__)
    add = parser.add_argument
    add("-n", "--ranks", default=[1, 2], help="a list (1,2)",
        type=lambda text: [arguments.positive(word) for word in text.split(",")])
    add("--sizes", type=arguments.size_list, default=arguments.size_list("4..16K"),
        help="4,1K or 4..16K, by factors of four (4..16K)")
    add("--rounds", type=arguments.positive, default=21, help="number of rounds (21)")
    add("--calls", type=arguments.positive, default=5000, help="calls per round (5000)")
    add("--python", metavar="PATH", default=sys.executable,
        help="an interpreter from 3.11 on that has NumPy (the one that runs this)")
    parser.add_name()
    parser.add_json()
    parser.add_build(can_omit=True)
    parser.add_from()
    return parser.parse_args()


def measure(options, ranks):
    """Rows of that number of ranks."""
    tools = os.path.join(options.build, "tools")
    return launch.json_lines(launch.run_shown(
        [options.python, "-m", "coll.run", "-n", str(ranks),
         os.path.join(command.ROOT, "bench", "peers", "python_calls.py"),
         os.path.join(options.build, LOOP), ",".join(map(str, options.sizes)),
         str(options.rounds), str(options.calls)],
        "the ranks failed, see above; has %s NumPy?" % options.python,
        PYTHONPATH=os.path.join(options.build, "libcoll", "frontends", "python"),
        PATH=tools + os.pathsep + os.environ.get("PATH", "")))


def take(options):
    if not options.no_build:
        launch.build(options.build, TARGETS, ", and docs/python.md")
    versions = launch.run_shown(
        [options.python, "-c", "import platform, numpy; print('Python %s, NumPy %s' % "
         "(platform.python_version(), numpy.__version__))"],
        "%s has no NumPy" % options.python)
    document = machine.begin(NAME, python=versions.strip(), settings={
        "rounds": options.rounds, "calls": options.calls, "dtype": "float32", "op": "sum",
        "place": "out of place"})
    return machine.end(document, rows=[row for ranks in options.ranks
                                       for row in measure(options, ranks)])


def columns():
    def us(name):
        return lambda row: "%.2f" % row[name]
    return [
        table.Column("ranks", lambda row: str(row["ranks"])),
        table.Column("size", lambda row: sizes.size_text(row["bytes"]), 8),
        table.Column("C", us("c_us")), table.Column("Python out=", us("python_us")),
        table.Column("over C", us("over_us")), table.Column("Python new", us("new_us")),
        table.Column("over C", us("new_over_us")),
        table.Column("target: %.0f us with out=" % TARGET_US,
                     lambda row: "ok" if row["over_us"] <= TARGET_US else "missed", left=True)]


def text_of(document):
    return "\n".join([
        *machine.heading(document, "float32 sum, us per call, rounds: %d"
                         % document["settings"]["rounds"]), document["python"], "",
        *table.lines(columns(), document["rows"])])


def main():
    command.compare(parse_arguments(), NAME, take, text_of)
    return 0

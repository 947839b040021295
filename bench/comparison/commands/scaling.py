"""Compares training steps of a GPT-2 for different numbers of ranks and threads and ZeRO stages.

A row is RANKSxTHREADS with options of bench/step. Every round launches bench/step once per row and
ignores its first step; the result of a row is the median over the steps of all rounds, compared
with the first row. A step with --no-comm sends no gradients, so its difference to the same row with
communication is the cost of communication.

Another program can be measured in the same rounds: every "... 123.4 ms" that it prints counts as a
step, except for the first one.

Run it on an otherwise idle machine."""
import json
import re
import statistics

from comparison import command, launch, rounds, table
from comparison.contenders import llmc

NAME = "bench/scaling"
EXAMPLES = """examples:
  bench/scaling -b 8 -l 256                     all stages on two ranks of one thread
  bench/scaling --rows "1x2" "2x1 --bf16"       one rank, and two that send half the bytes
  bench/scaling -b 4 -l 64 --rows 1x2 --beside "OMP_NUM_THREADS=2 ./train_gpt2"
                                                compared with another program
"""
ROWS = ["1x2", "2x1", "2x1 --no-comm", "2x1 --no-overlap", "2x1 --zero 1", "2x1 --zero 2",
        "2x1 --zero 3"]
TIMEOUT_SECONDS = 300


def parse_arguments():
    parser = command.Parser(NAME, __doc__, EXAMPLES)
    add = parser.add_argument
    add("-m", "--preset", default="gpt2", help="model preset (gpt2)")
    add("-b", "--batch", type=int, default=4, help="sequences per step, over all ranks (4)")
    add("-l", "--length", type=int, default=256, help="tokens of a sequence (256)")
    add("-s", "--steps", type=int, default=3, help="steps per row and round (3)")
    add("--rounds", type=int, default=3, help="number of rounds (3)")
    add("--rows", nargs="+", default=ROWS, metavar="ROW", help="(%s)" % ", ".join(ROWS))
    add("--beside", metavar="COMMAND", help="shell command of another program to measure")
    parser.add_build()
    options = parser.parse_args()
    for row in options.rows:
        if not re.fullmatch(r"\d+x\d+( .*)?", row):
            parser.error("invalid row '%s': give RANKSxTHREADS [options]" % row)
    return options


# ---- measuring -----------------------------------------------------------------------------------

def launch_step(options, row):
    """({"ms": [...], "rate", "flops"}) of a launch of bench/step."""
    shape, *more = row.split()
    ranks, threads = shape.split("x")
    start = launch.collrun(options.build, ranks) if ranks != "1" else []
    found = json.loads(launch.run(
        [*start, options.build + "/bench/step", "--json", "--threads", threads, "--preset",
         options.preset, "--batch", str(options.batch), "--length", str(options.length), "--steps",
         str(options.steps), *more], {}, TIMEOUT_SECONDS))
    return [step["ms"] for step in found["steps"]], found["product_flops_per_s"], found["flops"]


def launch_other(line):
    """Of the shell command of another program."""
    printed = llmc.step_times(launch.run(["sh", "-c", line], {}, TIMEOUT_SECONDS))
    if len(printed) < 2:
        raise launch.Failure("%s: no step times in the output" % line)
    return printed[1:], None, None


def measure(options):
    """{row, or None for the other program: [what a launch returned]}."""
    found = {}

    def launch_one(row):
        try:
            return launch_other(options.beside) if row is None else launch_step(options, row)
        except launch.Failure as failure:
            raise launch.Failure("%s: %s" % (options.beside if row is None else row,
                                             failure)) from None
    for _ in range(options.rounds):
        contenders = [*options.rows, *([None] if options.beside else [])]
        for row, made in rounds.take_turns(contenders, list, launch_one):
            found.setdefault(row, []).append(made)
    return found


# ---- showing -------------------------------------------------------------------------------------

def lines(options, found):
    times = {row: [ms for steps, _, _ in made for ms in steps] for row, made in found.items()}
    medians = {row: statistics.median(listed) for row, listed in times.items()}

    def rate(row):
        """Of the step's products, to that of one large product alone."""
        if row is None:
            return ""
        flops = found[row][-1][2]
        return "%.3f" % (flops / medians[row] * 1e3 / max(rate for _, rate, _ in found[row]))
    yield "%s, batch %d of %d tokens; medians of %d steps in %d rounds" % (
        options.preset, options.batch, options.length, options.rounds * options.steps,
        options.rounds)
    yield from table.lines([
        table.Column("ranks x threads", lambda row: row or "the other program", 24, left=True),
        table.Column("step\n(ms)", lambda row: "%.1f" % medians[row], 9),
        table.Column("fastest\n(ms)", lambda row: "%.1f" % min(times[row]), 9),
        table.Column("tokens/s", lambda row: "%.1f" % (
            options.batch * options.length / medians[row] * 1e3), 10),
        table.Column("rate / of a\nlarge product", rate),
        table.Column("relative\nspeed", lambda row: "%.3f" % (
            medians[options.rows[0]] / medians[row]), 9)], found)


def main():
    options = parse_arguments()
    print("\n".join(lines(options, measure(options))))
    return 0

"""Compares the time of a GPT-2 training step in libtrain with PyTorch's, and with its parts
alone: libtrain's own matrix products plus the memory traffic of gradient norm and AdamW (bench/step
--limit). They are no bound: a product may be faster within a step.

For each row (a model, a batch, a length) and precision all programs are started once and stay
alive; each round times some steps of every one of them, in random order. PyTorch is measured eager
and with torch.compile, as a user would write the model (bench/peers/gpt2_torch.py), with threads
bound to cores and not; only the faster of the two is kept. A ratio is of times of one round: above
1, libtrain is faster. In other precisions than float32, libtrain also runs in float32 in the same
rounds.

llm.c's train_gpt2 is measured as it is, in rows of the batch and length that are compiled in and in
float32, with bound or unbound threads as PyTorch. Its times are those that it prints; its step has
no gradient norm. It is stopped between rounds, and the step that this interrupts does not count.

Run it on an otherwise idle machine. Exit code: 0, 2 if a program failed, 130 after Ctrl-C or
SIGTERM, which shows what was measured so far."""
import os
import signal
import statistics

from comparison import arguments, command, machine, rounds, table
from comparison.command import ROOT
from comparison.contenders import groups, llmc, trainings
from comparison.contenders.trainings import OURS, OURS_FLOAT32
from comparison.plots import bars, page
from comparison.progress import Progress

NAME = "bench/train-compare"
EXAMPLES = """examples:
  bench/train-compare --python ~/venv/bin/python
                                                all rows and precisions, in about an hour
  bench/train-compare --python ~/venv/bin/python --python /usr/bin/python3 \\
    --rows gpt2:4x64 --precision bf16 --rounds 6
                                                one row, with two releases of PyTorch
  bench/train-compare --llmc ~/llm.c --rows gpt2:4x64 --precision float32
                                                libtrain and llm.c
  bench/train-compare --rows mini:16x256 --rounds 3
                                                libtrain and the limit only
  bench/train-compare --python python3 --json steps.json --plot steps.svg
"""
ROWS = ["gpt2:4x64", "gpt2:8x256", "gpt2:4x1024", "mini:16x256"]
PRECISIONS = ("float32", "bf16", "fp16", "bf16-pure")


def parse_arguments():
    parser = command.Parser(NAME, __doc__, EXAMPLES)
    add = parser.add_argument
    add("--python", action="append", default=[], metavar="PATH",
        help="an interpreter that has PyTorch; may be repeated")
    add("--llmc", metavar="PATH",
        help="llm.c's train_gpt2, or its folder; writes 0.5 GB to the temporary folder")
    add("--kinds", type=arguments.word_list(trainings.KINDS), default=list(trainings.KINDS),
        help="of PyTorch, a list (eager,compiled)")
    add("--rows", type=arguments.model_rows, default=arguments.model_rows(",".join(ROWS)),
        help="a list of PRESET:BATCHxLENGTH (%s)" % ",".join(ROWS))
    add("--precision", type=arguments.word_list(PRECISIONS), default=list(PRECISIONS),
        help="a list (%s)" % ",".join(PRECISIONS))
    add("--rounds", type=arguments.positive, default=8, help="per row and precision (8)")
    add("--steps", type=arguments.positive, default=3,
        help="steps of a program in a round, whose median counts (3)")
    add("--threads", type=arguments.positive, default=len(os.sched_getaffinity(0)),
        help="of every program (the number of cores)")
    parser.add_seed()
    parser.add_json()
    add("--plot", metavar="FILE", help="write them as bars there, an SVG")
    parser.add_from()
    parser.add_build()
    options = parser.parse_args()
    if options.llmc:
        try:
            options.llmc = llmc.Program(options.llmc, options.build)
        except ValueError as error:
            parser.error("--llmc: %s" % error)
    options.torch_program = os.path.join(ROOT, "bench", "peers", "gpt2_torch.py")
    return options


def take(options):
    """Measures and prints; returns the document that is written as JSON."""
    effort = trainings.Effort(options.rounds, options.steps, options.threads, options.kinds,
                              options.seed)
    document = machine.begin(NAME, settings=effort._asdict(), groups=[])
    pairs = [(row, precision) for row in options.rows for precision in options.precision]
    progress = Progress(len(pairs) * options.rounds)
    for row, precision in pairs:
        found = trainings.Group(options, row, precision, effort, progress.say).run(progress)
        progress.clear()
        print("\n".join(group_lines(found)), flush=True)
        document["groups"].append(found)
        if found.get("interrupted"):
            break
    return machine.end(document)


# ---- figures -------------------------------------------------------------------------------------

def ratio_to_ours(group, name):
    """The Estimate of the time of a program / that of libtrain in the same precision."""
    times = group["times_ms"]
    return rounds.estimate(rounds.quotients(times[name], times[OURS]))


def parts_to_step(group, name):
    """The median of the time of a step's parts alone / the time of a program; None without it."""
    return rounds.median(rounds.quotients(group["limit_ms"], group["times_ms"][name]))


def ordered(group):
    """libtrain, libtrain in float32, then the peers by time."""
    times = group["times_ms"]
    return sorted(times, key=lambda name: (name != OURS, name != OURS_FLOAT32,
                                           statistics.median(times[name])))


def parts_of(group):
    return [limit for limit in group["limit_ms"] if limit]


# ---- showing -------------------------------------------------------------------------------------

def columns(group):
    def of(show):
        """A cell of a program; that of the parts is empty."""
        return lambda row: show(row[0]) if row[0] in group["times_ms"] else ""
    bound = {None: "", True: "bound threads", False: "unbound threads"}
    return [
        table.Column("", lambda row: row[0], 26, left=True),
        table.Column("median\n(ms)", lambda row: "%.1f" % statistics.median(row[1]), 9),
        table.Column("fastest\n(ms)", lambda row: "%.1f" % min(row[1]), 9),
        table.Column("time /\nlibtrain", of(
            lambda name: "%.2f" % ratio_to_ours(group, name).median)),
        table.Column("95 %\ninterval", of(
            lambda name: table.interval_text(ratio_to_ours(group, name))), 12, left=True),
        table.Column("parts /\ntime", of(lambda name: table.number(parts_to_step(group, name)))),
        table.Column("", of(lambda name: bound[group["bound"].get(name)]), left=True)]


def group_lines(group):
    yield "%s, %s, %d rounds%s" % (group["row"], group["precision"], len(group["limit_ms"]),
                                   ", interrupted" if group.get("interrupted") else "")
    rows = [(name, group["times_ms"][name]) for name in ordered(group)]
    if parts_of(group):
        rows.append(("parts of a step, alone", parts_of(group)))
    if rows:
        yield from table.lines(columns(group), rows, indent="  ")
    yield from groups.failure_lines(group)
    yield ""


def head_lines(document):
    settings = document["settings"]
    return list(machine.heading(document, "%d threads, medians of %d steps, seed %d" % (
        settings["threads"], settings["steps"], settings["seed"])))


def draw(document):
    colors, shown = {OURS: page.OURS, OURS_FLOAT32: page.OURS_TOO}, []
    for group in document["groups"]:
        parts = rounds.median(group["limit_ms"])
        made = [bars.Bar(name, median, "%.0f ms, %.2f×" % (median,
                                                           ratio_to_ours(group, name).median),
                         colors.get(name, page.PEER), parts)
                for name in ordered(group)
                for median in [statistics.median(group["times_ms"][name])]]
        if made:
            shown.append(bars.Group("%s, %s" % (group["row"], group["precision"]), made))
    return bars.draw("Time of a training step; the line: its parts alone", head_lines(document),
                     shown)


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.source:
        document = command.read(options.source, NAME)
        print("\n".join([*head_lines(document), "", *(
            line for group in document["groups"] for line in group_lines(group))]))
    else:
        document = take(options)
    command.save(options, document, "")
    if options.plot:
        command.write(options.plot, draw(document))
    return groups.exit_code(document["groups"])

"""Compares the speed of gpt train's layouts on two cores: one rank of two threads, and two ranks
of one thread in data, tensor (with and without sequence), pipeline (8 micro-batches) and context
parallelism. Every round launches each of them, in random order, for some seconds; the speed of a
round is that of the median step after the first two.

A layout passes with 0.85 of the speed of the better one of "one rank" and "dp2", times the share of
the time that the pipeline's bubble leaves by its closed formula (gpt schedule), which for 1f1b is
1 - (p-1) / (m+p-1). Naive data parallelism is a baseline and need not pass. With --python PyTorch
is measured beside them: the same model on one rank of two threads, and DistributedDataParallel on
two ranks (bench/peers/gpt2_torch.py).

Run it on an otherwise idle machine. Exit code: 0, 1 if a layout misses its limit, 2 if a program
failed, 130 after Ctrl-C or SIGTERM, which shows what was measured so far."""
import argparse
import collections
import fnmatch
import json
import os
import signal
import statistics

from comparison import arguments, command, machine, rounds, table
from comparison.command import ROOT
from comparison.contenders import groups, launches
from comparison.plots import bars, page
from comparison.progress import Progress

NAME = "bench/parallel-compare"
EXAMPLES = """examples:
  bench/parallel-compare --python ~/venv/bin/python --out bench/results/parallel
                                                all layouts of two models, in half an hour
  bench/parallel-compare --model mini:16x256 --rows 'tp2*' --rounds 12
                                                tensor parallelism and the references
  bench/parallel-compare --quick                whether all of it runs, in half a minute
  bench/parallel-compare --from bench/results/parallel.json
"""
MODELS = "mini:16x256,midi:16x256"
ROUNDS, SECONDS = 6, 12.0
QUICK_MODEL, QUICK_SECONDS = "tiny:16x64", 0.5
ONE_RANK, DP2 = "one rank", "dp2"
REFERENCES = (ONE_RANK, DP2)
NAIVE_DP2 = "naive dp2"
BASELINES = (ONE_RANK, NAIVE_DP2)  # need not pass
ROWS = {ONE_RANK: "1x2", NAIVE_DP2: "2x1 --naive-dp", DP2: "2x1 --dp 2",
        "tp2": "2x1 --tp 2", "tp2 sp": "2x1 --tp 2 --sp",
        "pp2 1f1b": "2x1 --pp 2 --accumulate 8 --schedule 1f1b",
        "pp2 zb-h1": "2x1 --pp 2 --accumulate 8 --schedule zb-h1",
        "cp2 ring": "2x1 --cp 2 --cp-kind ring", "cp2 ulysses": "2x1 --cp 2 --cp-kind ulysses"}

# ---- options -------------------------------------------------------------------------------------

def seconds(text):
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError("'%s' is not above 0" % text)
    return value


def selected(pattern):
    """The rows that match; the references in any case."""
    if not fnmatch.filter(ROWS, pattern):
        raise argparse.ArgumentTypeError("'%s' matches none of %s" % (
            pattern, ", ".join(ROWS)))
    return {name: text for name, text in ROWS.items()
            if name in REFERENCES or fnmatch.fnmatch(name, pattern)}


def parse_arguments():
    parser = command.Parser(NAME, __doc__, EXAMPLES)
    add = parser.add_argument
    add("--model", type=arguments.model_rows,
        help="a list of PRESET:BATCHxLENGTH (%s)" % MODELS)
    add("--rows", type=selected, default=ROWS, metavar="PATTERN",
        help="layouts beside the references, such as 'pp2*' (all: %s)" % ", ".join(ROWS))
    add("--python", action="append", default=[], metavar="PATH",
        help="an interpreter that has PyTorch; may be repeated")
    add("--rounds", type=arguments.positive, help="per model (%d)" % ROUNDS)
    add("--time", type=seconds, metavar="SECONDS",
        help="of training in a launch (%g)" % SECONDS)
    add("--quick", action="store_true",
        help="a tiny model, one round of %g s; its speeds are not to be trusted" % QUICK_SECONDS)
    add("--data", default=os.path.join(ROOT, "docs"), metavar="PATH",
        help="text to train on (docs)")
    parser.add_seed()
    add("--json", action="store_true", help="print the figures as JSON instead of a table")
    parser.add_out("txt", "json", "svg")
    parser.add_from()
    parser.add_build()
    options = parser.parse_args()
    options.model = options.model or arguments.model_rows(QUICK_MODEL if options.quick else MODELS)
    options.rounds = options.rounds or (1 if options.quick else ROUNDS)
    options.time = options.time or (QUICK_SECONDS if options.quick else SECONDS)
    options.torch_program = os.path.join(ROOT, "bench", "peers", "gpt2_torch.py")
    return options


def take(options):
    """Measures, and returns the document that is written as JSON."""
    effort = launches.Effort(options.rounds, options.time, not options.quick, options.seed)
    document = machine.begin(NAME, settings=effort._asdict(), groups=[])
    progress = Progress(len(options.model) * options.rounds)
    for model in options.model:
        found = launches.Group(options, model, effort, progress.say if progress.shown
                               else lambda _: None).run(progress)
        progress.clear()
        document["groups"].append(found)
        if found.get("interrupted"):
            break
    return machine.end(document)


# ---- judging -------------------------------------------------------------------------------------

LIMIT = 0.85

# ratio: Estimate of the speed / that of the reference, None without one. limit: None for rows that
# need not pass.
Judgement = collections.namedtuple("Judgement", "name speed fastest ratio attainable limit passes")


def reference(group):
    """The name of the faster one of the references; None without figures of one."""
    speeds = group["tokens_per_s"]
    measured = [name for name in REFERENCES if speeds.get(name)]
    return max(measured, key=lambda name: statistics.median(speeds[name]), default=None)


def judge(group, name):
    speeds, best = group["tokens_per_s"], reference(group)
    ratio = None
    if best is not None:
        ratio = rounds.estimate(rounds.quotients(speeds[name], speeds[best]))
    attainable = group["attainable"].get(name)
    judged = name in group["layouts"] and name not in BASELINES and ratio is not None
    limit = LIMIT * attainable if judged else None
    return Judgement(name, statistics.median(speeds[name]), max(speeds[name]), ratio, attainable,
                     limit, not judged or ratio.median >= limit)


def judgements(group):
    """In the order of measuring: layouts, then peers."""
    names = [*(name for name in group["layouts"] if name in group["tokens_per_s"]),
             *(name for name in group["tokens_per_s"] if name not in group["layouts"])]
    return [judge(group, name) for name in names]


def passes(group):
    return all(judgement.passes for judgement in judgements(group))


# ---- showing -------------------------------------------------------------------------------------

def columns(group):
    def verdict(row):
        return "" if row.limit is None else "passes" if row.passes else "MISSES"
    return [
        table.Column("", lambda row: row.name, left=True),
        table.Column("tokens/s\n(median)", lambda row: "%.0f" % row.speed),
        table.Column("\nfastest", lambda row: "%.0f" % row.fastest),
        table.Column("of the\nbetter", lambda row: table.number(row.ratio and row.ratio.median)),
        table.Column("95 %\ninterval", lambda row: table.interval_text(row.ratio), left=True),
        table.Column("attainable", lambda row: table.number(row.attainable)),
        table.Column("limit", lambda row: table.number(row.limit)),
        table.Column("", verdict, left=True),
        table.Column("ranks x\nthreads, options", lambda row: group["layouts"].get(row.name, ""),
                     left=True)]


def group_lines(group):
    count = max(map(len, group["tokens_per_s"].values()), default=0)
    yield "%s, %.1f M parameters, %s%s" % (
        group["model"], (group["parameters"] or 0) * 1e-6, table.count_text(count, "round"),
        ", interrupted" if group.get("interrupted") else "")
    if group["tokens_per_s"]:
        yield from table.lines(columns(group), judgements(group), indent="  ")
    yield from groups.failure_lines(group)
    yield ""


def lines(found):
    for group in found:
        yield from group_lines(group)
    yield ("of the better: the speed / that of the better one of %s; attainable: the share of the "
           "time that" % " and ".join(REFERENCES))
    yield "the bubble leaves by its formula; limit: %.2f of that" % LIMIT


def head_lines(document):
    settings = document["settings"]
    return list(machine.heading(document, "launches of %g s, seed %d" % (settings["seconds"],
                                                                         settings["seed"])))


def color_of(group, name):
    if name not in group["layouts"]:
        return page.PEER
    return page.OURS_TOO if name in REFERENCES else page.OURS


def draw(found, notes):
    shown = []
    for group in found:
        rows = judgements(group)
        best = max((row.speed for row in rows if row.name in REFERENCES), default=0)
        made = [bars.Bar(row.name, row.speed, "%.0f tokens/s%s" % (
            row.speed, "" if row.ratio is None else ", %.2f×" % row.ratio.median),
            color_of(group, row.name), row.limit and best * row.limit) for row in rows]
        if made:
            shown.append(bars.Group("%s, %.1f M parameters" % (
                group["model"], (group["parameters"] or 0) * 1e-6), made))
    return bars.draw("Layouts on two cores; a line is the limit of its row", notes, shown)


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    document = command.read(options.source, NAME) if options.source else take(options)
    text = "\n".join([*head_lines(document), "", *lines(document["groups"])])
    print(json.dumps(document, indent=1) if options.json else text)
    command.save(options, document, text, draw(document["groups"], head_lines(document)))
    return groups.exit_code(document["groups"], passes)

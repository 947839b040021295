"""Compares two builds of libcoll: is NEW slower than OLD anywhere? OLD and NEW are git revisions,
which are built once and kept, or build folders, which are taken as they are.

Every round runs OLD, NEW and a byte copy of OLD, one after the other in random order, on every row:
a collective, a size, a kind of memory, a number of ranks. A row's speed is the median over the
rounds of OLD's time / NEW's time: below 1, NEW is slower. The copy's ratio, A/A, shows by how much
a build differs from itself on this machine. Around both stands a 95 % interval that assumes nothing
about how times are distributed (order statistics); it needs 6 rounds.

A row has lost if its interval lies wholly below 0.97 and below that of A/A. Where OLD takes less
than 100 ns, it has lost if NEW takes over 5 ns more and the interval of the difference lies above
that of A/A. At most two rows in a hundred may lose. A loss that has a reason is listed with it and
not counted (--accept), unless its interval lies wholly below 0.90.

With --net each rank has a host of its own: hosts are network namespaces of this machine, joined by
unshaped links, over which TCP has the congestion control reno (bench/compare --net), so this needs
root.

A round's time is collbench's: float32, sums, out of place, the median of 10 batches, each as slow
as its slowest rank. The first round checks every element of the results.

Exit code: 0 if at most as many rows lost as may, 1 if more did, 2 if a run failed or a verdict
needs more rounds, 130 after Ctrl-C, which shows what was measured so far."""
import contextlib
import os
import shlex
import sys

from comparison import arguments, command, figures, judgement as rule, machine, rounds, rows
from comparison import table
from comparison.contenders import builds, networks, sides
from comparison.contenders.hosts import Hosts
from comparison.plots import speeds
from comparison.progress import Progress

NAME = "bench/ab"
EXAMPLES = """examples:
  bench/ab HEAD~1 HEAD                          the last commit, in ten minutes
  bench/ab HEAD build --quick                   what is not yet committed (ninja -C build first)
  bench/ab HEAD~20 HEAD --rows 'allreduce/*/coll' --rows barrier --time 120
                                                some rows, in two minutes
  bench/ab HEAD HEAD --new-env COLL_TUNE=builtin
                                                one build, with a knob and without
  bench/ab build build --net --new-env COLL_RECONNECT=none
                                                the same between two hosts
  bench/ab HEAD~1 HEAD --args '-d bfloat16'     with other options of collbench, on both sides
  bench/ab HEAD~20 HEAD --time 3600 --out bench/results/faster
                                                writes faster.txt, .json and .svg there
  bench/ab --from faster.json --accept 'sendrecv/4=no copy is kept' --out bench/results/faster
                                                judges what was measured before, once more
"""
COLLECTIVES = figures.COLLECTIVES + ("alltoallv", "barrier", "allgatherv", "reduce_scatterv",
                                     "gatherv", "scatterv")
FULL = {"collectives": "allreduce,allgather,reduce_scatter,broadcast,alltoall,barrier,sendrecv",
        "sizes": "4..16M", "ranks": "2,4", "mem": "coll,malloc", "time": 600}
QUICK = {"collectives": "allreduce,allgather,barrier,sendrecv", "sizes": "4,1K,64K,1M",
         "ranks": "2", "mem": "coll,malloc", "time": 30}
NET = {"collectives": "allreduce,allgather,sendrecv", "ranks": "2", "mem": "coll"}
LABELS = speeds.Labels("Speed of NEW as a multiple of OLD's, by size",
                       "A/A: OLD / copy of OLD, 95 % interval", rule.BUILDS.speed_min)
OUTPUT_LINES_SHOWN = 12


# ---- options -------------------------------------------------------------------------------------

def parser_of():
    parser = command.Parser(NAME, __doc__, EXAMPLES)
    add = parser.add_argument
    add("old", metavar="OLD", nargs="?", help="git revision or build folder")
    add("new", metavar="NEW", nargs="?", help="git revision or build folder")
    add("--rows", action="append", default=[], metavar="PATTERN",
        help="only these, as allreduce/2/coll/4K, allreduce/2, '*/malloc/*'; may be repeated")
    add("--list", action="store_true", help="only list the names of the rows")
    add("--collectives", type=arguments.word_list(COLLECTIVES),
        help="a list (%s)" % FULL["collectives"])
    add("--sizes", type=arguments.size_list, help="4,1K or 4..64M, by factors of four (4..16M)")
    add("-n", "--ranks", type=arguments.rank_list, help="a list (2,4)")
    add("--mem", type=arguments.word_list(tuple(figures.OURS)),
        help="of the buffers: coll for coll_mem_alloc, malloc (coll,malloc)")
    add("--net", action="store_true", help="between hosts, one rank on each (without other options "
        "%s, two ranks, coll)" % NET["collectives"])
    add("--place", choices=("out", "in"), default="out", help="results out of place or in place")
    add("--time", type=arguments.positive, metavar="SECONDS",
        help="rounds are made until it is spent, one at least (600)")
    add("--rounds", type=arguments.positive, help="so many, however long they take")
    add("--time-ms", type=arguments.positive, default=10,
        help="time that a round's calls of one row take (10)")
    add("--quick", action="store_true", help="fewer rows, half a minute")
    for side in ("", "old-", "new-"):
        add("--%senv" % side, action="append", type=arguments.assignment, default=[],
            metavar="NAME=VALUE", help="for the environment of %s; may be repeated"
            % (side[:-1].upper() or "both"))
    add("--args", default="", metavar="OPTIONS", help="more options of collbench, for both")
    add("--accept", action="append", type=arguments.assignment, default=[], metavar="ROW=REASON",
        help="do not count these rows (a PATTERN) if they lose; may be repeated")
    add("--limit", type=arguments.positive, default=60, metavar="SECONDS",
        help="a launch that takes longer has failed (60)")
    parser.add_seed()
    add("--cache", default=os.path.join(command.ROOT, "build", "ab"), metavar="FOLDER",
        help="of built revisions, those of the last %d commits used (build/ab)"
        % builds.COMMITS_KEPT)
    parser.add_json()
    parser.add_out("txt", "json", "svg")
    parser.add_from()
    return parser


def parse_arguments():
    parser = parser_of()
    options = parser.parse_args()
    defaults = QUICK if options.quick else FULL
    arguments.set_missing(options, {**defaults, **NET} if options.net else defaults)
    options.args = shlex.split(options.args)
    options.cache = os.path.abspath(options.cache)
    if (options.new is None) != bool(options.source or options.list):
        parser.error("give OLD and NEW, or --from FILE, or --list")
    return options


def say(text):
    command.say(NAME, text)


# ---- measuring -----------------------------------------------------------------------------------

def describe_side(build, environment):
    return {"named": build.named, "commit": build.commit, "subject": build.subject,
            "folder": os.path.relpath(build.folder, command.ROOT), "notes": build.notes,
            "environment": environment}


@contextlib.contextmanager
def place(options, folder):
    """Yields sides.Place."""
    if not options.net:
        yield sides.HERE
        return
    with Hosts(max(options.ranks), folder) as hosts:
        yield networks.place_of(command.ROOT, hosts)


def take(options, units):
    """Builds, measures, and returns the document that is written as JSON."""
    found = {side: builds.find(command.ROOT, options.cache, named, say)
             for side, named in (("old", options.old), ("new", options.new))}
    found["copy"] = found["old"]
    environments = {side: dict(options.env + more) for side, more in (
        ("old", options.old_env), ("new", options.new_env), ("copy", options.old_env))}
    effort = sides.Effort(options.time, options.rounds, options.time_ms, options.place,
                          options.args, options.limit, options.seed)
    document = machine.begin(
        NAME, settings=dict(effort._asdict(), dtype="float32", op="sum", net=options.net),
        old=describe_side(found["old"], environments["old"]),
        new=describe_side(found["new"], environments["new"]))
    with builds.temporary(options.cache) as folder:
        copies = builds.copy_sides(found["old"], found["new"], folder)
        running = [sides.Side(side, copies[side], os.path.relpath(found[side].folder),
                              environments[side]) for side in sides.SIDES]
        with place(options, folder) as where:
            sides.check_sides(running, effort, where)
            survey = sides.Survey(running, units, effort, where)
            say("%d rows, %s" % (len(survey.rows), "%d rounds" % options.rounds if options.rounds
                                 else "%d s" % options.time))
            survey.run(Progress(survey.work()))
    return machine.end(document, rounds=survey.rounds, interrupted=survey.interrupted,
                       failures=survey.failures, rows=list(survey.rows.values()))


def read(path, patterns):
    """The document of an earlier run, with the rows that some pattern matches, if there are any."""
    document = command.read(path, NAME)
    rows.check_patterns(patterns, [row["name"] for row in document["rows"]])
    document["rows"] = [row for row in document["rows"] if not patterns or any(
        rows.matches(pattern, row["name"]) for pattern in patterns)]
    return document


# ---- showing: found is [(row, Judgement or None, reason or None)] --------------------------------

CODES = {rule.LOST: (table.RED, table.BOLD), rule.ACCEPTED: (table.RED,),
         rule.GAINED: (table.GREEN,), rule.UNKNOWN: (table.DIM,), rule.EVEN: ()}


def judge_all(document, accepted):
    reasons = [(row, rows.reason_for(row["name"], accepted)) for row in document["rows"]]
    return [(row, rule.judge(row["times_us"], reason), reason) for row, reason in reasons]


def side_line(side, described):
    words = [described["named"]]
    if described["commit"]:
        words += ["(%s)" % described["commit"][:12], described["subject"]]
    words += ["%s=%s" % pair for pair in described["environment"].items()]
    return "%s: %s" % (side.upper(), " ".join(words + ["[%s]" % note
                                                       for note in described["notes"]]))


def head_lines(document):
    settings = document["settings"]
    yield from machine.heading(document, "%s %s, %s%s; rounds: %d, seed %d" % (
        settings["dtype"], settings["op"],
        "out of place" if settings["place"] == "out" else "in place",
        "".join(" " + word for word in settings["arguments"]), document["rounds"],
        settings["seed"]))
    if settings.get("net"):
        yield "between hosts that are network namespaces, one rank on each; unshaped links, reno"
    yield side_line("old", document["old"])
    yield side_line("new", document["new"])
    if document["interrupted"]:
        yield "interrupted; this is what was measured so far"
    yield ""


def difference_text(slower_ns):
    return "%+.1f" % slower_ns.median + table.interval_text(slower_ns, " (%+.1f to %+.1f)")


def note_of(row, judgement, reason):
    """What stands behind the verdict, and where the two sides choose differently."""
    notes = []
    if judgement.verdict == rule.ACCEPTED:
        notes.append(reason)
    if judgement.verdict == rule.LOST and reason is not None:
        notes.append("too much to be accepted (%s)" % reason)
    if rule.is_short(judgement):
        notes.append("%s ns, A/A %s" % (difference_text(judgement.slower_ns),
                                        difference_text(judgement.same_ns)))
    old, new = ("/".join(row["algorithms"][side]) for side in ("old", "new"))
    return "; ".join([*notes, *(["%s -> %s" % (old, new)] if old != new else [])])


def columns():
    def of(show):
        """A cell of rows that were measured."""
        return lambda found: show(found[1]) if found[1] else ""
    return [
        table.Column("row", lambda found: found[0]["name"], left=True),
        table.Column("OLD\n(us)", lambda found: table.time_text(found[1].old_us) if found[1]
                     else "not measured"),
        table.Column("NEW\n(us)", of(lambda one: table.time_text(one.new_us))),
        *table.estimate_columns("speed: OLD / NEW", lambda found: found[1] and found[1].speed,
                                lambda found: CODES[found[1].verdict]),
        *table.estimate_columns("A/A: OLD / copy", lambda found: found[1] and found[1].same,
                                lambda found: (table.DIM,)),
        table.Column("rounds", of(lambda one: str(one.rounds))),
        table.Column("", of(lambda one: (one.verdict, *CODES[one.verdict])), left=True),
        table.Column("", lambda found: note_of(*found) if found[1] else "", left=True)]


def together_lines(found, style):
    """Of the rows of a unit, and of all."""
    units = {}
    for row, judgement, _ in found:
        if judgement:
            units.setdefault(rows.unit_of(row), []).append(row["times_us"])
    if len(units) > 1:
        units["all rows"] = sum(units.values(), [])
    if units:
        yield "taken together, the geometric mean of a round's speeds:"
        together = [(name, *rule.speeds_together(several)) for name, several in units.items()]
        yield from table.lines([
            table.Column("", lambda one: one[0], left=True),
            *table.estimate_columns("speed: OLD / NEW", lambda one: one[1]),
            *table.estimate_columns("A/A: OLD / copy", lambda one: one[2],
                                    lambda one: (table.DIM,))], together, style=style)
        yield ""


def failure_lines(failures):
    for failure in failures:
        yield "FAILED: %s, %s, round %d: %s" % (
            failure["side"].upper(), failure["unit"], failure["round"], failure["reason"])
        yield "  %s" % failure["command"]
        for line in failure["output"].splitlines()[-OUTPUT_LINES_SHOWN:]:
            yield "  | %s" % line
    if failures:
        yield ""


def summary_lines(found, summary):
    if not any(judgement for _, judgement, _ in found):
        yield "nothing was measured"
        return
    if summary.unknown:
        yield "too few rounds for an interval (%d): %s" % (rounds.ROUNDS_MIN,
                                                           table.count_text(summary.unknown))
    if not summary.judged:
        return
    if summary.disturbed:
        yield "disturbed: %s, where the copy of OLD differs from OLD by as much as counts as " \
            "lost or gained" % table.count_text(summary.disturbed)
    if summary.unsure:
        yield "undecided: %s that have not lost, but whose interval does not exclude it; more " \
            "--time narrows it" % table.count_text(summary.unsure)
    yield "%s: %d of %s lost, %d may; %d accepted, %d gained, %d undecided" % (
        "PASS" if rule.passes(summary) else "FAIL", summary.lost,
        table.count_text(summary.judged), rule.lost_max(summary.judged), summary.accepted,
        summary.gained, summary.unsure)


def text_of(document, found, summary, colored=False):
    style = table.Style(colored)
    return "\n".join([*head_lines(document), *table.lines(columns(), found, style=style), "",
                      *together_lines(found, style), *failure_lines(document["failures"]),
                      *summary_lines(found, summary)])


def with_judgements(document, found, summary):
    """The document with what was made of its times."""
    judged = []
    for row, judgement, reason in found:
        made = judgement._asdict() if judgement else {}
        for name in ("speed", "same", "slower_ns", "same_ns"):
            if name in made:
                made[name] = made[name]._asdict()
        judged.append(dict(row, judgement=made or None, accepted_because=reason))
    return dict(document, rows=judged, summary=summary._asdict(), passed=rule.passes(summary))


def main():
    options = parse_arguments()
    if options.source:
        document = read(options.source, options.rows)
        names = [row["name"] for row in document["rows"]]
    else:
        units = rows.select(rows.units_of(options.collectives, options.ranks, options.mem,
                                          options.sizes), options.rows)
        names = rows.names_of(units)
    rows.check_patterns([pattern for pattern, _ in options.accept], names)
    if options.list:
        print("\n".join(names))
        return 0
    if not options.source:
        document = take(options, units)
    found = judge_all(document, options.accept)
    summary = rule.summarize([judgement for _, judgement, _ in found])
    print(text_of(document, found, summary, sys.stdout.isatty()))
    command.save(options, with_judgements(document, found, summary),
                 text_of(document, found, summary),
                 speeds.draw([pair[:2] for pair in found], list(head_lines(document)), LABELS))
    if document["interrupted"]:
        return command.INTERRUPTED
    if not rule.passes(summary):
        return command.LOST
    return command.FAILED if document["failures"] or summary.unknown or not summary.judged else 0

"""What the comparisons with peers show: a table and a plot per block of rows, and the targets."""
import sys

from comparison import command, figures, sizes, table
from comparison.contenders.peers import FAMILIES
from comparison.plots import page, times

MEMORY_NAMES = {"coll": "coll_mem", "malloc": "malloc"}
CODES = {figures.PASS: (table.GREEN,), figures.FAIL: (table.RED, table.BOLD),
         figures.BEYOND: (table.DIM,), None: ()}


# ---- table ---------------------------------------------------------------------------------------

SOCKETS = "sockets"


def plain_name(rows):
    return SOCKETS if "hosts" in rows[0] else "copies"


def best_text(row):
    """"Open MPI, copy": the best peer and its setting."""
    best = figures.best_peer(row)
    if best is None:
        return "-"
    family, setting = best[1].split("/")
    return "%s, %s" % (FAMILIES[family], setting)


def families_of(rows):
    found = {family for row in rows for family in figures.best_settings(row)}
    return [family for family in FAMILIES if family in found]


def peer_columns(family):
    def best(row):
        return figures.best_settings(row).get(family, (None, "/"))
    group = "best setting of each peer (us)"
    return [table.Column(FAMILIES[family], lambda row: table.time_text(best(row)[0]), 9,
                         group=group),
            table.Column("", lambda row: (best(row)[1].split("/")[1], table.DIM), left=True,
                         group=group)]


def memory_columns(memory, plain):
    """(its times, ratios, those of plain copies or sockets, plain times) as lists of columns."""
    name = MEMORY_NAMES[memory]

    def verdict(row):
        made = figures.verdict(row, memory)
        return (made or "", *CODES[made])

    def over_ours(row):
        return (table.times_text(figures.plain_over_ours(row, memory)),
                *CODES[figures.plain_verdict(row, memory)])

    def variant(row):
        best = figures.best_variant(row)
        return (best[1] if best and best[1] != figures.UNNAMED else "", table.DIM)
    return (
        [table.Column(name, lambda row: (table.time_text(figures.time_us(row, memory)),
                                         table.BOLD), 9, group="time (us)")],
        [table.Column(name, lambda row: table.times_text(figures.ratio(row, memory)),
                      group="best peer / ours"),
         table.Column("", verdict, left=True, group="best peer / ours")],
        [table.Column(name, lambda row: table.times_text(figures.peer_over_plain(row, memory)),
                      group="best peer / " + plain)],
        [table.Column(name, lambda row: table.time_text(figures.plain_us(row, memory)),
                      group=plain + " (us), / ours"),
         *([table.Column("", variant, left=True, group=plain + " (us), / ours")]
           if plain == SOCKETS else []),
         table.Column("", over_ours, group=plain + " (us), / ours")])


def columns_of(rows):
    memories = [memory for memory in figures.OURS if any(memory in row["times_us"] for row in rows)]
    made = [memory_columns(memory, plain_name(rows)) for memory in memories]
    ours, ratios, peers, plain = ([column for columns in made for column in columns[at]]
                                  for at in range(4))
    return [table.Column("size", lambda row: sizes.size_text(row["bytes"]), 10), *ours,
            *(column for family in families_of(rows) for column in peer_columns(family)),
            table.Column("best peer", best_text, left=True), *ratios, *peers, *plain]


def lines(title, rows, style):
    yield style.paint(title, table.BOLD)
    yield from table.lines(columns_of(rows), rows, style=style)
    yield ""


# ---- targets -------------------------------------------------------------------------------------

def target_text(target):
    names = target.collectives
    is_all = set(names) == set(figures.COLLECTIVES)
    return "%s, %s ranks, %s to %s" % (
        "all" if is_all else ", ".join(names), " or ".join(map(str, target.ranks)),
        sizes.size_text(target.min_bytes), sizes.size_text(target.max_bytes))


def summary_columns():
    def judged(summary):
        verdict = figures.summary_verdict(summary)
        return (verdict, *CODES[verdict])

    def wanted(summary):
        times = summary.target.times[summary.memory]
        return ">= %gx%s" % (times, " over plain copies" if summary.over_plain else "")

    def worst(summary):
        return "worst %s (%s, %s)" % (
            table.times_text(summary.worst), summary.worst_row["collective"],
            sizes.size_text(summary.worst_row["bytes"]))
    return [table.Column("", cell, left=True) for cell in (
        judged, lambda summary: "%2d of %2d rows, %2d beyond" % (summary.passed, summary.rows,
                                                                 summary.beyond),
        lambda summary: MEMORY_NAMES[summary.memory], wanted, worst,
        lambda summary: target_text(summary.target))]


def summary_lines(rows, style):
    summaries = figures.summarize(rows)
    if summaries:
        yield style.paint("Targets, of the best peer / ours (beyond: where plain copies would miss "
                          "them, too)", table.BOLD)
        yield from list(table.lines(summary_columns(), summaries, style=style, indent="  "))[1:]
        yield ""


def compare(options, name, build, measure, read, text_of, draw):
    """Builds and measures, or reads what was measured; prints and saves it. Returns the exit
    code."""
    if options.sources:
        document = read(options.sources)
    else:
        build(options)
        document = measure(options)
    print(text_of(document, sys.stdout.isatty()))
    command.save(options, document, text_of(document), draw(document))
    if any(failure["contender"] in figures.OURS for failure in document["failures"]):
        command.say(name, "libcoll itself failed; see above")
        return command.LOST
    return 0


# ---- plot ----------------------------------------------------------------------------------------

PLAIN = "plain"
COLORS = {"coll": page.OURS, "malloc": page.OURS_TOO, "openmpi": page.PEER, "mpich": page.GOOD,
          "intelmpi": "#c2a200", "gloo": "#9457a8", PLAIN: "#8a93a3"}
WIDTHS = {"coll": 2.6, "malloc": 2.6, PLAIN: 1.2}


def series_of(rows):
    """In drawing order; libcoll is last, on top."""
    names = {**figures.OURS, **FAMILIES, PLAIN: "plain " + plain_name(rows)}
    found = {PLAIN: [figures.plain_us(row, "coll") for row in rows]}
    for family in reversed(FAMILIES):
        found[family] = [figures.best_settings(row).get(family, (None,))[0] for row in rows]
    for memory in ("malloc", "coll"):
        found[memory] = [figures.time_us(row, memory) for row in rows]
    points = {name: [(row["bytes"], us) for row, us in zip(rows, listed) if us]
              for name, listed in found.items()}
    return [times.Series(names[name], COLORS[name], WIDTHS.get(name, 1.7), some, name == PLAIN)
            for name, some in points.items() if some]


def marks_of(row):
    ratios = [(memory, figures.ratio(row, memory)) for memory in figures.OURS]
    return [(("%.2g×" if ratio < 9.95 else "%.0f×") % ratio, COLORS[memory])
            for memory, ratio in ratios if ratio is not None]


def draw(notes, blocks, note_of, columns):
    """note_of(row): what a panel says of its rows."""
    panels = []
    for rows in blocks:
        marks = {row["bytes"]: marks_of(row) for row in rows}
        panels.append(times.Panel(
            rows[0]["collective"], note_of(rows[0]), [row["bytes"] for row in rows],
            series_of(rows), marks if any(marks.values()) else {}, "best peer ÷ ours"))
    return times.draw("Time of a call by size: libcoll, its peers, plain %s" % (
        plain_name(blocks[0]) if blocks else "copies"), notes, panels, columns)

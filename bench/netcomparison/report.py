"""The figures of bench/compare --net as text and plot."""
from comparison import figures, machine, plot, table
from comparison.contenders import networks as contenders
from netcomparison import hierarchy
from comparison.contenders.hosts import link_text

WORST_ROWS = 12


def where(row):
    return "%dx%d, %s" % (row["hosts"], row["per_host"], link_text(row["gbit"]))


def block_key(row):
    return row["gbit"], row["hosts"], row["per_host"], row["collective"]


def blocks_of(rows):
    """Groups rows by links, layout and collective, in order of first appearance."""
    blocks = {}
    for row in rows:
        blocks.setdefault(block_key(row), []).append(row)
    return [sorted(block, key=lambda row: row["bytes"]) for block in blocks.values()]


def head_lines(document):
    libraries = {}
    for name, contender in document["contenders"].items():
        if name != contenders.LIMIT:
            libraries.setdefault(figures.family_of(name), contender["library"])
    yield "bench/compare --net: collectives between hosts that are network namespaces"
    yield machine.sentence(document["machine"]) + ": all hosts share them"
    yield ", ".join(filter(None, libraries.values()))
    for part in document.get("parts", [document]):
        yield ("%s, revision %s, load %.1f before and %.1f after; float32 sum, out of place, "
               "rounds: %d" % (part["began"], part["revision"] or "unknown", part["load"]["before"],
                               part["load"]["after"], part["settings"]["rounds"]))
    yield ("Limit: the same bytes over plain TCP sockets between as many processes, and the passes "
           "over memory.")


# ---- tables

class Block(table.Block):
    """The rows of one collective, layout and shape of the links."""

    def lines(self):
        row = self.rows[0]
        yield self.style.paint("%s, %s" % (row["collective"], where(row)), table.BOLD)
        yield self.over_head().rstrip()
        yield self.head()
        for row in self.rows:
            yield self.line(row)
        yield ""


def traffic_lines(checks):
    """How many bytes crossed the links and loopback per call of an allreduce of 1 MiB."""
    if not checks:
        return
    yield "Bytes per allreduce of 1 MiB by the counters of the interfaces, in MiB:"
    yield "%-6s %-14s %9s %9s %9s" % ("hosts", "contender", "links", "at least", "loopback")
    for check in checks:
        yield "%-6s %-14s %9.2f %9.2f %9.2f" % (
            check["layout"], check["contender"], check["wire"] / figures.MIB,
            check["least"] / figures.MIB, check["loopback"] / figures.MIB)
    yield ""


def ratio(row):
    return figures.ratio(row, "coll")


def count_ahead(rows):
    return sum(ratio(row) >= 1 for row in rows)


def summary_lines(rows):
    """Counts and worst rows."""
    compared = [row for row in rows if ratio(row) is not None]
    if not compared:
        return
    yield "%d of %d rows level with the best peer or ahead of it" % (count_ahead(compared),
                                                                     len(compared))
    for key in dict.fromkeys((row["gbit"], row["hosts"], row["per_host"]) for row in compared):
        mine = [row for row in compared if (row["gbit"], row["hosts"], row["per_host"]) == key]
        yield "  %-20s %3d of %3d" % (where(mine[0]), count_ahead(mine), len(mine))
    large = [row for row in rows if row["bytes"] >= figures.MIB
             and figures.reached(row, "coll") is not None]
    good = sum(figures.reached(row, "coll") >= figures.NET_LIMIT_SHARE for row in large)
    yield "%d of %d rows of 1 MiB and more within %.0f %% of plain sockets" % (
        good, len(large), 100 * figures.NET_LIMIT_SHARE)
    yield "Farthest behind the best peer:"
    for row in sorted(compared, key=ratio)[:WORST_ROWS]:
        best_us, best = figures.best_peer(row)
        yield "  %-15s %-20s %8s  %9s us, %s %9s us, %s; limit reached %s" % (
            row["collective"], where(row), figures.size_text(row["bytes"]),
            table.time_text(figures.time_us(row, "coll")), best, table.time_text(best_us),
            table.times_text(ratio(row)), table.share_text(figures.reached(row, "coll")))
    yield ""


def text_of(document, colored=False):
    style = table.Style(colored)
    found = [*head_lines(document), ""]
    for block in blocks_of(document["rows"]):
        found += Block(block, style).lines()
    found += summary_lines(document["rows"])
    found += hierarchy.lines(document["algorithms"])
    found += traffic_lines(document["traffic"])
    return "\n".join(found)


def draw(document):
    return plot.draw(document, list(head_lines(document)), blocks_of(document["rows"]), where,
                     len(document["settings"]["collectives"]))

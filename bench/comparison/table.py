"""The figures as aligned text: a block per collective, then one line per target."""
from comparison import figures
from comparison.contenders.peers import FAMILIES

GREEN, RED, BOLD, DIM, PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[1m", "\x1b[2m", "\x1b[0m"
MEMORY_NAMES = {"coll": "coll_mem", "malloc": "malloc"}


def time_text(time_us):
    """A time in us with about three significant digits."""
    if time_us is None:
        return "-"
    return "%.*f" % (3 if time_us < 1 else 2 if time_us < 10 else 1 if time_us < 1000 else 0,
                     time_us)


def times_text(times):
    return "-" if times is None else "%.*fx" % (2 if times < 10 else 1, times)


def share_text(share):
    return "-" if share is None else "%.0f %%" % (100 * share)


class Style:
    """Adds escape sequences for colors if the output is a terminal."""

    def __init__(self, colored):
        self.colored = colored

    def paint(self, text, *codes):
        return "".join(codes) + text + PLAIN if self.colored and text.strip() else text


def verdict_codes(verdict):
    return {figures.PASS: (GREEN,), figures.FAIL: (RED, BOLD), figures.BEYOND: (DIM,),
            None: ()}[verdict]


def present(rows, memories):
    return [memory for memory in memories if any(memory in row["times_us"] for row in rows)]


def families_of(rows):
    found = {family for row in rows for family in figures.best_settings(row)}
    return [family for family in FAMILIES if family in found]


class Block:
    """The rows of one collective with one number of ranks."""

    def __init__(self, rows, style):
        self.rows, self.style = rows, style
        self.memories = present(rows, figures.OURS)
        self.families = families_of(rows)
        settings = [name.split("/")[1] for row in rows
                    for _, name in figures.best_settings(row).values()]
        self.setting_width = max(map(len, settings), default=0)
        self.best_width = max(len(text) for text in ["best peer", *map(self.best_text, rows)])

    @staticmethod
    def best_text(row):
        """"Open MPI, copy": the best peer and its setting."""
        best = figures.best_peer(row)
        if best is None:
            return "-"
        family, setting = best[1].split("/")
        return "%s, %s" % (FAMILIES[family], setting)

    def head(self):
        cells = ["%10s" % "size"]
        cells += ["%9s" % MEMORY_NAMES[memory] for memory in self.memories]
        cells += ["%9s %-*s" % (FAMILIES[family], self.setting_width, "")
                  for family in self.families]
        cells.append("%-*s" % (self.best_width, "best peer"))
        cells += ["%8s       " % MEMORY_NAMES[memory] for memory in self.memories]
        cells += ["%8s" % MEMORY_NAMES[memory] for memory in self.memories]
        cells += ["%8s %6s" % (MEMORY_NAMES[memory], "") for memory in self.memories]
        return "  ".join(cells).rstrip()

    def over_head(self):
        """Headings of the groups of columns."""
        ours = 10 + 11 * len(self.memories)
        peers = (12 + self.setting_width) * len(self.families) + 2 + self.best_width
        ratios, possible = 17 * len(self.memories), 10 * len(self.memories)
        return "%-*s%-*s%-*s%-*s  %s" % (
            ours, " " * 12 + "time (us)", peers, "  best setting of each peer", ratios,
            "  best peer / ours", possible, "  most possible", "limit (us), reached")

    def line(self, row):
        paint = self.style.paint
        cells = ["%10s" % figures.size_text(row["bytes"])]
        for memory in self.memories:
            cells.append(paint("%9s" % time_text(figures.time_us(row, memory)), BOLD))
        best = figures.best_settings(row)
        for family in self.families:
            time, name = best.get(family, (None, "/"))
            cells.append("%9s %s" % (time_text(time), paint("%-*s" % (
                self.setting_width, name.split("/")[1]), DIM)))
        cells.append("%-*s" % (self.best_width, self.best_text(row)))
        for memory in self.memories:
            verdict = figures.verdict(row, memory)
            cells.append("%8s %s" % (times_text(figures.ratio(row, memory)), paint(
                "%-6s" % (verdict or ""), *verdict_codes(verdict))))
        for memory in self.memories:
            cells.append("%8s" % times_text(figures.most_possible(row, memory)))
        for memory in self.memories:
            share = "%6s" % share_text(figures.reached(row, memory))
            cells.append("%8s %s" % (time_text(figures.limit_us(row, memory)), paint(
                share, *verdict_codes(figures.limit_verdict(row, memory)))))
        return "  ".join(cells).rstrip()

    def lines(self):
        row = self.rows[0]
        yield self.style.paint("%s, %d ranks" % (row["collective"], row["ranks"]), BOLD)
        yield self.over_head().rstrip()
        yield self.head()
        for row in self.rows:
            yield self.line(row)
        yield ""


def blocks_of(rows):
    """Groups rows by collective and number of ranks, in order of first appearance."""
    blocks = {}
    for row in rows:
        blocks.setdefault((row["ranks"], row["collective"]), []).append(row)
    return [sorted(block, key=lambda row: row["bytes"]) for block in blocks.values()]


def target_text(target):
    names = target.collectives
    is_all = set(names) == set(figures.COLLECTIVES)
    return "%s, %s ranks, %s to %s" % (
        "all" if is_all else ", ".join(names), " or ".join(map(str, target.ranks)),
        figures.size_text(target.min_bytes), figures.size_text(target.max_bytes))


def summary_lines(rows, style):
    summaries = figures.summarize(rows)
    if not summaries:
        return
    yield style.paint("Targets (beyond: where even a call at the machine's limit, which would be "
                      '"most possible" times as fast as the best peer, would miss)', BOLD)
    for summary in summaries:
        verdict = figures.summary_verdict(summary)
        wanted = summary.target.times[summary.memory]
        figure = share_text if summary.by_limit else times_text
        yield "  %s %2d of %2d rows, %2d beyond  %-8s  >= %-5s%s  worst %s (%s, %s)  %s" % (
            style.paint("%-6s" % verdict, *verdict_codes(verdict)), summary.passed,
            summary.rows, summary.beyond, MEMORY_NAMES[summary.memory],
            share_text(wanted) if summary.by_limit else "%gx" % wanted,
            " of the limit" if summary.by_limit else "", figure(summary.worst),
            summary.worst_row["collective"], figures.size_text(summary.worst_row["bytes"]),
            target_text(summary.target))
    yield ""


def lines(rows, colored=False):
    style = Style(colored)
    for block in blocks_of(rows):
        yield from Block(block, style).lines()
    yield from summary_lines(rows, style)

"""Tables of text: aligned columns with a heading each, and headings above several columns."""
import itertools

GREEN, RED, BOLD, DIM, PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[1m", "\x1b[2m", "\x1b[0m"
GAP = "  "


# ---- cells ---------------------------------------------------------------------------------------

def time_text(time_us):
    """A time in us with about three significant digits."""
    if time_us is None:
        return "-"
    return "%.*f" % (3 if time_us < 1 else 2 if time_us < 10 else 1 if time_us < 1000 else 0,
                     time_us)


def number(value, form="%.2f"):
    return "-" if value is None else form % value


def share_text(share):
    return number(share and 100 * share, "%.0f %%")


def times_text(times):
    return "-" if times is None else "%.*fx" % (2 if times < 10 else 1, times)


def interval_text(estimate, form="%.2f to %.2f"):
    """Of a rounds.Estimate; "" of too few rounds."""
    return "" if estimate is None or estimate.low is None else form % (estimate.low, estimate.high)


def count_text(count, thing="row"):
    return "%d %s%s" % (count, thing, "" if count == 1 else "s")


class Style:
    """Adds escape sequences for colors if the output is a terminal."""

    def __init__(self, colored):
        self.colored = colored

    def paint(self, text, *codes):
        return "".join(codes) + text + PLAIN if self.colored and text.strip() else text


# ---- tables --------------------------------------------------------------------------------------

class Column:
    """head: one or more lines. cell(row): the text, or (text, codes of Style...). least: width;
    needed where rows are shown one by one. group: a heading above the columns beside each other
    that name the same one."""

    def __init__(self, head, cell, least=0, left=False, group=""):
        self.head, self.cell, self.left, self.group = head.split("\n"), cell, left, group
        self.width = max([least, *map(len, self.head)])

    def aligned(self, text):
        return text.ljust(self.width) if self.left else text.rjust(self.width)

    def text(self, row):
        found = self.cell(row)
        return (found, ()) if isinstance(found, str) else (found[0], found[1:])


def estimate_columns(group, estimate, codes=lambda row: ()):
    """Of what estimate(row) returns, a rounds.Estimate or None: its median and its interval."""
    def median(row):
        found = estimate(row)
        return ("%.3f" % found.median, *codes(row)) if found else ""

    def interval(row):
        found = estimate(row)
        return (interval_text(found, "%.3f - %.3f") or "-", *codes(row)) if found else ""
    return [Column("", median, group=group), Column("95 % interval", interval, group=group)]


class Table:
    """Of the rows, and of more that are no wider."""

    def __init__(self, columns, rows=(), style=Style(False), indent=""):
        self.columns, self.rows, self.style, self.indent = columns, list(rows), style, indent
        for column in columns:
            column.width = max([column.width, *(len(column.text(row)[0]) for row in self.rows)])
        self.groups = [(group, list(together)) for group, together in
                       itertools.groupby(columns, lambda column: column.group)]
        for group, together in self.groups:
            together[-1].width += max(0, len(group) - self.width_of(together))

    @staticmethod
    def width_of(columns):
        return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)

    def joined(self, cells):
        return (self.indent + GAP.join(cells)).rstrip()

    def head(self):
        if any(group for group, _ in self.groups):
            yield self.joined(group.center(self.width_of(together))
                              for group, together in self.groups)
        lines = max(len(column.head) for column in self.columns)
        for at in range(-lines, 0):
            yield self.joined(column.aligned(column.head[at] if len(column.head) >= -at else "")
                              for column in self.columns)

    def line(self, row):
        cells = []
        for column in self.columns:
            text, codes = column.text(row)
            cells.append(self.style.paint(column.aligned(text), *codes))
        return self.joined(cells)

    def lines(self):
        yield from self.head()
        yield from map(self.line, self.rows)


def lines(columns, rows, **how):
    return Table(columns, rows, **how).lines()

"""The figures as an SVG: one panel per collective with time over size on logarithmic axes. Each
library has a line (peers with their best setting); the area below the machine's limit is shaded.
Below each size is the time of the best peer / the time of libcoll."""
import math
from xml.sax.saxutils import escape

from comparison import figures, table
from comparison.contenders.peers import FAMILIES

COLUMNS = 2
PANEL_WIDTH, PANEL_HEIGHT = 452, 270
MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 62, 104, 50, 74
HEAD_HEIGHT = 104
LABEL_GAP, RATIO_GAP = 14, 30

INK, SOFT, FAINT, SHADE = "#1d2433", "#667085", "#e6e9ef", "#f1f3f7"
COLORS = {"coll": "#0b5fd0", "malloc": "#58a6ee", "openmpi": "#d9622b", "mpich": "#2f8f5b",
          "intelmpi": "#c2a200", "gloo": "#9457a8", "limit": "#8a93a3"}
NAMES = dict(figures.OURS, limit="limit", **FAMILIES)
WIDTHS = {"coll": 2.6, "malloc": 2.6, "limit": 1.2}

STYLE = """text { font-family: Inter, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; }
.tick { font-size: 10.5px; fill: %(soft)s; }
.times { font-size: 10.5px; font-weight: 600; }
.label { font-size: 11.5px; font-weight: 600; }
.name { font-size: 15px; font-weight: 700; fill: %(ink)s; }
.note { font-size: 11.5px; fill: %(soft)s; }
.title { font-size: 22px; font-weight: 700; fill: %(ink)s; }""" % {"soft": SOFT, "ink": INK}


def series_of(rows):
    """{name: [(bytes, us)]} in drawing order; libcoll is last, on top."""
    series = {"limit": [(row["bytes"], figures.limit_us(row, "coll")) for row in rows]}
    for family in reversed(FAMILIES):
        series[family] = [(row["bytes"], figures.best_settings(row).get(family, (None,))[0])
                          for row in rows]
    for memory in ("malloc", "coll"):
        series[memory] = [(row["bytes"], figures.time_us(row, memory)) for row in rows]
    known = {name: [point for point in points if point[1]] for name, points in series.items()}
    return {name: points for name, points in known.items() if points}


def spread(positions, gap, low, high):
    """Shifts positions so that they are at least `gap` apart and within [low, high]."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    moved = list(positions)
    for before, here in zip(order, order[1:]):
        moved[here] = max(moved[here], moved[before] + gap)
    ceiling = high
    for here in reversed(order):
        moved[here] = max(min(moved[here], ceiling), low)
        ceiling = moved[here] - gap
    return moved


def decade_text(exponent):
    """10^exponent us in a readable unit."""
    for unit, base in (("s", 6), ("ms", 3), ("µs", 0), ("ns", -3)):
        if exponent >= base or unit == "ns":
            return "%g %s" % (10 ** (exponent - base), unit)
    return ""


def text(x, y, words, kind, anchor="start", color=None):
    fill = ' fill="%s"' % color if color else ""
    return '<text x="%.1f" y="%.1f" class="%s" text-anchor="%s"%s>%s</text>' % (
        x, y, kind, anchor, fill, escape(words))


def line(x1, y1, x2, y2, color, width=1.0):
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"/>' % (
        x1, y1, x2, y2, color, width)


class Panel:
    """The panel of one block of rows, at (left, top)."""

    def __init__(self, rows, left, top, note):
        self.rows, self.left, self.top, self.note = rows, left, top, note
        self.series = series_of(rows)
        times = [time for points in self.series.values() for _, time in points]
        self.low = math.floor(math.log10(min(times)))
        self.high = max(math.ceil(math.log10(max(times))), self.low + 1)
        self.low_size = math.log2(rows[0]["bytes"])
        self.high_size = max(math.log2(rows[-1]["bytes"]), self.low_size + 1)

    def x(self, size):
        share = (math.log2(size) - self.low_size) / (self.high_size - self.low_size)
        return self.left + PANEL_WIDTH * share

    def y(self, time_us):
        share = (math.log10(time_us) - self.low) / (self.high - self.low)
        return self.top + PANEL_HEIGHT * (1 - share)

    def points(self, name):
        return " ".join("%.1f,%.1f" % (self.x(size), self.y(time))
                        for size, time in self.series[name])

    def draw_frame(self):
        row, bottom = self.rows[0], self.top + PANEL_HEIGHT
        yield text(self.left, self.top - 16, row["collective"], "name")
        yield text(self.left + PANEL_WIDTH, self.top - 16, self.note, "note", "end")
        if "limit" in self.series:
            first, last = self.series["limit"][0][0], self.series["limit"][-1][0]
            yield '<polygon points="%.1f,%.1f %s %.1f,%.1f" fill="%s"/>' % (
                self.x(first), bottom, self.points("limit"), self.x(last), bottom, SHADE)
        for exponent in range(self.low, self.high + 1):
            y = self.y(10.0 ** exponent)
            yield line(self.left, y, self.left + PANEL_WIDTH, y, FAINT)
            yield text(self.left - 9, y + 3.6, decade_text(exponent), "tick", "end")
        yield line(self.left, bottom, self.left + PANEL_WIDTH, bottom, SOFT)

    def draw_sizes(self):
        """Draws ticks, and the ratio below each tick if there is space."""
        bottom = self.top + PANEL_HEIGHT
        free_from = -math.inf
        for index, row in enumerate(self.rows):
            x = self.x(row["bytes"])
            yield line(x, bottom, x, bottom + 4, SOFT)
            if index % 2 == 0 or len(self.rows) < 8:
                yield text(x, bottom + 17, figures.size_text(row["bytes"]), "tick", "middle")
            if x < free_from:
                continue
            free_from = x + RATIO_GAP
            for memory, below in (("coll", 35), ("malloc", 50)):
                times = figures.ratio(row, memory)
                if times is not None:
                    words = ("%.2g×" if times < 9.95 else "%.0f×") % times
                    yield text(x, bottom + below, words, "times", "middle", COLORS[memory])
        if any(figures.ratio(row, "coll") or figures.ratio(row, "malloc") for row in self.rows):
            yield text(self.left + PANEL_WIDTH + 22, bottom + 42, "best peer ÷ ours", "tick")

    def draw_lines(self):
        for name, points in self.series.items():
            dashes = ' stroke-dasharray="4 3"' if name == "limit" else ""
            yield ('<polyline points="%s" fill="none" stroke="%s" stroke-width="%g" '
                   'stroke-linejoin="round" stroke-linecap="round"%s/>'
                   % (self.points(name), COLORS[name], WIDTHS.get(name, 1.7), dashes))
            for size, time in points if name != "limit" else ():
                yield '<circle cx="%.1f" cy="%.1f" r="%g" fill="%s" stroke="white"/>' % (
                    self.x(size), self.y(time), 3.4 if name in figures.OURS else 2.8, COLORS[name])

    def draw_labels(self):
        """Draws the name of each line at its right end."""
        names = list(self.series)
        wanted = [self.y(self.series[name][-1][1]) for name in names]
        for name, y in zip(names, spread(wanted, LABEL_GAP, self.top, self.top + PANEL_HEIGHT)):
            x = self.x(self.series[name][-1][0])
            yield text(x + 10, y + 4, NAMES[name], "label", color=COLORS[name])

    def draw(self):
        for part in (self.draw_frame, self.draw_sizes, self.draw_lines, self.draw_labels):
            yield from part()


def ranks_text(row):
    return "%d ranks" % row["ranks"]


def draw(document, notes, blocks=None, note_of=ranks_text, columns=COLUMNS):
    """Returns the SVG. notes: lines below the title; blocks: the rows of each panel (those of
    table.blocks_of); note_of(row): what a panel says of its rows."""
    blocks = [block for block in blocks or table.blocks_of(document["rows"]) if series_of(block)]
    columns = max(min(columns, len(blocks)), 1)
    cell_width = MARGIN_LEFT + PANEL_WIDTH + MARGIN_RIGHT
    cell_height = MARGIN_TOP + PANEL_HEIGHT + MARGIN_BOTTOM
    width = columns * cell_width + 24
    height = HEAD_HEIGHT + math.ceil(len(blocks) / columns) * cell_height + 12
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
             'viewBox="0 0 %d %d">' % (width, height, width, height),
             "<style>%s</style>" % STYLE,
             '<rect width="100%" height="100%" fill="white"/>',
             text(MARGIN_LEFT, 42,
                  "Time of a call by size: libcoll, its peers, the machine's limit", "title")]
    for index, note in enumerate(note for note in notes if note):
        parts.append(text(MARGIN_LEFT, 64 + 16 * index, note, "note"))
    for index, block in enumerate(blocks):
        left = index % columns * cell_width + MARGIN_LEFT
        top = HEAD_HEIGHT + index // columns * cell_height + MARGIN_TOP
        parts.extend(Panel(block, left, top, note_of(block[0])).draw())
    return "\n".join(parts + ["</svg>"])

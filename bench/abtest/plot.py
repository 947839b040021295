"""The outcome of bench/ab as an SVG: a panel per unit, speed over size, the interval of each row as
a bar, and that of A/A shaded behind it. A grid: a line of panels per collective, a column per
number of ranks and kind of memory."""
import collections
import math

from abtest import rows
from comparison import judgement as verdict
from comparison import plot
from comparison.plot import INK, SOFT

PANEL_WIDTH, PANEL_HEIGHT = 300, 130
MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 62, 14, 34, 30
LINE_HEIGHT = 16
SCALE_LEAST, SCALE_MOST = 1.25, 4  # what the axis shows at least and at most: 1/4 to 4
BAND = "#dfe4ec"
COLORS = {verdict.LOST: "#c62828", verdict.ACCEPTED: "#d9822b", verdict.GAINED: "#2f8f5b",
          verdict.EVEN: "#0b5fd0", verdict.UNKNOWN: "#8a93a3"}
TICKS = (1, 0.25, 4, 0.5, 2, 0.8, 1.25, 0.9, 1.1)  # the first ones first where there is no room
TICK_GAP = 13
LIMIT = "#e08a8a"

# Of a comparison of another tool: what the speed is, what A/A is, and where rows begin to lose.
Labels = collections.namedtuple("Labels", "title same speed_min")
BUILDS = Labels("Speed of NEW as a multiple of OLD's, by size",
                "A/A: OLD / copy of OLD, 95 % interval", verdict.SPEED_MIN)


def bounds(estimate):
    return (estimate.low, estimate.high) if estimate.low else (estimate.median,) * 2


def scale_of(found):
    """The axis shows from 1/scale to scale: all medians, within reason."""
    most = max((abs(math.log(value)) for _, judgement in found
                for value in (judgement.speed.median, judgement.same.median)), default=0)
    return min(max(math.exp(1.15 * most), SCALE_LEAST), SCALE_MOST)


class Panel:
    """found: [(row, Judgement)] of one unit, drawn at (left, top)."""

    def __init__(self, found, scale, left, top, speed_min):
        self.found, self.scale, self.left, self.top = found, scale, left, top
        self.speed_min = speed_min
        self.step = PANEL_WIDTH / len(found)

    def x(self, index):
        return self.left + self.step * (index + 0.5)

    def y(self, speed):
        inside = min(max(speed, 1 / self.scale), self.scale)
        return self.top + PANEL_HEIGHT * (0.5 - 0.5 * math.log(inside) / math.log(self.scale))

    def ticks(self):
        kept = []
        for tick in TICKS:
            if 1 / self.scale <= tick <= self.scale and all(
                    abs(self.y(tick) - self.y(other)) >= TICK_GAP for other in kept):
                kept.append(tick)
        return kept

    def draw_frame(self):
        """A/A, the lines at 1 and where rows begin to lose, and the name."""
        row, right = self.found[0][0], self.left + PANEL_WIDTH
        for index, (_, judgement) in enumerate(self.found):
            low, high = bounds(judgement.same)
            yield '<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>' % (
                self.x(index) - self.step / 2, self.y(high), self.step,
                max(self.y(low) - self.y(high), 1), BAND)
        for tick, color in ((1, SOFT), (self.speed_min, LIMIT)):
            yield plot.line(self.left, self.y(tick), right, self.y(tick), color)
        for tick in self.ticks():
            yield plot.text(self.left - 6, self.y(tick) + 3.6, "%g" % tick, "tick", "end")
        name = rows.unit_name(rows.Unit(row["collective"], row["ranks"], row["memory"], ()))
        yield plot.text(self.left, self.top - 8, name, "label", color=INK)

    def draw_rows(self):
        bottom = self.top + PANEL_HEIGHT
        every = max(1, math.ceil(len(self.found) / 7))
        for index, (row, judgement) in enumerate(self.found):
            x, color = self.x(index), COLORS[judgement.verdict]
            low, high = bounds(judgement.speed)
            yield plot.line(x, self.y(low), x, self.y(high), color, 2)
            yield '<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s</title></circle>' % (
                x, self.y(judgement.speed.median), color,
                "%s: %.3f" % (row["name"], judgement.speed.median))
            if index % every == 0 and row["bytes"]:
                yield plot.text(x, bottom + 15, rows.short_size(row["bytes"]), "tick", "middle")

    def draw(self):
        yield from self.draw_frame()
        yield from self.draw_rows()


def grid_of(found):
    """{collective: {(ranks, memory): [(row, Judgement)]}} of what was measured."""
    grid = {}
    for row, judgement in found:
        if judgement:
            cell = (row["ranks"], row["memory"] or "")
            grid.setdefault(row["collective"], {}).setdefault(cell, []).append((row, judgement))
    return grid


def column_of(cell, columns):
    """A barrier has no memory and takes the first column of its number of ranks."""
    return next(index for index, column in enumerate(columns)
                if column == cell or (cell[1] == "" and column[0] == cell[0]))


def legend(left, y, labels):
    words = ((verdict.EVEN, "neither"), (verdict.LOST, "lost"), (verdict.ACCEPTED, "accepted"),
             (verdict.GAINED, "gained"))
    for index, (kind, word) in enumerate(words):
        yield '<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>' % (left + 90 * index, y - 4,
                                                                 COLORS[kind])
        yield plot.text(left + 90 * index + 9, y, word, "note")
    yield '<rect x="%.1f" y="%.1f" width="14" height="10" fill="%s"/>' % (left + 360, y - 9, BAND)
    yield plot.text(left + 380, y, labels.same, "note")
    yield plot.line(left + 620, y - 4, left + 636, y - 4, LIMIT)
    yield plot.text(left + 642, y, "%.2f" % labels.speed_min, "note")


def draw(found, notes, labels=BUILDS):
    """found: [(row, Judgement or None)]. The SVG's text; notes are the lines under its title."""
    grid = grid_of(found)
    cells = {cell for line in grid.values() for cell in line}
    columns = sorted(cell for cell in cells if cell[1] or not any(
        other[0] == cell[0] and other[1] for other in cells))
    notes = [note for note in notes if note]
    head = 66 + LINE_HEIGHT * (len(notes) + 2)
    cell_width = MARGIN_LEFT + PANEL_WIDTH + MARGIN_RIGHT
    cell_height = MARGIN_TOP + PANEL_HEIGHT + MARGIN_BOTTOM
    width, height = max(len(columns), 2) * cell_width + 10, head + len(grid) * cell_height + 12
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
             'viewBox="0 0 %d %d">' % (width, height, width, height),
             "<style>%s</style>" % plot.STYLE,
             '<rect width="100%" height="100%" fill="white"/>',
             plot.text(MARGIN_LEFT, 42, labels.title, "title")]
    for index, note in enumerate(notes):
        parts.append(plot.text(MARGIN_LEFT, 64 + LINE_HEIGHT * index, note, "note"))
    parts.extend(legend(MARGIN_LEFT, 64 + LINE_HEIGHT * (len(notes) + 0.5), labels))
    scale = scale_of([pair for pair in found if pair[1]])
    for number, line in enumerate(grid.values()):
        for cell, panel in line.items():
            left = column_of(cell, columns) * cell_width + MARGIN_LEFT
            top = head + number * cell_height + MARGIN_TOP
            parts.extend(Panel(panel, scale, left, top, labels.speed_min).draw())
    return "\n".join(parts + ["</svg>"])

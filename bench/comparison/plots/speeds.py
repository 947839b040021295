"""Speed over size: a panel per collective, ranks and memory, the interval of each row as a bar, and
that of A/A shaded behind it. A grid: a line of panels per collective, a column per number of ranks
and kind of memory."""
import collections
import math

from comparison import judgement as rule, rows, sizes
from comparison.plots import page

SIZE, MARGINS = (300, 130), (62, 14, 34, 30)
SCALE_LEAST, SCALE_MOST = 1.25, 4  # what the axis shows at least and at most: 1/4 to 4
BAND, LIMIT = "#dfe4ec", "#e08a8a"
COLORS = {rule.LOST: "#c62828", rule.ACCEPTED: "#d9822b", rule.GAINED: page.GOOD,
          rule.EVEN: page.OURS, rule.UNKNOWN: "#8a93a3"}
TICKS = (1, 0.25, 4, 0.5, 2, 0.8, 1.25, 0.9, 1.1)  # the first ones first where there is no room
TICK_GAP = 13

# What the speed is, what A/A is, and where rows begin to lose.
Labels = collections.namedtuple("Labels", "title same speed_min")


def bounds(estimate):
    return (estimate.low, estimate.high) if estimate.low else (estimate.median,) * 2


def scale_of(found):
    """The axis shows from 1/scale to scale: all medians, within reason."""
    most = max((abs(math.log(value)) for _, judgement in found
                for value in (judgement.speed.median, judgement.same.median)), default=0)
    return min(max(math.exp(1.15 * most), SCALE_LEAST), SCALE_MOST)


class Panel:
    """found: [(row, Judgement)] of one unit, drawn at (left, top)."""

    def __init__(self, found, scale, place, speed_min):
        self.found, self.scale, self.speed_min = found, scale, speed_min
        self.left, self.top = place
        self.step = SIZE[0] / len(found)

    def x(self, index):
        return self.left + self.step * (index + 0.5)

    def y(self, speed):
        inside = min(max(speed, 1 / self.scale), self.scale)
        return self.top + SIZE[1] * (0.5 - 0.5 * math.log(inside) / math.log(self.scale))

    def ticks(self):
        kept = []
        for tick in TICKS:
            if 1 / self.scale <= tick <= self.scale and all(
                    abs(self.y(tick) - self.y(other)) >= TICK_GAP for other in kept):
                kept.append(tick)
        return kept

    def draw_frame(self):
        """A/A, the lines at 1 and where rows begin to lose, and the name."""
        right = self.left + SIZE[0]
        for index, (_, judgement) in enumerate(self.found):
            low, high = bounds(judgement.same)
            yield page.rectangle(self.x(index) - self.step / 2, self.y(high), self.step,
                                 max(self.y(low) - self.y(high), 1), BAND)
        for tick, color in ((1, page.SOFT), (self.speed_min, LIMIT)):
            yield page.line(self.left, self.y(tick), right, self.y(tick), color)
        for tick in self.ticks():
            yield page.text(self.left - 6, self.y(tick) + 3.6, "%g" % tick, "tick", "end")
        yield page.text(self.left, self.top - 8, rows.unit_of(self.found[0][0]), "label",
                        color=page.INK)

    def draw_rows(self):
        every = max(1, math.ceil(len(self.found) / 7))
        for index, (row, judgement) in enumerate(self.found):
            x, color = self.x(index), COLORS[judgement.verdict]
            low, high = bounds(judgement.speed)
            yield page.line(x, self.y(low), x, self.y(high), color, 2)
            yield page.dot(x, self.y(judgement.speed.median), 3, color, "none",
                           "%s: %.3f" % (row["name"], judgement.speed.median))
            if index % every == 0 and row["bytes"]:
                yield page.text(x, self.top + SIZE[1] + 15, sizes.short_size(row["bytes"]), "tick",
                                "middle")


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
    words = ((rule.EVEN, "neither"), (rule.LOST, "lost"), (rule.ACCEPTED, "accepted"),
             (rule.GAINED, "gained"))
    for index, (kind, word) in enumerate(words):
        yield page.dot(left + 90 * index, y - 4, 4, COLORS[kind], "none")
        yield page.text(left + 90 * index + 9, y, word, "note")
    yield page.rectangle(left + 360, y - 9, 14, 10, BAND)
    yield page.text(left + 380, y, labels.same, "note")
    yield page.line(left + 620, y - 4, left + 636, y - 4, LIMIT)
    yield page.text(left + 642, y, "%.2f" % labels.speed_min, "note")


def draw(found, notes, labels):
    """found: [(row, Judgement or None)]. The SVG's text; notes are the lines under its title."""
    cells = grid_of(found)
    known = {cell for line in cells.values() for cell in line}
    columns = sorted(cell for cell in known if cell[1] or not any(
        other[0] == cell[0] and other[1] for other in known))
    head = page.head_height(notes, 2)
    grid = page.Grid(max(len(columns), 2), SIZE, MARGINS, head)
    parts = list(legend(MARGINS[0], head - 1.5 * page.NOTE_HEIGHT, labels))
    scale = scale_of([pair for pair in found if pair[1]])
    for number, line in enumerate(cells.values()):
        for cell, some in line.items():
            panel = Panel(some, scale, grid.place(column_of(cell, columns), number),
                          labels.speed_min)
            parts += [*panel.draw_frame(), *panel.draw_rows()]
    return page.page(labels.title, notes, MARGINS[0], grid.width(),
                     grid.height(len(cells) * grid.columns), parts)

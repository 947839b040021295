"""Time over size on logarithmic axes, a line per library; the area below a reference is shaded."""
import collections
import math

from comparison import sizes
from comparison.plots import page

SIZE, MARGINS = (452, 270), (62, 104, 50, 74)
LABEL_GAP, MARK_GAP = 14, 30

# points: [(bytes, us)]. is_reference: shaded, dashed, without dots.
Series = collections.namedtuple("Series", "label color width points is_reference")
# series: in drawing order. marks: {bytes: [(text, color)]}, shown below the axis if there is space.
Panel = collections.namedtuple("Panel", "name note sizes series marks marks_note")


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


class Drawn:
    """A Panel at (left, top)."""

    def __init__(self, panel, left, top):
        self.panel, self.left, self.top, self.bottom = panel, left, top, top + SIZE[1]
        times = [time for series in panel.series for _, time in series.points]
        self.low = math.floor(math.log10(min(times)))
        self.high = max(math.ceil(math.log10(max(times))), self.low + 1)
        self.low_size = math.log2(panel.sizes[0])
        self.high_size = max(math.log2(panel.sizes[-1]), self.low_size + 1)

    def x(self, size):
        share = (math.log2(size) - self.low_size) / (self.high_size - self.low_size)
        return self.left + SIZE[0] * share

    def y(self, time_us):
        share = (math.log10(time_us) - self.low) / (self.high - self.low)
        return self.top + SIZE[1] * (1 - share)

    def points(self, series):
        return [(self.x(size), self.y(time)) for size, time in series.points]

    def frame(self):
        right = self.left + SIZE[0]
        yield page.text(self.left, self.top - 16, self.panel.name, "name")
        yield page.text(right, self.top - 16, self.panel.note, "note", "end")
        for series in self.panel.series:
            if series.is_reference:
                points = self.points(series)
                yield page.polygon([(points[0][0], self.bottom), *points,
                                    (points[-1][0], self.bottom)], page.SHADE)
        for exponent in range(self.low, self.high + 1):
            y = self.y(10.0 ** exponent)
            yield page.line(self.left, y, right, y, page.FAINT)
            yield page.text(self.left - 9, y + 3.6, decade_text(exponent), "tick", "end")
        yield page.line(self.left, self.bottom, right, self.bottom, page.SOFT)

    def axis(self):
        """Ticks, and the marks below them."""
        free_from = -math.inf
        for index, size in enumerate(self.panel.sizes):
            x = self.x(size)
            yield page.line(x, self.bottom, x, self.bottom + 4, page.SOFT)
            if index % 2 == 0 or len(self.panel.sizes) < 8:
                yield page.text(x, self.bottom + 17, sizes.size_text(size), "tick", "middle")
            if x < free_from:
                continue
            free_from = x + MARK_GAP
            for row, (words, color) in enumerate(self.panel.marks.get(size, [])):
                yield page.text(x, self.bottom + 35 + 15 * row, words, "times", "middle", color)
        if self.panel.marks:
            yield page.text(self.left + SIZE[0] + 22, self.bottom + 42, self.panel.marks_note,
                            "tick")

    def lines(self):
        for series in self.panel.series:
            yield page.polyline(self.points(series), series.color, series.width,
                                "4 3" if series.is_reference else "")
            for x, y in self.points(series) if not series.is_reference else ():
                yield page.dot(x, y, 1.6 + 0.7 * series.width, series.color)

    def labels(self):
        """The name of each line at its right end."""
        ends = [self.points(series)[-1] for series in self.panel.series]
        moved = spread([y for _, y in ends], LABEL_GAP, self.top, self.bottom)
        for series, (x, _), y in zip(self.panel.series, ends, moved):
            yield page.text(x + 10, y + 4, series.label, "label", color=series.color)

    def parts(self):
        for some in (self.frame, self.axis, self.lines, self.labels):
            yield from some()


def draw(title, notes, panels, columns):
    """The SVG's text. Panels without a time are left out."""
    shown = [panel for panel in panels if panel.series]
    grid = page.Grid(max(min(columns, len(shown)), 1), SIZE, MARGINS, page.head_height(notes))
    parts = [part for index, panel in enumerate(shown)
             for part in Drawn(panel, *grid.place_of(index)).parts()]
    return page.page(title, notes, MARGINS[0], grid.width(), grid.height(len(shown)), parts)

"""The times as an SVG: a panel for each collective and setting, time over size on logarithmic axes,
the area below the limit shaded."""
import math
from xml.sax.saxutils import escape

COLUMNS = 3
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 240, 58, 70, 34, 34
HEAD = 70
SERIES = (("nccl_us", "NCCL", "#d9622b", 2.2), ("coll_us", "libcoll", "#0b5fd0", 2.6))
STYLE = """text { font-family: Inter, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif;
  font-size: 11px; fill: #667085; }
.name { font-size: 14px; font-weight: 700; fill: #1d2433; }
.title { font-size: 20px; font-weight: 700; fill: #1d2433; }
.label { font-weight: 600; }"""


def size_text(size):
    for unit, base in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if size >= base:
            return "%g%s" % (size / base, unit)
    return "%d" % size


def time_text(us):
    return "%g s" % (us / 1e6) if us >= 1e6 else "%g ms" % (us / 1e3) if us >= 1e3 else "%g µs" % us


class Panel:
    def __init__(self, rows, left, top):
        self.rows, self.left, self.top = sorted(rows, key=lambda row: row["bytes"]), left, top
        known = [row[key] for row in rows for key in ("coll_us", "nccl_us", "limit_us") if row[key]]
        self.sizes = [math.log2(row["bytes"]) for row in self.rows]
        self.low, self.high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
        self.high = max(self.high, self.low + 1)

    def x(self, size):
        first, last = self.sizes[0], max(self.sizes[-1], self.sizes[0] + 1)
        return self.left + LEFT + (math.log2(size) - first) / (last - first) * (
            WIDTH - LEFT - RIGHT)

    def y(self, us):
        share = (math.log10(us) - self.low) / (self.high - self.low)
        return self.top + HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def points(self, key):
        return [(self.x(row["bytes"]), self.y(row[key])) for row in self.rows if row[key]]

    def svg(self):
        row, bottom = self.rows[0], self.top + HEIGHT - BOTTOM
        yield '<text x="%d" y="%d" class="name">%s, %s</text>' % (
            self.left + LEFT, self.top + 18, row["collective"], escape(row["setting"]))
        shade = self.points("limit_us")
        if len(shade) > 1:
            corners = shade + [(shade[-1][0], bottom), (shade[0][0], bottom)]
            yield '<polygon points="%s" fill="#f1f3f7"/>' % " ".join("%.1f,%.1f" % point
                                                                     for point in corners)
        for exponent in range(self.low, self.high + 1):
            y = self.y(10.0 ** exponent)
            yield '<path d="M%.1f %.1fH%.1f" stroke="#e6e9ef"/>' % (
                self.left + LEFT, y, self.left + WIDTH - RIGHT)
            yield '<text x="%.1f" y="%.1f" text-anchor="end">%s</text>' % (
                self.left + LEFT - 6, y + 4, time_text(10.0 ** exponent))
        for row in self.rows[::2]:
            yield '<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>' % (
                self.x(row["bytes"]), bottom + 16, size_text(row["bytes"]))
        for key, name, color, width in SERIES:
            points = self.points(key)
            if not points:
                continue
            yield '<polyline points="%s" fill="none" stroke="%s" stroke-width="%g"/>' % (
                " ".join("%.1f,%.1f" % point for point in points), color, width)
            yield '<text x="%.1f" y="%.1f" class="label" style="fill: %s">%s</text>' % (
                points[-1][0] + 6, points[-1][1] + 4, color, name)


def svg(rows, title, note):
    """The file's text; rows are those of speed.table. "" if there are none."""
    panels, keys = [], []
    for row in rows:
        key = (row["setting"], row["collective"])
        if row["coll_us"] and key not in keys:
            keys.append(key)
    if not keys:
        return ""
    for index, key in enumerate(keys):
        some = [row for row in rows if (row["setting"], row["collective"]) == key]
        panels.append(Panel(some, index % COLUMNS * WIDTH, HEAD + index // COLUMNS * HEIGHT))
    height = HEAD + (len(keys) + COLUMNS - 1) // COLUMNS * HEIGHT
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d">'
             % (COLUMNS * WIDTH, height, COLUMNS * WIDTH), "<style>%s</style>" % STYLE,
             '<rect width="100%" height="100%" fill="#ffffff"/>',
             '<text x="20" y="32" class="title">%s</text>' % escape(title),
             '<text x="20" y="54">%s</text>' % escape(note)]
    for panel in panels:
        lines += panel.svg()
    return "\n".join(lines + ["</svg>"]) + "\n"

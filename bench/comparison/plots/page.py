"""A picture: its frame, a title with notes, panels in a grid, and what is drawn with."""
import math
from xml.sax.saxutils import escape

INK, SOFT, FAINT, SHADE = "#1d2433", "#667085", "#e6e9ef", "#f1f3f7"
OURS, OURS_TOO, PEER, GOOD = "#0b5fd0", "#58a6ee", "#d9622b", "#2f8f5b"
TITLE_Y, NOTES_Y, NOTE_HEIGHT = 42, 64, 16

STYLE = """text { font-family: Inter, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; }
.tick { font-size: 10.5px; fill: %(soft)s; }
.times { font-size: 10.5px; font-weight: 600; }
.label { font-size: 11.5px; font-weight: 600; }
.name { font-size: 15px; font-weight: 700; fill: %(ink)s; }
.note { font-size: 11.5px; fill: %(soft)s; }
.title { font-size: 22px; font-weight: 700; fill: %(ink)s; }""" % {"soft": SOFT, "ink": INK}


# ---- the pen -------------------------------------------------------------------------------------

def text(x, y, words, kind, anchor="start", color=None):
    fill = ' fill="%s"' % color if color else ""
    return '<text x="%.1f" y="%.1f" class="%s" text-anchor="%s"%s>%s</text>' % (
        x, y, kind, anchor, fill, escape(words))


def line(x1, y1, x2, y2, color, width=1.0):
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"/>' % (
        x1, y1, x2, y2, color, width)


def rectangle(x, y, width, height, color):
    return '<rect x="%.1f" y="%.1f" width="%.1f" height="%g" fill="%s"/>' % (
        x, y, width, height, color)


def dot(x, y, radius, color, stroke="white", title=""):
    within = "<title>%s</title>" % escape(title) if title else ""
    return '<circle cx="%.1f" cy="%.1f" r="%g" fill="%s" stroke="%s">%s</circle>' % (
        x, y, radius, color, stroke, within)


def path(points):
    return " ".join("%.1f,%.1f" % point for point in points)


def polyline(points, color, width, dashes=""):
    return ('<polyline points="%s" fill="none" stroke="%s" stroke-width="%g" '
            'stroke-linejoin="round" stroke-linecap="round"%s/>' % (
                path(points), color, width, ' stroke-dasharray="%s"' % dashes if dashes else ""))


def polygon(points, color):
    return '<polygon points="%s" fill="%s"/>' % (path(points), color)


# ---- the frame -----------------------------------------------------------------------------------

def head_height(notes, more=1):
    """Of the title, the notes and so many lines more."""
    return NOTES_Y + NOTE_HEIGHT * (len([note for note in notes if note]) + more)


def page(title, notes, left, width, height, parts):
    """The SVG's text. left: of the title and of the notes, which are lines under it."""
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
             'viewBox="0 0 %d %d">' % (width, height, width, height),
             "<style>%s</style>" % STYLE, '<rect width="100%" height="100%" fill="white"/>',
             text(left, TITLE_Y, title, "title")]
    for index, note in enumerate(note for note in notes if note):
        lines.append(text(left, NOTES_Y + NOTE_HEIGHT * index, note, "note"))
    return "\n".join([*lines, *parts, "</svg>"])


class Grid:
    """Places of panels; margins: left, right, top, bottom of each."""

    def __init__(self, columns, size, margins, top):
        self.columns, self.size, self.margins, self.top = columns, size, margins, top
        self.step = (margins[0] + size[0] + margins[1], margins[2] + size[1] + margins[3])

    def place(self, column, row):
        """(left, top) of a panel."""
        return (column * self.step[0] + self.margins[0],
                self.top + row * self.step[1] + self.margins[2])

    def place_of(self, index):
        return self.place(index % self.columns, index // self.columns)

    def width(self):
        return self.columns * self.step[0] + 24

    def height(self, count):
        return self.top + math.ceil(count / self.columns) * self.step[1] + 12

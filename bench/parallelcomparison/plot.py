"""The figures of bench/parallel-compare as an SVG: a panel per model, a bar per row, and a mark at
the row's limit."""
from comparison import plot
from parallelcomparison import survey, table

BAR_WIDTH, BAR_HEIGHT, BAR_STEP = 400, 18, 26
LABEL_WIDTH, VALUE_WIDTH, MARGIN, HEAD_HEIGHT = 190, 190, 24, 56
OURS_COLOR, REFERENCE_COLOR, PEER_COLOR = "#0b5fd0", "#58a6ee", "#d9622b"


def color_of(group, name):
    if name not in group["layouts"]:
        return PEER_COLOR
    return REFERENCE_COLOR if name in survey.REFERENCES else OURS_COLOR


def draw_row(group, row, y, scale, best):
    left = MARGIN + LABEL_WIDTH
    ratio = "" if row.ratio is None else ", %.2f×" % row.ratio.median
    yield plot.text(left - 10, y + 13, row.name, "tick", "end")
    yield '<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s"/>' % (
        left, y, scale * row.speed, BAR_HEIGHT, color_of(group, row.name))
    yield plot.text(left + BAR_WIDTH + 12, y + 13, "%.0f tokens/s%s" % (row.speed, ratio), "tick")
    if row.limit is not None:
        x = left + scale * best * row.limit
        yield plot.line(x, y - 3, x, y + BAR_HEIGHT + 3, plot.INK, 1.5)


def draw_group(group, rows, top):
    scale = BAR_WIDTH / max(row.speed for row in rows)
    best = max((row.speed for row in rows if row.name in survey.REFERENCES), default=0)
    yield plot.text(MARGIN, top, "%s, %.1f M parameters" % (
        group["model"], (group["parameters"] or 0) * 1e-6), "label", color=plot.INK)
    for index, row in enumerate(rows):
        yield from draw_row(group, row, top + 12 + BAR_STEP * index, scale, best)


def draw(groups, notes):
    """The SVG's text; notes are the lines under its title."""
    shown = [(group, table.judgements(group)) for group in groups if group["tokens_per_s"]]
    top = HEAD_HEIGHT + 16 * len(notes) + 24
    width = 2 * MARGIN + LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH
    height = top + sum(44 + BAR_STEP * len(rows) for _, rows in shown)
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
             'viewBox="0 0 %d %d">' % (width, height, width, height),
             "<style>%s</style>" % plot.STYLE,
             '<rect width="100%" height="100%" fill="white"/>',
             plot.text(MARGIN, 38, "Layouts on two cores; a line is the limit of its row", "title")]
    for index, note in enumerate(notes):
        parts.append(plot.text(MARGIN, HEAD_HEIGHT + 4 + 16 * index, note, "note"))
    for group, rows in shown:
        parts.extend(draw_group(group, rows, top))
        top += 44 + BAR_STEP * len(rows)
    return "\n".join(parts + ["</svg>"])

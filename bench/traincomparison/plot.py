"""The figures of bench/train-compare as an SVG: a panel per row and precision, a bar per program,
and a line at the limit."""
import statistics

from comparison import plot
from traincomparison import survey, table

BAR_WIDTH, BAR_HEIGHT, BAR_STEP = 420, 18, 26
LABEL_WIDTH, VALUE_WIDTH, MARGIN, HEAD_HEIGHT = 190, 170, 24, 56
COLORS = {survey.OURS: "#0b5fd0", survey.OURS_FLOAT32: "#58a6ee"}
PEER_COLOR = "#d9622b"


def bar(left, y, width, name):
    return '<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s"/>' % (
        left, y, width, BAR_HEIGHT, COLORS.get(name, PEER_COLOR))


def draw_group(group, top):
    names = table.ordered(group)
    medians = {name: statistics.median(group["times_ms"][name]) for name in names}
    limits = [limit for limit in group["limit_ms"] if limit]
    left, scale = MARGIN + LABEL_WIDTH, BAR_WIDTH / max([*medians.values(), *limits[:1]])
    yield plot.text(MARGIN, top, "%s, %s" % (group["row"], group["precision"]), "label",
                    color=plot.INK)
    for index, name in enumerate(names):
        y = top + 12 + BAR_STEP * index
        yield plot.text(left - 10, y + 13, name, "tick", "end")
        yield bar(left, y, scale * medians[name], name)
        yield plot.text(left + scale * medians[name] + 8, y + 13, "%.0f ms, %.2f×" % (
            medians[name], table.ratio_to_ours(group, name).median), "tick")
    if limits:
        x = left + scale * min(statistics.median(limits), BAR_WIDTH / scale)
        yield plot.line(x, top + 8, x, top + 12 + BAR_STEP * len(names), plot.INK, 1.5)


def height_of(group):
    return 44 + BAR_STEP * len(group["times_ms"])


def draw(groups, notes):
    """The SVG's text; notes are the lines under its title."""
    shown = [group for group in groups if group["times_ms"]]
    top = HEAD_HEIGHT + 16 * len(notes) + 24
    width = 2 * MARGIN + LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH
    height = top + sum(map(height_of, shown))
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
             'viewBox="0 0 %d %d">' % (width, height, width, height),
             "<style>%s</style>" % plot.STYLE,
             '<rect width="100%" height="100%" fill="white"/>',
             plot.text(MARGIN, 38, "Time of a training step; the line is the limit", "title")]
    for index, note in enumerate(notes):
        parts.append(plot.text(MARGIN, HEAD_HEIGHT + 4 + 16 * index, note, "note"))
    for group in shown:
        parts.extend(draw_group(group, top))
        top += height_of(group)
    return "\n".join(parts + ["</svg>"])

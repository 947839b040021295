"""Groups of bars, each with its figures beside it and a mark where its limit is."""
import collections

from comparison.plots import page

BAR_WIDTH, BAR_HEIGHT, BAR_STEP = 420, 18, 26
LABEL_WIDTH, VALUE_WIDTH, MARGIN, GROUP_HEIGHT = 190, 190, 24, 44

# mark: a value, or None.
Bar = collections.namedtuple("Bar", "label value text color mark")
Group = collections.namedtuple("Group", "title bars")


def draw_bar(bar, y, scale):
    left = MARGIN + LABEL_WIDTH
    yield page.text(left - 10, y + 13, bar.label, "tick", "end")
    yield page.rectangle(left, y, scale * bar.value, BAR_HEIGHT, bar.color)
    yield page.text(left + BAR_WIDTH + 12, y + 13, bar.text, "tick")
    if bar.mark is not None:
        x = left + min(scale * bar.mark, BAR_WIDTH)
        yield page.line(x, y - 3, x, y + BAR_HEIGHT + 3, page.INK, 1.5)


def draw(title, notes, groups):
    """The SVG's text."""
    top, parts = page.head_height(notes, 2), []
    for group in groups:
        scale = BAR_WIDTH / max(bar.value for bar in group.bars)
        parts.append(page.text(MARGIN, top, group.title, "label", color=page.INK))
        for index, bar in enumerate(group.bars):
            parts.extend(draw_bar(bar, top + 12 + BAR_STEP * index, scale))
        top += GROUP_HEIGHT + BAR_STEP * len(group.bars)
    width = 2 * MARGIN + LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH
    return page.page(title, notes, MARGIN, width, top, parts)

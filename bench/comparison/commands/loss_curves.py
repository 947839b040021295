"""Draws the loss curves of several training runs into one SVG and prints their held-out losses.

A run is NAME=LOG, LOG being a log of `gpt train --log`. The table compares the last held-out loss
of each run with that of the first one. The training loss is drawn as its moving average, held-out
losses as points."""
import json
import math

from comparison import command, launch, table
from comparison.plots import page

NAME = "bench/loss-curves"
EXAMPLES = """examples:
  gpt train --preset mini --steps 1000 --log float32.jsonl
  gpt train --preset mini --steps 1000 --log bf16.jsonl --precision bf16
  bench/loss-curves float32=float32.jsonl bf16=bf16.jsonl --plot precision.svg
"""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 820, 480, 64, 150, 80, 50
COLORS = (page.OURS, page.PEER, page.GOOD, "#9457a8", "#8a6d00", "#b3243b")
AVERAGED = 20  # steps of the moving average
POINTS = 400   # per line of the plot
TICKS = 5


def read_run(argument):
    """{"name", "steps": [(step, loss)], "held_out": [(step, loss)], "skipped"} of NAME=LOG."""
    name, found, path = argument.partition("=")
    if not found:
        raise launch.Trouble("'%s' is not NAME=LOG" % argument)
    run = {"name": name, "steps": [], "held_out": [], "skipped": 0}
    try:
        with open(path, encoding="utf-8") as log:
            for line in log:
                record = json.loads(line)
                if record["record"] == "step":
                    run["skipped"] += bool(record.get("skipped"))
                    run["steps"].append((record["step"], record["loss"]))
                elif record["record"] == "evaluation":
                    run["held_out"].append((record["step"], record["loss"]))
    except (OSError, ValueError, KeyError) as error:
        raise launch.Trouble("%s is not a log of gpt train: %s" % (path, error)) from None
    if not run["held_out"]:
        raise launch.Trouble("%s contains no evaluation" % path)
    return run


def averaged(points):
    """The moving average over AVERAGED steps, at most POINTS of them."""
    lines = []
    for end in range(AVERAGED, len(points) + 1):
        window = [loss for _, loss in points[end - AVERAGED:end] if loss is not None]
        if window:
            lines.append((points[end - 1][0], sum(window) / len(window)))
    stride = max(1, math.ceil(len(lines) / POINTS))
    return lines[::stride]


def columns(runs):
    first = runs[0]["held_out"][-1][1]
    return [table.Column("run", lambda run: run["name"], left=True),
            table.Column("steps", lambda run: str(run["held_out"][-1][0])),
            table.Column("held-out loss", lambda run: "%.4f" % run["held_out"][-1][1]),
            table.Column("difference", lambda run: "%+.3f%%" % (
                (run["held_out"][-1][1] / first - 1) * 100)),
            table.Column("skipped", lambda run: str(run["skipped"]))]


class Axes:
    """Maps steps and losses to the plot."""

    def __init__(self, runs):
        drawn = [point for run in runs for point in averaged(run["steps"]) + run["held_out"]]
        self.last = max(step for step, _ in drawn)
        self.low, self.high = min(y for _, y in drawn), max(y for _, y in drawn)
        margin = (self.high - self.low) * 0.04 or 1
        self.low, self.high = self.low - margin, self.high + margin

    def place(self, step, loss):
        return (LEFT + step / self.last * (WIDTH - LEFT - RIGHT),
                TOP + (self.high - loss) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM))

    def draw(self):
        for i in range(TICKS + 1):
            step, loss = self.last * i / TICKS, self.low + (self.high - self.low) * i / TICKS
            x, y = self.place(step, loss)
            yield page.line(LEFT, y, WIDTH - RIGHT, y, page.FAINT)
            yield page.text(LEFT - 8, y + 4, "%.2f" % loss, "tick", "end")
            yield page.text(x, HEIGHT - BOTTOM + 18, "%d" % step, "tick", "middle")
        yield page.text(WIDTH - RIGHT + 24, HEIGHT - BOTTOM + 18, "step", "tick")


def draw_run(axes, run, color, index):
    yield page.polyline([axes.place(*point) for point in averaged(run["steps"])], color, 1.4)
    for point in run["held_out"]:
        yield page.dot(*axes.place(*point), 4, "white", color)
    yield page.text(WIDTH - RIGHT + 12, TOP + 20 * index + 8, "%s %.4f" % (
        run["name"], run["held_out"][-1][1]), "label", color=color)


def draw(runs, title):
    axes = Axes(runs)
    parts = list(axes.draw())
    for index, run in enumerate(runs):
        parts += draw_run(axes, run, COLORS[index % len(COLORS)], index)
    return page.page(title, ["training loss (lines, averaged over %d steps) and held-out loss "
                             "(points), nats per token" % AVERAGED], LEFT, WIDTH, HEIGHT, parts)


def main():
    parser = command.Parser(NAME, __doc__, EXAMPLES)
    parser.add_argument("runs", nargs="+", metavar="NAME=LOG")
    parser.add_argument("--plot", metavar="FILE", help="write the curves as SVG")
    parser.add_argument("--title", default="Loss by precision")
    options = parser.parse_args()
    runs = [read_run(argument) for argument in options.runs]
    print("\n".join(table.lines(columns(runs), runs)))
    if options.plot:
        command.write(options.plot, draw(runs, options.title))
    return 0

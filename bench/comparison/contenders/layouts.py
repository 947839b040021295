"""Layouts of gpt train. A layout is written as RANKSxTHREADS and options: "2x1 --tp 2 --sp"."""
import collections
import json
import os
import re
import tempfile

from comparison import launch

# text: as above.
Layout = collections.namedtuple("Layout", "name text ranks threads options")

START_SECONDS_MAX = 120


def parse(name, text):
    """Raises ValueError."""
    shape, *options = text.split()
    match = re.fullmatch(r"(\d+)x(\d+)", shape)
    if not match or int(match[1]) < 1:
        raise ValueError("invalid layout '%s': give RANKSxTHREADS [options of gpt train]" % text)
    return Layout(name, text, int(match[1]), int(match[2]), tuple(options))


def value_of(layout, option, default):
    """The value of an option; the last one counts."""
    words, value = layout.options, default
    for i, word in enumerate(words[:-1]):
        if word == option:
            value = words[i + 1]
    return value


def command(build, layout, options, start=None):
    """The argv of gpt train in a layout, with more options. start: the launcher's words."""
    if start is None:
        start = launch.collrun(build, layout.ranks) if layout.ranks > 1 else []
    return [*start, os.path.join(build, "tools", "gpt"), "train", "--threads", str(layout.threads),
            *layout.options, *options]


def model_options(row, data):
    """Of a trainers.Row, whose loss is not evaluated but once."""
    return ["--data", data, "--preset", row.preset, "--batch", str(row.batch), "--context",
            str(row.length), "--evals", "1", "--eval-tokens", str(row.length)]


def reason_of(failure):
    """What the program said, without the lines that show its progress."""
    lines = [line.strip() for line in failure.errors.splitlines()
             if any(map(str.isalnum, line)) and not re.match(r"\s*train +\d+%", line)]
    return "%s: %s" % (str(failure).split(":")[0], lines[0]) if lines else str(failure)


def run(line, seconds_max=START_SECONDS_MAX):
    """Runs gpt train. Raises launch.Failure with the reason."""
    try:
        launch.run(line, {}, seconds_max)
    except launch.Failure as failure:
        raise launch.Failure(reason_of(failure)) from None


def logged(line, runner):
    """Runs gpt train by runner(line). Returns (the record of the setup, those of the steps)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log.jsonl")
        runner([*line, "--log", path, "--out", os.path.join(folder, "gpt.ckpt")])
        with open(path, encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
    steps = [record for record in records if record["record"] == "step"]
    return next(record for record in records if record["record"] == "setup"), steps


def attainable(build, layout):
    """The share of the time in which the stages of a pipeline work, by the closed formula of its
    schedule for stages of equal time; 1 without a pipeline."""
    stages = int(value_of(layout, "--pp", "1"))
    if stages == 1:
        return 1.0
    schedule = launch.run_json(
        [os.path.join(build, "tools", "gpt"), "schedule", "--pp", str(stages), "--microbatches",
         value_of(layout, "--accumulate", "1"), "--kind",
         value_of(layout, "--schedule", "1f1b")], {})
    return 1 - schedule["bubble_of_equal_stages"]

"""Types of command-line options for argparse: each function parses a text or raises
ArgumentTypeError with a message for the user."""
import argparse

from comparison import sizes
from comparison.contenders import trainers


def word_list(known):
    def parse(text):
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError("unknown '%s'; choose from %s"
                                                 % (word, ", ".join(known)))
        return words
    return parse


def size_list(text):
    try:
        return sizes.parse_sizes(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            "'%s' is not a list of sizes such as 4,1K or 4..64M" % text) from None


def positive(text):
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("'%s' is not above 0" % text)
    return value


def rank_list(text):
    ranks = [positive(word) for word in text.split(",")]
    if min(ranks) < 2:
        raise argparse.ArgumentTypeError("a collective needs two ranks or more")
    return ranks


def model_rows(text):
    """Models with a batch and a length, as "gpt2:4x64,mini:16x256"."""
    try:
        return [trainers.parse_row(word) for word in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def assignment(text):
    """("NAME", "VALUE") of NAME=VALUE, only the value may be empty."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError("'%s' is not of the form NAME=VALUE" % text)
    return name, value


PARSERS = {"sizes": size_list, "ranks": rank_list, "rounds": int, "time": int, "time_ms": int}


def set_missing(options, defaults):
    """Sets the options that the user did not give. defaults: {name: text or value}; texts of other
    options are lists."""
    for name, value in defaults.items():
        if getattr(options, name) is None:
            if isinstance(value, str):
                value = PARSERS.get(name, lambda text: text.split(","))(value)
            setattr(options, name, value)


def add_sources(parser):
    parser.add_argument("--from", dest="sources", nargs="+", metavar="FILE", help="show these JSON "
                        "files instead; of rows with the same key, the first one is used")

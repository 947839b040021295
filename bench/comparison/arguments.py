"""Types of command-line options for argparse: each function parses a text or raises
ArgumentTypeError with a message for the user."""
import argparse

from comparison import figures


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
        return figures.parse_sizes(text)
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


def assignment(text):
    """("NAME", "VALUE") of NAME=VALUE, only the value may be empty."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError("'%s' is not of the form NAME=VALUE" % text)
    return name, value

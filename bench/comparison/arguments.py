"""Values of command lines, as argparse takes them: each function returns what its text means or
raises ArgumentTypeError with a sentence for the user."""
import argparse

from comparison import figures


def word_list(known):
    def parse(text):
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError("there is no '%s'; there are %s"
                                                 % (word, ", ".join(known)))
        return words
    return parse


def size_list(text):
    try:
        return figures.parse_sizes(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            "'%s' is no list of sizes such as 4,1K or 4..64M" % text) from None


def positive(text):
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("'%s' is not above 0" % text)
    return value


def rank_list(text):
    ranks = [positive(word) for word in text.split(",")]
    if min(ranks) < 2:
        raise argparse.ArgumentTypeError("a collective among one rank moves nothing")
    return ranks


def assignment(text):
    """("NAME", "VALUE") of NAME=VALUE, neither of them empty but the value."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError("'%s' is not of the form NAME=VALUE" % text)
    return name, value

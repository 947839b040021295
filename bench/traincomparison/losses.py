"""The losses of several programs over the same steps, as columns beside libtrain's."""
import math

OURS = "libtrain"


def distance(one, other):
    """The largest relative difference of two lists of losses; NaN if one of them is not finite."""
    differences = [abs(a - b) / abs(b) for a, b in zip(one, other)]
    return max(differences) if all(map(math.isfinite, differences)) else math.nan


def mean_distance(one, other):
    return sum(abs(a - b) / abs(b) for a, b in zip(one, other)) / len(one)


def lines(document):
    losses = document["losses"]
    names = list(losses)
    yield "%s, %s, %d steps on %s" % (document["row"], document["precision"], len(losses[OURS]),
                                      document["text"])
    width = max(map(len, names)) + 2
    yield "%5s %s" % ("step", "".join("%*s" % (width, name) for name in names))
    for step in range(len(losses[OURS])):
        yield "%5d %s" % (step + 1, "".join("%*.7f" % (width, losses[name][step])
                                            for name in names))
    yield "relative differences of losses: largest, mean"
    for index, name in enumerate(names):
        for other in names[index + 1:]:
            yield "  %-*s %-*s %9.2e %9.2e" % (
                width, name, width, other, distance(losses[name], losses[other]),
                mean_distance(losses[name], losses[other]))
    yield ""

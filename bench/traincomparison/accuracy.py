"""The accuracy of operators beside PyTorch's as a table. A document is what
peers/op_accuracy_torch.py prints; a limit is a largest ratio of libtrain's error to PyTorch's."""
import math

RMS_RATIO_MAX, MOST_RATIO_MAX = 1.05, 2.0


def ratio(ours, theirs):
    """Both without error: 1. An error where PyTorch has none: infinite."""
    if ours == theirs == 0:
        return 1.0
    return ours / theirs if theirs else math.inf


def ratios(row):
    return tuple(ratio(row["ours"][which], row["torch"][which]) for which in ("rms", "max"))


def passes(row):
    """NaN passes nowhere."""
    rms, most = ratios(row)
    return row["cases"] > 0 and rms <= RMS_RATIO_MAX and most <= MOST_RATIO_MAX


def lines(document):
    yield "%s; errors in units of the last place at an output's rms; PyTorch %s" % (
        document["dtype"], document["version"])
    yield "%-16s %-12s %6s  %8s %8s %6s  %8s %8s %6s" % (
        "operator", "output", "shapes", "rms", "PyTorch", "ratio", "largest", "PyTorch", "ratio")
    for row in document["outputs"]:
        rms, most = ratios(row)
        yield "%-16s %-12s %6d  %8.3f %8.3f %6.3f  %8.2f %8.2f %6.2f  %s" % (
            row["op"], row["output"], row["cases"], row["ours"]["rms"], row["torch"]["rms"], rms,
            row["ours"]["max"], row["torch"]["max"], most, "" if passes(row) else "FAIL")
    failed = sum(not passes(row) for row in document["outputs"])
    yield "%d of %d outputs within %g times PyTorch's rms error and %g times its largest one" % (
        len(document["outputs"]) - failed, len(document["outputs"]), RMS_RATIO_MAX,
        MOST_RATIO_MAX)
    yield ""

"""What was measured as a table, as a plot and in words. A row is

    {"mpi": "openmpi", "verb": "allreduce", "bytes": 8, "way": "libcoll" or "MPI" or None,
     "times_us": {"old": [one per round, without the layer], "new": [with it], "copy": [without]}}

and is judged with the statistics of bench/ab (abtest/verdict.py)."""
import re

from abtest import plot, table as abtable, verdict
from abtest.rows import short_size
from comparison import machine, table

SPEED_MIN = 1 / 1.05  # no row may be slower by more than 5 %
IRREGULAR = ("alltoallv", "gatherv", "scatterv")  # the layer has one choice for all sizes
STATISTICS = re.compile(r"^libcoll: MPI_(\w+)\s+(\w+)\s+(\d+)\s+(\d+)", re.MULTILINE)


# ---- what the layer chose ------------------------------------------------------------------------

def read_statistics(text):
    """{(verb, bytes up to, or "any"): (served, passed)} of what COLL_MPI_STATS=1 prints."""
    return {(name.lower(), size): (int(served), int(passed))
            for name, size, served, passed in STATISTICS.findall(text)}


def class_of(verb, size, ranks):
    """How the layer names the size of a row: the next power of two of what it takes as bytes."""
    base = verb[1:] if verb[0] == "i" else verb  # no verb begins with i but non-blocking ones
    if base in IRREGULAR:
        return "any"
    if base.startswith("reduce_scatter"):
        size = max(size // ranks, 4)
    elif base == "allgatherv":
        size *= ranks
    return str(1 << (size - 1).bit_length()) if size else "0"


def way_of(counted, verb, size, ranks):
    served, passed = counted.get((verb, class_of(verb, size, ranks)), (0, 0))
    return None if served == passed == 0 else "libcoll" if served > passed else "MPI"


# ---- judging -------------------------------------------------------------------------------------

def judge(times_us):
    """The Judgement of bench/ab with this comparison's limit; None without times."""
    judgement = verdict.judge(times_us)
    if judgement is None or judgement.verdict == verdict.UNKNOWN:
        return judgement
    speed, same = judgement.speed, judgement.same
    made = verdict.EVEN
    if speed.high < SPEED_MIN and speed.high < same.low:
        made = verdict.LOST
    elif speed.low > 1 / SPEED_MIN and speed.low > same.high:
        made = verdict.GAINED
    return judgement._replace(verdict=made)


def judge_all(document):
    """[(row, Judgement or None)]."""
    return [(row, judge(row["times_us"])) for row in document["rows"]]


def lost(found):
    return [row for row, judgement in found if judgement and judgement.verdict == verdict.LOST]


# ---- showing -------------------------------------------------------------------------------------

def head_lines(document):
    settings, load = document["settings"], document["load"]
    yield machine.sentence(document["machine"])
    yield "%s, revision %s, load %.1f before, %.1f after; rounds: %d, seed %d" % (
        document["began"], document["revision"] or "unknown", load["before"],
        load.get("after", load["before"]), document["rounds"], settings["seed"])
    yield "%d ranks, COLL_MPI_SERVE=%s; %s" % (
        settings["ranks"], settings["serve"], ", ".join(
            "%s: %s" % pair for pair in document["mpis"].items()))
    if document["interrupted"]:
        yield "interrupted; this is what was measured so far"


def table_lines(found):
    yield "%-22s %8s  %9s  %9s  %21s  %21s  %7s" % (
        "", "", "without", "with", "without / with", "A/A", "")
    yield "%-22s %8s  %9s  %9s  %6s  %13s  %6s  %13s  %7s" % (
        "verb", "bytes", "(us)", "(us)", "", "95 % interval", "", "95 % interval", "way")
    for row, judgement in found:
        line = "%-22s %8s  " % (row["verb"], short_size(row["bytes"]) if row["bytes"] else "")
        if judgement is None:
            yield line + "not measured"
            continue
        yield (line + "%9s  %9s  %s  %s  %7s  %s" % (
            table.time_text(judgement.old_us), table.time_text(judgement.new_us),
            abtable.speed_text(judgement.speed), abtable.speed_text(judgement.same),
            row["way"] or "", judgement.verdict)).rstrip()


def summary_line(found):
    judged = [judgement for _, judgement in found
              if judgement and judgement.verdict != verdict.UNKNOWN]
    if not judged:
        return "too few rounds to judge: %d are needed" % verdict.ROUNDS_MIN
    counts = {kind: sum(judgement.verdict == kind for judgement in judged)
              for kind in (verdict.LOST, verdict.GAINED)}
    unsure = sum(judgement.verdict == verdict.EVEN and judgement.speed.low < SPEED_MIN
                 for judgement in judged)
    return "%s: of %d rows, %d are slower by over 5 %%, %d faster by over 5 %%, %d undecided" % (
        "FAIL" if counts[verdict.LOST] else "PASS", len(judged), counts[verdict.LOST],
        counts[verdict.GAINED], unsure)


def text_of(document, found):
    lines = list(head_lines(document))
    for name, version in document["mpis"].items():
        of_mpi = [pair for pair in found if pair[0]["mpi"] == name]
        lines += ["", "%s (%s)" % (name, version), "", *table_lines(of_mpi), "",
                  summary_line(of_mpi)]
    lines += ["FAILED: %(mpi)s: %(reason)s" % failure for failure in document["failures"]]
    return "\n".join(lines)


def svg_of(document, found):
    """The plot of bench/ab, with a column per MPI."""
    drawn = [({"name": "%(mpi)s/%(verb)s" % row, "collective": row["verb"], "bytes": row["bytes"],
               "ranks": document["settings"]["ranks"], "memory": row["mpi"]}, judgement)
             for row, judgement in found]
    return plot.draw(drawn, list(head_lines(document)), plot.Labels(
        "Speed of MPI collectives with the layer, as a multiple of that without it",
        "A/A: without / without once more, 95 % interval", SPEED_MIN))

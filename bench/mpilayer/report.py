"""What was measured as a table, as a plot and in words. A row is

    {"mpi": "openmpi", "verb": "allreduce", "bytes": 8, "way": "libcoll" or "MPI" or None,
     "times_us": {"old": [one per round, without the layer], "new": [with it], "copy": [without],
                  "collbench": [libcoll without an MPI; not in every row]}}

and is judged with the statistics of bench/ab (abtest/verdict.py)."""
import re
import statistics

from abtest import plot, table as abtable
from comparison import judgement as verdict
from abtest.rows import short_size
from comparison import machine, table

SPEED_MIN = 1 / 1.05  # no row may be slower by more than 5 %
COLLBENCH = "collbench"
AS_FAST_BYTES = 32768  # rows from here on are to take what collbench takes, times AS_FAST_MAX;
AS_FAST_MAX = 1.10
ROOTED = ("bcast", "gather", "reduce", "scatter")  # or this, as calls overlap in collbench
ROOTED_AS_FAST_MAX = 1.25
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


def against_collbench(row):
    """The Estimate of the time with the layer / that of collbench; None without the latter."""
    times = row["times_us"]
    return verdict.estimate([new / own for new, own in zip(times["new"], times.get(COLLBENCH, []))])


def has_to_be_as_fast(row):
    return row["bytes"] >= AS_FAST_BYTES and row["verb"] not in IRREGULAR


def is_behind(row):
    ratio = against_collbench(row)
    return (has_to_be_as_fast(row) and ratio is not None and ratio.low is not None and
            ratio.low > (ROOTED_AS_FAST_MAX if row["verb"] in ROOTED else AS_FAST_MAX))


def behind(found):
    return [row for row, _ in found if is_behind(row)]


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
    yield "%-22s %8s  %9s  %9s  %9s  %21s  %21s  %21s  %7s" % (
        "", "", "without", "with", "collbench", "without / with", "A/A", "with / collbench", "")
    yield "%-22s %8s  %9s  %9s  %9s  %6s  %13s  %6s  %13s  %6s  %13s  %7s" % (
        "verb", "bytes", "(us)", "(us)", "(us)", *3 * ("", "95 % interval"), "way")
    for row, judgement in found:
        line = "%-22s %8s  " % (row["verb"], short_size(row["bytes"]) if row["bytes"] else "")
        if judgement is None:
            yield line + "not measured"
            continue
        own = row["times_us"].get(COLLBENCH)
        ratio = against_collbench(row)
        yield (line + "%9s  %9s  %9s  %s  %s  %21s  %7s  %s%s" % (
            table.time_text(judgement.old_us), table.time_text(judgement.new_us),
            table.time_text(statistics.median(own)) if own else "",
            abtable.speed_text(judgement.speed), abtable.speed_text(judgement.same),
            abtable.speed_text(ratio) if ratio else "", row["way"] or "", judgement.verdict,
            "  BEHIND" if is_behind(row) else "")).rstrip()


def summary_line(found):
    judged = [judgement for _, judgement in found
              if judgement and judgement.verdict != verdict.UNKNOWN]
    if not judged:
        return "too few rounds to judge: %d are needed" % verdict.ROUNDS_MIN
    counts = {kind: sum(judgement.verdict == kind for judgement in judged)
              for kind in (verdict.LOST, verdict.GAINED)}
    unsure = sum(judgement.verdict == verdict.EVEN and judgement.speed.low < SPEED_MIN
                 for judgement in judged)
    slow = len(behind(found))
    asked = sum(has_to_be_as_fast(row) and bool(against_collbench(row)) for row, _ in found)
    return "%s: of %d rows, %d are slower by over 5 %%, %d faster by over 5 %%, %d undecided%s" % (
        "FAIL" if counts[verdict.LOST] or slow else "PASS", len(judged), counts[verdict.LOST],
        counts[verdict.GAINED], unsure,
        "; of %d blocking ones of 32 KiB or more, %d are behind collbench" % (
            asked, slow) if asked else "")


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

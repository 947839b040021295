"""The outcome of bench/ab as text: a line per row and per unit, the failures with their commands,
the verdict."""
from abtest import rows
from comparison import judgement as verdict
from comparison import table

OUTPUT_LINES_SHOWN = 12
CODES = {verdict.LOST: (table.RED, table.BOLD), verdict.ACCEPTED: (table.RED,),
         verdict.GAINED: (table.GREEN,), verdict.UNKNOWN: (table.DIM,), verdict.EVEN: ()}


def speed_text(speed):
    """"0.981  0.95 - 1.02"."""
    if speed.low is None:
        return "%6.3f  %13s" % (speed.median, "-")
    return "%6.3f  %5.3f - %5.3f" % speed


def difference_text(slower_ns):
    text = "%+.1f" % slower_ns.median
    return text if slower_ns.low is None else text + " (%+.1f to %+.1f)" % slower_ns[1:]


def algorithm_text(row):
    """Where the two sides choose differently: "ring -> tree"."""
    old, new = ("/".join(row["algorithms"][side]) for side in ("old", "new"))
    return "%s -> %s" % (old, new) if old != new else ""


def note_of(row, judgement, reason):
    """What stands behind the verdict."""
    notes = []
    if judgement.verdict == verdict.ACCEPTED:
        notes.append(reason)
    if judgement.verdict == verdict.LOST and reason is not None:
        notes.append("too much to be accepted (%s)" % reason)
    if verdict.is_short(judgement):
        notes.append("%s ns, A/A %s" % (difference_text(judgement.slower_ns),
                                        difference_text(judgement.same_ns)))
    return "; ".join(filter(None, [*notes, algorithm_text(row)]))


def units_of(listed):
    """{name of a unit: its rows}."""
    units = {}
    for row in listed:
        unit = rows.Unit(row["collective"], row["ranks"], row["memory"], ())
        units.setdefault(rows.unit_name(unit), []).append(row)
    return units


def count_text(count):
    return "%d row%s" % (count, "" if count == 1 else "s")


class Table:
    """found: [(row, Judgement or None, reason or None)]."""

    def __init__(self, found, colored=False):
        self.found, self.style = found, table.Style(colored)
        self.name_width = max((len(row["name"]) for row, _, _ in found), default=0)

    def head(self):
        width = self.name_width
        yield "%-*s  %9s  %9s  %21s  %21s  %6s" % (width, "", "OLD", "NEW", "speed: OLD / NEW",
                                                   "A/A: OLD / copy", "")
        yield "%-*s  %9s  %9s  %6s  %13s  %6s  %13s  %6s" % (
            width, "row", "(us)", "(us)", "", "95 % interval", "", "95 % interval", "rounds")

    def line(self, row, judgement, reason):
        if judgement is None:
            return "%-*s  not measured" % (self.name_width, row["name"])
        paint, codes = self.style.paint, CODES[judgement.verdict]
        line = "%-*s  %9s  %9s  %s  %s  %6d  %s  %s" % (
            self.name_width, row["name"], table.time_text(judgement.old_us),
            table.time_text(judgement.new_us), paint(speed_text(judgement.speed), *codes),
            paint(speed_text(judgement.same), table.DIM), judgement.rounds,
            paint("%-8s" % judgement.verdict, *codes), note_of(row, judgement, reason))
        return line.rstrip()

    def together_line(self, name, several):
        """Of rows taken together."""
        new, same = verdict.speeds_together([row["times_us"] for row in several])
        if new is None:
            return "%-*s  not measured" % (self.name_width, name)
        return "%-*s  %9s  %9s  %s  %s" % (self.name_width, name, "", "", speed_text(new),
                                           self.style.paint(speed_text(same), table.DIM))

    def lines(self):
        yield from self.head()
        for row, judgement, reason in self.found:
            yield self.line(row, judgement, reason)
        yield ""
        units = units_of([row for row, judgement, _ in self.found if judgement])
        if not units:
            return
        yield "taken together, the geometric mean of a round's speeds:"
        for name, several in units.items():
            yield self.together_line(name, several)
        if len(units) > 1:
            yield self.together_line("all rows", sum(units.values(), []))
        yield ""


def failure_lines(failures):
    for failure in failures:
        yield "FAILED: %s, %s, round %d: %s" % (
            failure["side"].upper(), failure["unit"], failure["round"], failure["reason"])
        yield "  %s" % failure["command"]
        for line in failure["output"].splitlines()[-OUTPUT_LINES_SHOWN:]:
            yield "  | %s" % line
    if failures:
        yield ""


def summary_lines(found, summary):
    if not any(judgement for _, judgement, _ in found):
        yield "nothing was measured"
        return
    if summary.unknown:
        yield "too few rounds for an interval (%d): %s" % (verdict.ROUNDS_MIN,
                                                           count_text(summary.unknown))
    if not summary.judged:
        return
    if summary.disturbed:
        yield "disturbed: %s, where the copy of OLD differs from OLD by as much as counts as " \
            "lost or gained" % count_text(summary.disturbed)
    if summary.unsure:
        yield "undecided: %s that have not lost, but whose interval does not exclude it; more " \
            "--time narrows it" % count_text(summary.unsure)
    yield "%s: %d of %s lost, %d may; %d accepted, %d gained, %d undecided" % (
        "PASS" if verdict.passes(summary) else "FAIL", summary.lost, count_text(summary.judged),
        verdict.lost_max(summary.judged), summary.accepted, summary.gained,
        summary.unsure)

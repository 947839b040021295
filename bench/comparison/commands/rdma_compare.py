"""Compares libcoll's messages over RDMA with those of perftest (ib_write_bw, ib_send_bw,
ib_write_lat) over the same two devices, in turn in every round. The devices are soft-RoCE ones at
the ends of one link, in a virtual machine (QEMU without KVM, so on any host): its processor is
emulated and times are in the hundreds of us, so only the shares say something.

Needs what tests/net/rxe/guest.sh names, perftest, and a build in build/. Run it on an idle machine;
it takes about a minute per round. The load average before and after is part of the results."""
import math
import os
import shutil
import subprocess
import tempfile

from comparison import arguments, command, launch, machine, rounds, sizes, table

NAME = "bench/rdma-compare"
GUEST = os.path.join(command.ROOT, "tests", "net", "rxe")
INSIDE = os.path.join(command.ROOT, "bench", "peers", "rdma_inside.sh")
SECONDS_BASE, SECONDS_PER_ROUND = 60, 240
TARGETS = ["tools/collrun", "bench/collbench"]
TARGET = 0.9             # of perftest's bandwidth, from TARGET_BYTES on
TARGET_BYTES = 1 << 20


def parse_arguments():
    parser = command.Parser(NAME, __doc__)
    add = parser.add_argument
    add("--sizes", type=arguments.size_list, default=arguments.size_list("64K,256K,1M,4M"),
        help="4,1K or 4..16K, by factors of four (64K,256K,1M,4M)")
    add("--rounds", type=arguments.positive, default=5, help="number of rounds (5)")
    parser.add_name()
    parser.add_json()
    parser.add_build(can_omit=True)
    parser.add_from()
    return parser.parse_args()


# ---- measuring -----------------------------------------------------------------------------------

def in_guest(line, seconds):
    """What the command prints in the virtual machine."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "run"), "w", encoding="utf-8") as file:
            file.write("exec " + line)
        script = 'here=%s; . "$here/guest.sh"; why=$(guest_may) || { echo "$why" >&2; exit 1; }; ' \
                 'guest_run /out/run %s %d' % (GUEST, folder, seconds)
        run = subprocess.run(["sh", "-c", script], stderr=subprocess.PIPE, text=True, check=False)
        printed, errors = (machine.read(os.path.join(folder, name)) for name in ("out", "err"))
        if run.returncode != 0 or not printed:
            raise launch.Failure("the virtual machine ended with %d: %s" % (
                run.returncode, (errors or run.stderr).strip() or "no message"))
        return printed


def measure(options):
    programs = [os.path.join(options.build, name) for name in TARGETS]
    words = ["sh", INSIDE, GUEST, *programs, options.rounds, *options.sizes]
    return rows_of(in_guest(" ".join("'%s'" % word for word in words),
                                  SECONDS_BASE + SECONDS_PER_ROUND * options.rounds))


def rows_of(text):
    """[{"what": "bandwidth" or "latency", "bytes": 8, "values": {"perftest write": [one per round,
    None where perftest failed], ...}}] from the lines of inside.sh. ValueError says which line is
    none of them."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) != 5:
            raise ValueError("'%s' is no measurement" % line)
        at, who, what, size, value = int(words[0]), *words[1:3], int(words[3]), float(words[4])
        is_latency = what == "latency"
        names = found.setdefault(("latency" if is_latency else "bandwidth", size), {})
        name = who if is_latency else "%s %s" % (who, what)
        names.setdefault(name, {})[at] = value if math.isfinite(value) and value > 0 else None
    numbers = sorted({at for names in found.values() for values in names.values() for at in values})
    return [{"what": what, "bytes": size,
             "values": {name: [values.get(at) for at in numbers] for name, values in names.items()}}
            for (what, size), names in found.items()]


def take(options):
    if not shutil.which("ib_write_bw"):
        raise launch.Trouble("there is no ib_write_bw (Debian: perftest)")
    if not options.no_build:
        launch.build(options.build, TARGETS)
    document = machine.begin(NAME, settings={"rounds": options.rounds})
    return machine.end(document, rows=measure(options))


# ---- showing -------------------------------------------------------------------------------------

def median_of(row, name):
    """None if it was not measured in any round."""
    return rounds.median(row["values"].get(name, []))


def share(row):
    """Median over the rounds of libcoll's bandwidth / perftest's better one of the same round."""
    ours, *theirs = (row["values"].get(name, []) for name in
                     ("libcoll broadcast", "perftest write", "perftest send"))
    best = [max((value for value in pair if value is not None), default=None)
            for pair in zip(*theirs)]
    return rounds.median(rounds.quotients(ours, best))


def verdict(row):
    reached = share(row)
    if reached is None:
        return "not measured"
    if row["bytes"] < TARGET_BYTES:
        return ""
    return "ok" if reached >= TARGET else "missed"


def scaled(name, scale):
    def cell(row):
        value = median_of(row, name)
        return table.number(value and value / scale)
    return cell


def bandwidth_columns():
    return [table.Column("size", lambda row: sizes.size_text(row["bytes"]), 8),
            table.Column("ib_write_bw", scaled("perftest write", 1e6)),
            table.Column("ib_send_bw", scaled("perftest send", 1e6)),
            table.Column("libcoll", scaled("libcoll broadcast", 1e6), 11),
            table.Column("of the better", lambda row: table.share_text(share(row))),
            table.Column("target: %.0f %% from %s on" % (
                100 * TARGET, sizes.size_text(TARGET_BYTES)), verdict, left=True)]


def latency_columns():
    return [table.Column("size", lambda row: sizes.size_text(row["bytes"]), 8),
            table.Column("ib_write_lat", scaled("perftest", 1)),
            table.Column("libcoll", scaled("libcoll", 1), 11)]


def text_of(document):
    rows = {what: [row for row in document["rows"] if row["what"] == what]
            for what in ("bandwidth", "latency")}
    return "\n".join([
        *machine.heading(document, "rounds: %d; soft-RoCE, emulated"
                         % document["settings"]["rounds"]), "",
        "MB/s from one rank to the other: libcoll's is a broadcast between two ranks",
        *table.lines(bandwidth_columns(), rows["bandwidth"]), "",
        "us for a message: half a round trip of ib_write_lat; libcoll's is an exchange (sendrecv)",
        *table.lines(latency_columns(), rows["latency"])])


def main():
    command.compare(parse_arguments(), NAME, take, text_of)
    return 0

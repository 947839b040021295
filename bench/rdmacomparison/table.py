"""Reads and shows the figures of bench/rdma-compare."""
import math
import statistics

TARGET = 0.9             # of perftest's bandwidth, from TARGET_BYTES on
TARGET_BYTES = 1 << 20


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
    rounds = sorted({at for names in found.values() for values in names.values() for at in values})
    return [{"what": what, "bytes": size,
             "values": {name: [values.get(at) for at in rounds] for name, values in names.items()}}
            for (what, size), names in found.items()]


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return "%d %s" % (size // unit, name)
    return "%d B" % size


def median_of(row, name):
    """None if it was not measured in any round."""
    values = [value for value in row["values"].get(name, []) if value is not None]
    return statistics.median(values) if values else None


def share(row):
    """Median over the rounds of libcoll's bandwidth / perftest's better one of the same round."""
    shares = []
    for ours, *theirs in zip(*(row["values"].get(name, []) for name in
                               ("libcoll broadcast", "perftest write", "perftest send"))):
        theirs = [value for value in theirs if value is not None]
        if ours is not None and theirs:
            shares.append(ours / max(theirs))
    return statistics.median(shares) if shares else None


def verdict(row):
    reached = share(row)
    if reached is None:
        return "not measured"
    if row["bytes"] < TARGET_BYTES:
        return ""
    return "ok" if reached >= TARGET else "missed"


def number(value, scale=1.0):
    return "-" if value is None else "%.2f" % (value / scale)


def bandwidth_lines(rows):
    yield "%8s %14s %14s %14s %8s  %s" % (
        "size", "ib_write_bw", "ib_send_bw", "libcoll", "share",
        "target: %.0f %% from %s on" % (100 * TARGET, size_text(TARGET_BYTES)))
    for row in rows:
        reached = share(row)
        yield ("%8s %14s %14s %14s %8s  %s" % (
            size_text(row["bytes"]), number(median_of(row, "perftest write"), 1e6),
            number(median_of(row, "perftest send"), 1e6),
            number(median_of(row, "libcoll broadcast"), 1e6),
            "-" if reached is None else "%.0f %%" % (100 * reached), verdict(row))).rstrip()


def lines(rows):
    yield "MB/s from one rank to the other: libcoll's is a broadcast between two ranks"
    yield from bandwidth_lines([row for row in rows if row["what"] == "bandwidth"])
    yield ""
    yield "us for a message: half a round trip of ib_write_lat; libcoll's is an exchange (sendrecv)"
    yield "%8s %14s %14s" % ("size", "ib_write_lat", "libcoll")
    for row in rows:
        if row["what"] == "latency":
            yield "%8s %14s %14s" % (size_text(row["bytes"]), number(median_of(row, "perftest")),
                                     number(median_of(row, "libcoll")))

"""Shows the figures of bench/torch-compare."""

SMALL = 1024        # bytes up to which latency counts: coll is to take a tenth of Gloo's time
LARGE = 64 * 1024   # bytes from which bandwidth counts: coll is to have three times Gloo's


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return "%d %s" % (size // unit, name)
    return "%d B" % size


def verdict(row):
    gain = row["gloo_us"] / row["coll_us"]
    if SMALL < row["bytes"] < LARGE:
        return ""
    return "ok" if gain >= (10 if row["bytes"] <= SMALL else 3) else "missed"


def call_lines(rows):
    yield "%5s %9s | %9s %9s %9s %7s | %9s %9s %9s | %9s  %s" % (
        "ranks", "size", "C++ coll", "mapped", "Gloo", "gain", "Py coll", "mapped", "Gloo",
        "coll GB/s", "target: 10x to 1 KiB, 3x from 64 KiB")
    for row in rows:
        yield "%5d %9s | %9.2f %9.2f %9.2f %6.1fx | %9.2f %9.2f %9.2f | %9.2f  %s" % (
            row["ranks"], size_text(row["bytes"]), row["coll_us"], row["mapped_us"],
            row["gloo_us"], row["gloo_us"] / row["coll_us"], row["coll_python_us"],
            row["mapped_python_us"], row["gloo_python_us"], row["bytes"] / row["coll_us"] / 1e3,
            verdict(row))


def step_lines(rows):
    yield "%5s %11s | %9s %9s %9s %7s | %s" % ("ranks", "parameters", "coll ms", "Gloo ms", "alone",
                                               "gain", "largest difference of the losses")
    for row in rows:
        yield "%5d %11d | %9.2f %9.2f %9.2f %6.2fx | %.1e in %d steps" % (
            row["ranks"], row["parameters"], row["coll_ms"], row["gloo_ms"], row["alone_ms"],
            row["gloo_ms"] / row["coll_ms"], row["loss_difference"], row["steps"])

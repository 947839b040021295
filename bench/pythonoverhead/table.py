"""Shows the figures of bench/python-overhead."""

TARGET_US = 2.0  # that a call from Python may take longer than from C


def size_text(size):
    return "%d KiB" % (size // 1024) if size >= 1024 else "%d B" % size


def verdict(row):
    return "ok" if row["over_us"] <= TARGET_US else "missed"


def lines(rows):
    yield "%5s %9s %9s %12s %9s %12s %9s  %s" % ("ranks", "size", "C", "Python out=", "over C",
                                                 "Python new", "over C",
                                                 "target: %.0f us with out=" % TARGET_US)
    for row in rows:
        yield "%5d %9s %9.2f %12.2f %9.2f %12.2f %9.2f  %s" % (
            row["ranks"], size_text(row["bytes"]), row["c_us"], row["python_us"], row["over_us"],
            row["new_us"], row["new_over_us"], verdict(row))

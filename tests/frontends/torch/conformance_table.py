"""Makes a table of results of conformance.py: which of PyTorch's own tests pass with Gloo, with
coll, and with coll where the test asks for Gloo.

    conformance_table.py TITLE GLOO,GLOO... COLL,COLL... AS_GLOO,AS_GLOO...

Each argument is a list of RESULTS, those of the fewest ranks first: a test's result is the last
that is no skip. A test that Gloo passes and coll does not has the reason in the last column. Tests
that no column passes are counted by their reason only."""
import sys

from conformance import read

COLUMNS = ("gloo", "coll", "as gloo")


def merged(paths):
    """{name: (status, reason)}; a result that is no skip replaces one that is."""
    results = {}
    for path in paths.split(","):
        for name, result in read(path).items():
            if name not in results or result[0] != "skip":
                results[name] = result
    return results


def reason_of(gloo, coll, under_name):
    """Why a test is not passed where Gloo passes it."""
    if gloo[0] != "pass":
        return "" if "pass" in (coll[0], under_name[0]) else "not passed by Gloo: " + gloo[1]
    if coll[0] == "pass":
        return ""
    return coll[1] or under_name[1]


def main():
    title, *paths = sys.argv[1:]
    columns = [merged(path) for path in paths]
    nothing = ("-", "")
    print(title)
    print()
    print(f"{COLUMNS[0]:8}{COLUMNS[1]:8}{COLUMNS[2]:8} test")
    skipped = {}
    counts = {}
    for name in sorted(columns[0]):
        results = [column.get(name, nothing) for column in columns]
        statuses = tuple(status for status, _ in results)
        counts[statuses] = counts.get(statuses, 0) + 1
        if set(statuses) <= {"skip", "-"}:
            skipped.setdefault(results[0][1], []).append(name)
            continue
        reason = reason_of(*results)
        print("".join(f"{status:8}" for status in statuses), name + (reason and f" ({reason})"))
    print()
    for statuses, count in sorted(counts.items()):
        print(f"{count:4} tests:", ", ".join(f"{c}: {s}" for c, s in zip(COLUMNS, statuses)))
    print("\nSkipped with all columns, by the reason that Gloo's run gives:")
    for reason, names in sorted(skipped.items(), key=lambda item: -len(item[1])):
        print(f"{len(names):4} {reason}")


if __name__ == "__main__":
    main()

"""Names of rows: COLLECTIVE/RANKS/MEMORY/SIZE, as "allreduce/4/coll/64K", or "barrier/2". Rows that
one launch of collbench measures together make a unit: all sizes of a collective among so many ranks
in one kind of memory."""
import collections
import fnmatch

from comparison import sizes

BARRIER = "barrier"

# sizes: in bytes, ascending; (0,) for a barrier, whose memory is None.
Unit = collections.namedtuple("Unit", "collective ranks memory sizes")


def unit_name(unit):
    words = [unit.collective, str(unit.ranks), unit.memory]
    return "/".join(word for word in words if word)


def unit_of(row):
    """The name of a row's unit."""
    return unit_name(Unit(row["collective"], row["ranks"], row["memory"], ()))


def row_name(unit, size):
    return unit_name(unit) + ("/" + sizes.short_size(size) if size else "")


def units_of(collectives, ranks, memories, asked):
    """One per collective, number of ranks and kind of memory."""
    made = []
    for collective in collectives:
        for count in ranks:
            if collective == BARRIER:
                made.append(Unit(collective, count, None, (0,)))
                continue
            fitting = tuple(sorted({sizes.size_for(collective, count, size) for size in asked}))
            made += [Unit(collective, count, memory, fitting) for memory in memories]
    return made


def names_of(units):
    return [row_name(unit, size) for unit in units for size in unit.sizes]


def matches(pattern, name):
    """A pattern is a name, the words that names begin with ("allreduce/2"), or has * and ?."""
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, pattern + "/*")


def check_patterns(patterns, names):
    for pattern in patterns:
        if not any(matches(pattern, name) for name in names):
            raise ValueError("'%s' is no row; rows are named like %s (--list shows all)"
                             % (pattern, names[0] if names else "allreduce/2/coll/4K"))


def select(units, patterns):
    """The units with those sizes that some pattern matches; all without patterns."""
    if not patterns:
        return units
    check_patterns(patterns, names_of(units))
    kept = []
    for unit in units:
        fitting = tuple(size for size in unit.sizes
                        if any(matches(pattern, row_name(unit, size)) for pattern in patterns))
        if fitting:
            kept.append(unit._replace(sizes=fitting))
    return kept


def reason_for(name, accepted):
    """accepted: [(pattern, reason)]. The reason for the row, or None."""
    return next((reason for pattern, reason in accepted if matches(pattern, name)), None)

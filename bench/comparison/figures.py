"""From measured times to figures: medians, ratios, the machine's limit, and whether a row meets its
target. Pure functions over rows:

    {"ranks": 2, "collective": "allreduce", "bytes": 4096,
     "times_us": {contender: [one per round]},
     "limit": {"cached_us": [...], "streamed_us": [...], "slot_us": [...],
               "barrier_us": [...], "round_trip_us": [...]}}

The limit's copies are of "bytes" by every rank at once, "slot_us" of SLOT_BYTES.
"""
import collections
import statistics

KIB, MIB = 1 << 10, 1 << 20
SLOT_BYTES = 64 * KIB

COLLECTIVES = ("allreduce", "reduce_scatter", "reduce", "allgather", "broadcast", "alltoall",
               "gather", "scatter")
PER_RANK = {"reduce_scatter", "allgather", "alltoall", "gather", "scatter"}
ROOTED = {"reduce", "broadcast", "gather", "scatter"}

OURS = {"coll": "libcoll", "malloc": "libcoll, malloc"}


# ---- times ---------------------------------------------------------------------------------------

def time_us(row, contender):
    """Median over the rounds; None where the contender was not measured."""
    times = row["times_us"].get(contender)
    return statistics.median(times) if times else None


def family_of(contender):
    """Peers are named "family/setting"."""
    return contender.split("/")[0]


def best_settings(row):
    """{family: (time in us, contender)}, each peer at the setting that is fastest on this row."""
    best = {}
    for contender in row["times_us"]:
        time = time_us(row, contender)
        if contender in OURS or time is None:
            continue
        family = family_of(contender)
        if family not in best or time < best[family][0]:
            best[family] = (time, contender)
    return best


def best_peer_us(row):
    return min((time for time, _ in best_settings(row).values()), default=None)


def ratio(row, memory):
    """How many times as fast as the best peer; None where either was not measured."""
    ours, peer = time_us(row, memory), best_peer_us(row)
    return peer / ours if ours and peer else None


# ---- the limit -----------------------------------------------------------------------------------

def least_bytes(collective, ranks, size, staged):
    """Bytes that the cores together must load and store, for `size` bytes in the larger of a
    rank's two buffers. Mapped: ranks reach each other's buffers. Staged: what comes from another
    rank is first copied to where both reach."""
    p, s = ranks, size
    mapped_bytes, staged_bytes = {
        "allreduce": (2 * p * s, (5 * p - 2) * s),
        "reduce_scatter": ((p + 1) * s, (3 * p - 1) * s),
        "reduce": ((p + 1) * s, (3 * p - 1) * s),
        "allgather": ((p + 1) * s, 2 * (p + 1) * s),
        "broadcast": ((p + 1) * s, 2 * (p + 1) * s),
        "alltoall": (2 * p * s, (4 * p - 2) * s),
        "gather": (2 * s, 2 * s + 2 * s * (p - 1) / p),
        "scatter": (2 * s, 2 * s + 2 * s * (p - 1) / p),
    }[collective]
    return staged_bytes if staged else mapped_bytes


def bandwidth(row, size, *kinds):
    """Bytes per us that all ranks together load and store when each copies `size` bytes, by the
    best kind of copy."""
    return 2 * row["ranks"] * size / min(statistics.median(row["limit"][kind]) for kind in kinds)


def limit_us(row, memory):
    """The least time: the flags that must cross, then the bytes that must move. The call's own
    buffers move at the speed of copies of its size; what staging adds, between slots that stay in
    a cache."""
    if not row.get("limit"):
        return None
    if row["collective"] in ROOTED:
        flags_us = statistics.median(row["limit"]["round_trip_us"]) / 2
    else:
        flags_us = statistics.median(row["limit"]["barrier_us"])
    call = row["collective"], row["ranks"], row["bytes"]
    own, staged = least_bytes(*call, staged=False), least_bytes(*call, staged=True)
    own_speed = bandwidth(row, row["bytes"], "cached_us", "streamed_us")
    time = flags_us + own / own_speed
    if memory == "malloc":
        time += (staged - own) / max(own_speed, bandwidth(row, SLOT_BYTES, "slot_us"))
    return time


def reached(row, memory):
    """The share of the limit's speed that ours has; None where either was not measured."""
    limit, ours = limit_us(row, memory), time_us(row, memory)
    return limit / ours if limit and ours else None


# ---- targets -------------------------------------------------------------------------------------
# Against the best peer at the row's size; the first line that fits counts.

Target = collections.namedtuple("Target", "collectives ranks least most times")
MOVING = ("allgather", "broadcast", "alltoall", "gather", "scatter")
TARGETS = (
    Target(("allreduce",), (2,), 4, KIB, {"coll": 3, "malloc": 3}),
    Target(("allreduce",), (2,), 4 * KIB, 256 * KIB, {"coll": 10, "malloc": 4}),
    Target(("allreduce",), (2,), MIB, 64 * MIB, {"coll": 10, "malloc": 4}),
    Target(("reduce_scatter", "reduce"), (2,), 64 * KIB, 64 * MIB, {"coll": 8, "malloc": 4}),
    Target(MOVING, (2,), 64 * KIB, 64 * MIB, {"coll": 2.5, "malloc": 1.3}),
    Target(COLLECTIVES, (2,), 4, KIB, {"coll": 2, "malloc": 2}),
    Target(("allreduce",), (4, 8), 4, 64 * MIB, {"coll": 3, "malloc": 3}),
)
LIMIT_TARGET = Target(("allreduce", "reduce_scatter", "allgather"), (2,), 16 * MIB, 64 * MIB,
                      {"coll": 0.8})


def fits(target, row):
    return (row["collective"] in target.collectives and row["ranks"] in target.ranks
            and target.least <= row["bytes"] <= target.most)


def target_of(row):
    return next((target for target in TARGETS if fits(target, row)), None)


def verdict(row, memory):
    """True: meets its target, False: misses it, None: has none or was not measured."""
    target, times = target_of(row), ratio(row, memory)
    return None if target is None or times is None else times >= target.times[memory]


def limit_verdict(row, memory):
    share = reached(row, memory)
    if share is None or memory not in LIMIT_TARGET.times or not fits(LIMIT_TARGET, row):
        return None
    return share >= LIMIT_TARGET.times[memory]


Summary = collections.namedtuple("Summary", "target memory rows met worst worst_row by_limit")


def summarize(rows):
    """One Summary per target and kind of memory that rows were measured for."""
    summaries = []
    for target in TARGETS + (LIMIT_TARGET,):
        by_limit = target is LIMIT_TARGET
        for memory in target.times:
            mine = [row for row in rows if (fits(target, row) if by_limit
                                            else target_of(row) is target)]
            figure = reached if by_limit else ratio
            figures = [(figure(row, memory), row) for row in mine]
            figures = [pair for pair in figures if pair[0] is not None]
            if not figures:
                continue
            worst, worst_row = min(figures, key=lambda pair: pair[0])
            met = sum(value >= target.times[memory] for value, _ in figures)
            summaries.append(Summary(target, memory, len(figures), met, worst, worst_row,
                                     by_limit))
    return summaries


# ---- words ---------------------------------------------------------------------------------------

def size_text(count):
    for unit, word in ((1 << 30, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit and count % unit == 0:
            return "%d %s" % (count // unit, word)
    return "%d B" % count


def parse_size(text):
    """"64K" in bytes."""
    scale = {"K": KIB, "M": MIB, "G": 1 << 30}.get(text[-1:].upper())
    return int(text[:-1]) * scale if scale else int(text)


def parse_sizes(text, factor=4):
    """"4..64M" is every size by factors of four; "4,1K" those two."""
    sizes = []
    for item in text.split(","):
        first, dots, last = item.partition("..")
        size = parse_size(first)
        end = parse_size(last) if dots else size
        if size < 1 or end < size:
            raise ValueError("'%s' is no size or range of sizes" % item)
        while size <= end:
            sizes.append(size)
            size *= factor
    return sorted(set(sizes))


def size_for(collective, ranks, size, element=4):
    """The size as the collective can have it: whole elements, of every rank alike."""
    unit = element * ranks if collective in PER_RANK else element
    return max(unit, size // unit * unit)

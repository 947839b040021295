"""From measured times to figures: medians, ratios, the machine's limit, and whether a row meets its
target. Pure functions over rows:

    {"ranks": 2, "collective": "allreduce", "bytes": 4096,
     "times_us": {contender: [one per round]},
     "limit": {"cached_us": [...], "streamed_us": [...], "sum_cached_us": [...],
               "sum_streamed_us": [...], "exchange_us": [...], "slot_us": [...],
               "barrier_us": [...], "round_trip_us": [...]}}

The limit's copies are of "bytes" by every rank at once, "slot_us" of SLOT_BYTES; a sum is of the
two halves of as many bytes. In an exchange, two ranks hand each other "bytes" by way of memory that
both reach; it is missing where ranks outnumber cores.
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

def least_moves(collective, ranks, size, staged):
    """(loads, stores) in bytes that the cores together must make, for `size` bytes in the larger of
    a rank's two buffers. What several cores load counts once. Mapped: ranks reach each other's
    buffers. Staged: what comes from another rank is first copied to where both reach."""
    p, s = ranks, size
    mapped_moves, staged_moves = {
        "allreduce": ((p * s, p * s), ((3 * p - 2) * s, 2 * p * s)),
        "reduce_scatter": ((p * s, s), ((2 * p - 1) * s, p * s)),
        "reduce": ((p * s, s), ((2 * p - 1) * s, p * s)),
        "allgather": ((s, p * s), (p * s, (p + 1) * s)),
        "broadcast": ((s, p * s), (p * s, (p + 1) * s)),
        "alltoall": ((p * s, p * s), ((2 * p - 1) * s, (2 * p - 1) * s)),
        "gather": ((s, s), (s + s * (p - 1) / p, s + s * (p - 1) / p)),
        "scatter": ((s, s), (s + s * (p - 1) / p, s + s * (p - 1) / p)),
    }[collective]
    return staged_moves if staged else mapped_moves


def us_per_byte(row, size, *kinds):
    """For a byte that some rank copies while all ranks copy `size` bytes each, in the best way."""
    return min(statistics.median(row["limit"][kind]) for kind in kinds) / (row["ranks"] * size)


def moves_us(row, loads, stores):
    """At the speeds of copies, which load as much as they store, and of sums, which load twice as
    much. Stores beyond the loads cost half of a copy."""
    added = 2 * us_per_byte(row, row["bytes"], "sum_cached_us", "sum_streamed_us")
    copied = min(us_per_byte(row, row["bytes"], "cached_us", "streamed_us"), added)
    if loads < stores:
        return (loads + stores) / 2 * copied
    return stores * copied + (loads - stores) * (added - copied)


def crossing_share(collective, ranks):
    """Of the larger of a rank's two buffers: what each rank must take in from others, where all
    have the same part; 0 where they have not."""
    if collective in ROOTED:
        return 0
    return (2 if collective == "allreduce" else 1) * (ranks - 1) / ranks


def meeting_us(row):
    """Until each rank that needs it knows that the others have come so far."""
    if row["collective"] in ROOTED:
        return statistics.median(row["limit"]["round_trip_us"]) / 2
    return statistics.median(row["limit"]["barrier_us"])


def mapped_us(row):
    """Nobody may touch a peer's buffers before the peer is in the call, nor may a rank leave before
    its peers are done with its own: two meetings, and the least moves between them."""
    own = least_moves(row["collective"], row["ranks"], row["bytes"], staged=False)
    return 2 * meeting_us(row) + moves_us(row, *own)


def staged_us(row):
    """One meeting. The call's own buffers move at the speed of the call's size; what staging adds,
    between slots that stay in a cache. What a peer has just stored must cross from its cache, too,
    and that takes at least as long as a bare exchange of so many bytes."""
    call = row["collective"], row["ranks"], row["bytes"]
    own, staged = least_moves(*call, staged=False), least_moves(*call, staged=True)
    added = (sum(staged) - sum(own)) / 2 * min(
        us_per_byte(row, row["bytes"], "cached_us", "streamed_us"),
        us_per_byte(row, SLOT_BYTES, "slot_us"))
    share = min(crossing_share(*call[:2]), 1)
    crossing = share * statistics.median(row["limit"].get("exchange_us", [0]))
    return max(meeting_us(row) + moves_us(row, *own) + added, crossing)


def limit_us(row, memory):
    """The least time: the flags that must cross, and the bytes that must move. Memory that can be
    mapped may be staged all the same. With fewer cores than ranks, each core does its ranks' work
    one after the other."""
    if not row.get("limit"):
        return None
    staged = staged_us(row)
    return staged if memory == "malloc" else min(mapped_us(row), staged)


def most_possible(row, memory):
    """How many times as fast as the best peer a call at the limit would be."""
    limit, peer = limit_us(row, memory), best_peer_us(row)
    return peer / limit if limit and peer else None


def reached(row, memory):
    """The share of the limit's speed that ours has; None where either was not measured."""
    limit, ours = limit_us(row, memory), time_us(row, memory)
    return limit / ours if limit and ours else None


# ---- targets -------------------------------------------------------------------------------------
# Against the best peer at the row's size; the first line that fits counts.

PASS, FAIL, BEYOND = "pass", "FAIL", "beyond"
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
    """PASS, FAIL, or BEYOND the machine, where even the limit would miss the target; None where a
    row has no target or was not measured."""
    target, times = target_of(row), ratio(row, memory)
    if target is None or times is None:
        return None
    if times >= target.times[memory]:
        return PASS
    possible = most_possible(row, memory)
    return BEYOND if possible is not None and possible < target.times[memory] else FAIL


def limit_verdict(row, memory):
    share = reached(row, memory)
    if share is None or memory not in LIMIT_TARGET.times or not fits(LIMIT_TARGET, row):
        return None
    return PASS if share >= LIMIT_TARGET.times[memory] else FAIL


Summary = collections.namedtuple("Summary",
                                 "target memory rows met beyond worst worst_row by_limit")


def summary_verdict(summary):
    if summary.met == summary.rows:
        return PASS
    return BEYOND if summary.met + summary.beyond == summary.rows else FAIL


def summarize(rows):
    """One Summary per target and kind of memory that rows were measured for."""
    summaries = []
    for target in TARGETS + (LIMIT_TARGET,):
        by_limit = target is LIMIT_TARGET
        figure, judge = (reached, limit_verdict) if by_limit else (ratio, verdict)
        for memory in target.times:
            mine = [row for row in rows if figure(row, memory) is not None and (
                fits(target, row) if by_limit else target_of(row) is target)]
            if not mine:
                continue
            verdicts = [judge(row, memory) for row in mine]
            worst_row = min(mine, key=lambda row: figure(row, memory))
            summaries.append(Summary(target, memory, len(mine), verdicts.count(PASS),
                                     verdicts.count(BEYOND), figure(worst_row, memory), worst_row,
                                     by_limit))
    return summaries


def collectives_with_target(ranks):
    """Those that some target among so many ranks names; all where none does."""
    named = {name for target in TARGETS if ranks in target.ranks for name in target.collectives}
    return [name for name in COLLECTIVES if name in named or not named]


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

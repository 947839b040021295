"""Computes medians, ratios, and whether a row meets its target. Pure functions on rows:

    {"ranks": 2, "collective": "allreduce", "bytes": 4096,
     "times_us": {configuration: [one per round]},
     "limit": {"mapped_us": [...], "staged_us": [...], "crossing_us": [...],
               "barrier_us": [...], "round_trip_us": [...], "one_way_us": [...]}}

"limit" has times of plain copies, without a library (bench/limit). They are no bound: a library may
copy in a better way, and the machine may have been slower while they were measured. mapped_us,
staged_us: the minimal data movement of the call, without waiting, where ranks access each other's
buffers (mapped) or shared slots only (staged). crossing_us: the minimal copies with waiting,
between two ranks through shared slots; missing with fewer cores than ranks.
barrier_us, round_trip_us, one_way_us: a barrier of flags, a flag and its reply, one of a stream of
flags in one direction.

Rows of ranks on several hosts also have "hosts", and in "limit" the times of plain sockets by
variant (bench/limit_net), {"spin-2-16K": [...]}; the fastest variant counts. Older files have only
that of the fastest, UNNAMED.
"""
import collections
import statistics

from comparison import rounds
from comparison.sizes import KIB, MIB

COLLECTIVES = ("allreduce", "reduce_scatter", "reduce", "allgather", "broadcast", "alltoall",
               "gather", "scatter", "sendrecv")
ROOTED = {"reduce", "broadcast", "gather", "scatter"}

OURS = {"coll": "libcoll", "malloc": "libcoll, malloc"}


# ---- times ---------------------------------------------------------------------------------------

def time_us(row, configuration):
    """Median over the rounds; None if the configuration was not measured."""
    return rounds.median(row["times_us"].get(configuration, []))


def family_of(configuration):
    """Peers are named "family/setting"."""
    return configuration.split("/")[0]


def best_settings(row):
    """{family: (time in us, configuration)}: each peer with its fastest setting in this row."""
    best = {}
    for configuration in row["times_us"]:
        time = time_us(row, configuration)
        if configuration in OURS or time is None:
            continue
        family = family_of(configuration)
        if family not in best or time < best[family][0]:
            best[family] = (time, configuration)
    return best


def best_peer(row):
    """(time in us, configuration) of the fastest peer and its setting; None without peers."""
    return min(best_settings(row).values(), default=None)


def best_peer_us(row):
    best = best_peer(row)
    return best and best[0]


# ---- round by round ------------------------------------------------------------------------------
# A machine may be twice as slow for minutes, so only times of the same round are compared.

def one_round(row, index):
    """The row with the times of that round only."""
    def of_round(lists):
        return {name: values[index:index + 1] for name, values in lists.items()
                if len(values) > index}
    return {**row, "times_us": of_round(row["times_us"]), "limit": of_round(row.get("limit", {}))}


def over_rounds(row, dividend, divisor):
    """The median over the rounds of dividend / divisor; None if no round has both."""
    count = max((len(times) for times in row["times_us"].values()), default=0)
    alone = [one_round(row, index) for index in range(count)]
    return rounds.median(rounds.quotients(map(dividend, alone), map(divisor, alone)))


def ratio(row, memory):
    """Time of the best peer / time of libcoll; None if either was not measured."""
    return over_rounds(row, best_peer_us, lambda alone: time_us(alone, memory))


# ---- plain copies and sockets --------------------------------------------------------------------

def median_of(row, name):
    return statistics.median(row["limit"].get(name, [0]))


def mapped_us(row):
    """A rank may access the buffers of a peer only while the peer is in the call. So there are two
    synchronizations, at the beginning and at the end, and the minimal copies between them."""
    rooted = row["collective"] in ROOTED
    sync_us = median_of(row, "round_trip_us") if rooted else 2 * median_of(row, "barrier_us")
    return sync_us + median_of(row, "mapped_us")


def staged_us(row):
    """One synchronization (with a root: flags in one direction) and the copies through slots;
    but not less than the baseline message, in which a rank waits for data from the cache of its
    peer."""
    rooted = row["collective"] in ROOTED
    sync_us = median_of(row, "one_way_us" if rooted else "barrier_us")
    return max(sync_us + median_of(row, "staged_us"), median_of(row, "crossing_us"))


UNNAMED = "socket_us"


def best_variant(row):
    """(time in us, name) of the fastest variant of plain sockets, which older files do not name
    (UNNAMED); None if none was measured."""
    return min(((statistics.median(times), name) for name, times in row.get("limit", {}).items()
                if times), default=None)


def near_variants(row, slower_max):
    """The names of those that take at most so many times as long as the fastest."""
    best = best_variant(row)
    return [name for name, times in row["limit"].items()
            if statistics.median(times) <= slower_max * best[0]]


def plain_us(row, memory):
    """The time of flags and minimal copies, or of sockets. Buffers that peers can map may be staged
    as well."""
    if "hosts" in row:
        return (best_variant(row) or (None,))[0]
    if "mapped_us" not in row.get("limit", {}):
        return None
    staged = staged_us(row)
    return staged if memory == "malloc" else min(mapped_us(row), staged)


def peer_over_plain(row, memory):
    """Time of the best peer / plain time."""
    return over_rounds(row, best_peer_us, lambda alone: plain_us(alone, memory))


def plain_over_ours(row, memory):
    """Plain time / time of libcoll, above 1 where libcoll is faster; None if either was not
    measured."""
    return over_rounds(row, lambda alone: plain_us(alone, memory),
                       lambda alone: time_us(alone, memory))


# ---- targets -------------------------------------------------------------------------------------
# Factors over the best peer; the first target that fits a row applies to it.

PASS, FAIL, BEYOND = "pass", "FAIL", "beyond"
Target = collections.namedtuple("Target", "collectives ranks min_bytes max_bytes times")
MOVING = ("allgather", "broadcast", "alltoall", "gather", "scatter", "sendrecv")
TARGETS = (
    Target(("allreduce",), (2,), 4, KIB, {"coll": 3, "malloc": 3}),
    Target(("allreduce",), (2,), 4 * KIB, 256 * KIB, {"coll": 10, "malloc": 4}),
    Target(("allreduce",), (2,), MIB, 64 * MIB, {"coll": 10, "malloc": 4}),
    Target(("reduce_scatter", "reduce"), (2,), 64 * KIB, 64 * MIB, {"coll": 8, "malloc": 4}),
    Target(MOVING, (2,), 64 * KIB, 64 * MIB, {"coll": 2.5, "malloc": 1.3}),
    Target(COLLECTIVES, (2,), 4, KIB, {"coll": 2, "malloc": 2}),
    Target(("allreduce",), (4, 8), 4, 64 * MIB, {"coll": 3, "malloc": 3}),
)
# Factors over plain copies.
PLAIN_TARGET = Target(("allreduce", "reduce_scatter", "allgather"), (2,), 16 * MIB, 64 * MIB,
                      {"coll": 0.8})
# Between hosts: level with every peer or ahead, and from 1 MiB on that factor over plain sockets
# with one rank on each of two hosts.
NET_TARGET = Target(COLLECTIVES, (), 4, 64 * MIB, {"coll": 1})
NET_PLAIN_MIN = 0.85


def fits(target, row):
    return (row["collective"] in target.collectives and row["ranks"] in target.ranks
            and target.min_bytes <= row["bytes"] <= target.max_bytes)


def target_of(row):
    if "hosts" in row:
        return NET_TARGET
    return next((target for target in TARGETS if fits(target, row)), None)


def verdict(row, memory):
    """PASS, FAIL, or BEYOND if plain copies or sockets would miss the target, too; None if the row
    has no target or was not measured."""
    target, times = target_of(row), ratio(row, memory)
    if target is None or times is None:
        return None
    if times >= target.times[memory]:
        return PASS
    plain = peer_over_plain(row, memory)
    return BEYOND if plain is not None and plain < target.times[memory] else FAIL


def plain_verdict(row, memory):
    times = plain_over_ours(row, memory)
    if times is not None and "hosts" in row:
        if row["bytes"] < MIB or (row["hosts"], row["per_host"]) != (2, 1):
            return None
        return PASS if times >= NET_PLAIN_MIN else FAIL
    if times is None or memory not in PLAIN_TARGET.times or not fits(PLAIN_TARGET, row):
        return None
    return PASS if times >= PLAIN_TARGET.times[memory] else FAIL


Summary = collections.namedtuple("Summary",
                                 "target memory rows passed beyond worst worst_row over_plain")


def summary_verdict(summary):
    if summary.passed == summary.rows:
        return PASS
    return BEYOND if summary.passed + summary.beyond == summary.rows else FAIL


def summarize(rows):
    """One Summary per target and kind of memory, if there are rows for it."""
    summaries = []
    for target in TARGETS + (PLAIN_TARGET,):
        over_plain = target is PLAIN_TARGET
        figure, judge = (plain_over_ours, plain_verdict) if over_plain else (ratio, verdict)
        for memory in target.times:
            mine = [row for row in rows if figure(row, memory) is not None and (
                fits(target, row) if over_plain else target_of(row) is target)]
            if not mine:
                continue
            verdicts = [judge(row, memory) for row in mine]
            worst_row = min(mine, key=lambda row: figure(row, memory))
            summaries.append(Summary(target, memory, len(mine), verdicts.count(PASS),
                                     verdicts.count(BEYOND), figure(worst_row, memory), worst_row,
                                     over_plain))
    return summaries


def row_key(row):
    """Sort key and identity of a row."""
    return row["ranks"], COLLECTIVES.index(row["collective"]), row["bytes"]


def first_of_each(rows):
    """The rows sorted by key, of equal keys the first one."""
    first = {}
    for row in rows:
        first.setdefault(row_key(row), row)
    return [first[key] for key in sorted(first)]


def collectives_with_target(ranks):
    """The collectives that have a target with that number of ranks; all if none has."""
    named = {name for target in TARGETS if ranks in target.ranks for name in target.collectives}
    return [name for name in COLLECTIVES if name in named or not named]


def grouped(rows, key):
    """Rows of the same key, by size; in order of first appearance."""
    blocks = {}
    for row in rows:
        blocks.setdefault(key(row), []).append(row)
    return [sorted(block, key=lambda row: row["bytes"]) for block in blocks.values()]

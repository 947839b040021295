"""What libcoll takes by itself for the rows of bench/mpi-layer: collbench with the same collective,
bytes and ranks, in memory of malloc and out of place. Its calls follow each other without the
barrier of the loop, so that those with a root overlap."""
from comparison import launch

MAX_CALLS = 20000
# For each verb, the collective of collbench and whether its size has a block per rank. The counts
# of the loop are equal, so that a v changes nothing.
WHOLE = {"allreduce": "allreduce", "reduce": "reduce", "bcast": "broadcast",
         "reduce_scatter": "reduce_scatter", "reduce_scatter_block": "reduce_scatter",
         "barrier": "barrier"}
BLOCKS = {"allgather": "allgather", "allgatherv": "allgather", "alltoall": "alltoall",
          "alltoallv": "alltoall", "gather": "gather", "gatherv": "gather", "scatter": "scatter",
          "scatterv": "scatter"}


def commands_for(build, ranks, verbs, sizes, time_ms):
    """[(command, {verb: collective}, blocks)]"""
    made = []
    for names, blocks in ((WHOLE, 1), (BLOCKS, ranks)):
        asked = {verb: names[verb] for verb in verbs if verb in names}
        if asked:
            made.append((launch.collrun(build, ranks, *launch.collbench(
                build, ",".join(sorted(set(asked.values()))), "--sizes",
                ",".join(str(size * blocks) for size in sizes), "-n", MAX_CALLS, "--time-ms",
                time_ms, "-c", 0, "--mem", "malloc", "--place", "out")), asked, blocks))
    return made


def times_of(rows, asked, blocks):
    """{(verb, bytes of the loop): us} of the rows that collbench has written."""
    times = {(row["collective"], row["bytes"] // blocks): row["out_of_place"]["time_us"]
             for row in rows}
    return {(verb, size): us for verb, collective in asked.items()
            for (name, size), us in times.items() if name == collective}


def run(build, ranks, verbs, sizes, time_ms, limit):
    """{(verb, bytes): us} of the blocking verbs. Raises Failure if collbench fails."""
    def runner(command, environment):
        return launch.run(command, environment, limit)
    times = {}
    for command, asked, blocks in commands_for(build, ranks, verbs, sizes, time_ms):
        times.update(times_of(launch.run_json(command, {}, runner)["rows"], asked, blocks))
    return times

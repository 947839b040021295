"""Runs the contenders in turn, round after round, and makes rows (comparison.figures) that also say
"hosts", "per_host" and "gbit". "limit" has socket_us, the times of limit_net."""
from comparison.contenders import collectives as configurations
from comparison import figures, measure
from comparison.contenders import networks as contenders
from comparison.contenders.hosts import link_text, since

LAUNCH_SECONDS_MAX, CHECK_SECONDS_MAX = 150, 60
BEHIND_MAX = 2.5  # times as slow as the best peer
SLOW_GBIT = 2  # the links are so slow that variants of sockets do not matter
CHECK_BYTES, CHECK_CALLS, CHECK_WARMUPS = 1 << 20, 20, 5
FEWEST_BYTES = 0.95  # of those that must cross the network


def sizes_for(collective, ranks, sizes):
    return {figures.size_for(collective, ranks, size) for size in sizes}


def run_command(hosts, command, environment, seconds_max=LAUNCH_SECONDS_MAX):
    """What is left of a launch that fails is ended."""
    try:
        return measure.run_command(command, environment, seconds_max)
    except BaseException:
        hosts.end_processes()
        raise


class Survey:
    """One layout with one shape of the links: all collectives and sizes."""

    def __init__(self, layout, gbit, collectives, sizes, effort):
        """effort: (rounds, time in ms of the timed calls of a row in a launch)."""
        self.layout, self.gbit = layout, gbit
        self.ranks = layout.count * layout.per_host
        self.collectives = [name for name in collectives
                            if name != "sendrecv" or layout.per_host == 1]
        self.sizes = sorted({size for name in self.collectives
                             for size in sizes_for(name, self.ranks, sizes)})
        self.rounds, self.time_ms = effort
        self.failures = []
        self.rows = {(name, size): {
            "ranks": self.ranks, "hosts": layout.count, "per_host": layout.per_host, "gbit": gbit,
            "collective": name, "bytes": size, "times_us": {}, "limit": {}}
            for name in self.collectives for size in sorted(sizes_for(name, self.ranks, sizes))}

    def where(self):
        return "%s, %s" % (contenders.layout_text(self.layout), link_text(self.gbit))

    def fail(self, contender, failure, progress):
        progress.say("%s, %s: %s" % (contender.name, self.where(), failure))
        self.failures.append({"contender": contender.name, "reason": str(failure),
                              "where": self.where()})

    def record(self, contender, times):
        for key, time_us in times.items():
            if key not in self.rows:
                continue
            row = self.rows[key]
            if contender.name == contenders.LIMIT:
                row["limit"].setdefault("socket_us", []).append(time_us)
            else:
                row["times_us"].setdefault(contender.name, []).append(time_us)

    def drop_slow(self, running):
        """Drops settings that are near the peer's best in no row, and peers that are far behind the
        best one in every row."""
        near = {"coll", contenders.LIMIT}
        for row in self.rows.values():
            best = figures.best_settings(row)
            near |= {name for name in row["times_us"] if name not in figures.OURS
                     and figures.time_us(row, name) <= min(
                         measure.SLOWER_MAX * best[figures.family_of(name)][0],
                         BEHIND_MAX * figures.best_peer_us(row))}
        return [contender for contender in running if contender.name in near]

    def run(self, running, progress):
        """The rows. running: contenders."""
        running = list(running)
        self.layout.hosts.shape(self.gbit)
        slow = 0 < self.gbit <= SLOW_GBIT
        def runner(command, environment):
            return run_command(self.layout.hosts, command,
                               {**environment, **({"BENCH_VARIANTS": "2"} if slow else {})})
        for number in range(self.rounds):
            for contender in running[::-1 if number % 2 else 1]:
                try:
                    times = contender.run_all(runner, self.collectives, self.sizes, self.time_ms,
                                              1 if number == 0 else 0)
                except configurations.Failure as failure:
                    self.fail(contender, failure, progress)
                    times = failure.times
                    running = [other for other in running if other is not contender]
                self.record(contender, times)
                progress.step("%s, round %d: %s" % (self.where(), number + 1, contender.name), 1)
            if number == 0:
                running = self.drop_slow(running)
        return list(self.rows.values())


# ---- what crosses the network

def least_wire_bytes(layout, size):
    """Of an allreduce: every host but one must send what it has, and get the result."""
    return 2 * (layout.count - 1) * size


def check_traffic(layout, contender):
    """{"wire", "loopback": bytes per call of an allreduce of CHECK_BYTES, "least"}. Raises Failure
    if fewer bytes than must crossed the links: the contender found another way."""
    line = [*contender.launch, *contender.program, "allreduce", "--sizes", str(CHECK_BYTES), "-n",
            str(CHECK_CALLS), "-w", str(CHECK_WARMUPS), "-c", "0", *contender.arguments]
    before = layout.hosts.traffic()
    with contender.prepared() as environment:
        run_command(layout.hosts, line, environment, CHECK_SECONDS_MAX)
    used = since(before, layout.hosts.traffic())
    calls = CHECK_CALLS + CHECK_WARMUPS
    least = least_wire_bytes(layout, CHECK_BYTES)
    found = {"wire": used.wire / calls, "loopback": used.loopback / calls, "least": least}
    if found["wire"] < FEWEST_BYTES * least:
        raise configurations.Failure("%d bytes of an allreduce crossed the network, of at least %d"
                                     % (found["wire"], least))
    return found

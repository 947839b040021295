"""What is measured between hosts: libcoll, the peers with settings that make them use TCP between
hosts and, except Gloo, shared memory inside one, and plain sockets as the limit."""
import collections
import contextlib
import json
import os
import tempfile

from comparison.contenders import collectives as configurations, peers

LIMIT = "limit"

# hosts: hosts.Hosts; count, per_host: of hosts and of ranks on each.
Layout = collections.namedtuple("Layout", "hosts count per_host")

UCX = {"UCX_TLS": "tcp,sm,self", "UCX_NET_DEVICES": "eth0"}
SOCKETS = {"pml": "ob1", "btl": "tcp,sm,self", "btl_tcp_if_include": "eth0"}
# For Open MPI parameters of mpirun --mca, otherwise environment variables.
SETTINGS = {
    "openmpi": {
        "tcp": SOCKETS,
        "tcp-2": {**SOCKETS, "btl_tcp_links": "2"},
        "ucx": {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"},
    },
    "mpich": {"ofi": {"FI_PROVIDER": "tcp"}, "ucx": {"MPIR_CVAR_CH4_NETMOD": "ucx", **UCX}},
    "intelmpi": {"tcp": {}, "wait": {"I_MPI_WAIT_MODE": "1"}},
    "gloo": {"tcp": {}},
}
# With more ranks than cores, a rank that waits must give up its core.
YIELDING = {
    "openmpi": {"mpi_yield_when_idle": "1"},
    "mpich": {"MPIR_CVAR_ENABLE_YIELD": "1",
              **{"MPIR_CVAR_%s_POSIX_INTRA_ALGORITHM" % collective: "mpir"
                 for collective in ("ALLREDUCE", "BARRIER", "BCAST", "REDUCE")}},
    "intelmpi": {"I_MPI_THREAD_YIELD": "2"},
    "gloo": {},
}


def layout_text(layout):
    return "%dx%d" % (layout.count, layout.per_host)


class Contender(configurations.Configuration):
    """Measures several collectives in one launch."""

    @contextlib.contextmanager
    def prepared(self):
        """Yields the environment of a launch."""
        yield self.environment

    def line(self, collectives, sizes, time_ms, checks):
        """checks: of the results of each row."""
        return self.command(",".join(collectives), sizes, time_ms) + ["-c", str(checks)]

    def run_all(self, runner, collectives, sizes, time_ms, checks):
        """{(collective, bytes): us}. Raises Failure if the command fails or a result is wrong."""
        line = self.line(collectives, sizes, time_ms, checks)
        try:
            with self.prepared() as environment:
                output = runner(line, environment)
        except configurations.Failure as failure:
            failure.times = right(self.read_lines(failure.output))
            raise
        times = self.read_lines(output)
        wrong = [key for key, (_, count) in times.items() if count]
        if wrong or not times:
            raise configurations.Failure("wrong elements in %s of %d bytes" % wrong[0] if wrong
                                         else "measured nothing")
        return right(times)

    def read_line(self, record):
        """A later line about the same call counts if it is faster: limit_net tries variants."""
        found = super().read_line(record)
        return {(record["collective"], size): value for size, value in found.items()}

    def read_lines(self, output):
        times = {}
        for line in output.splitlines():
            if not line.startswith("{") or not line.endswith("}"):
                continue
            for key, value in self.read_line(json.loads(line)).items():
                time, wrong = times.get(key, value)
                times[key] = min(time, value[0]), max(wrong, value[1])
        return times


class Limit(Contender):
    """Plain sockets. Their results are right with one rank per host only, which a test checks."""

    def line(self, collectives, sizes, time_ms, _checks):
        return super().line(collectives, sizes, time_ms, 0)


class Ours(Contender):
    """libcoll, whose times are in a file that rank 0 writes. Each launch measures the costs by
    which the library chooses algorithms."""

    def run_all(self, runner, collectives, sizes, time_ms, checks):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            line = self.line(collectives, sizes, time_ms, checks) + ["--json", path]
            runner(line, dict(self.environment, XDG_CACHE_HOME=folder))
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
        self.library = "libcoll " + document["libcoll"]
        times = {(row["collective"], row["bytes"]): (row["out_of_place"]["time_us"],
                                                     row["out_of_place"]["wrong"])
                 for row in document["rows"]}
        return right(times)


class Gloo(Contender):
    """Its ranks find each other through a file in a folder, which must be empty."""

    @contextlib.contextmanager
    def prepared(self):
        with tempfile.TemporaryDirectory() as folder:
            yield dict(self.environment, GLOO_STORE=folder)


def right(times):
    """Calls of no bytes are of no interest."""
    return {key: time for key, (time, wrong) in times.items() if not wrong and key[1] > 0}


# ---- commands

def ranks_of(layout):
    return layout.count * layout.per_host


def names(layout):
    return layout.hosts.names[:layout.count]


def collrun(build, layout, agent="ip netns exec {host}"):
    return [os.path.join(build, "tools", "collrun"), "--hosts",
            ",".join("%s:%d" % (name, layout.per_host) for name in names(layout)),
            "--agent", agent, "--bind", "none"]


def pin(root, layout):
    """One core per rank if there are as many: the same for all. Otherwise the kernel decides, as
    what is best differs."""
    cores = configurations.own_cores()
    if ranks_of(layout) > len(cores):
        return []
    return [os.path.join(root, "bench", "peers", "pin"),
            ",".join(map(str, cores[:ranks_of(layout)]))]


def mpi_launch(root, build, family, layout, parameters):
    """(words, environment): the launcher runs on the first host."""
    agent = os.path.join(root, "bench", "peers", "on_host")
    commands = os.path.join(peers.folder(build, family), "bin")
    ranks, hosts = ranks_of(layout), names(layout)
    slots = ",".join("%s:%d" % (name, layout.per_host) for name in hosts)
    environment = {"BENCH_HOSTS": layout.hosts.file}
    if family == "openmpi":
        words = ["mpirun", "--mca", "plm_rsh_agent", agent, "--host", slots, "-n", str(ranks),
                 "--bind-to", "none"]
        words += [word for pair in parameters.items() for word in ("--mca", *pair)]
        if parameters["pml"] == "ucx":
            words += [word for pair in UCX.items() for word in ("-x", "%s=%s" % pair)]
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    elif family == "mpich":
        words = ["mpiexec", "-launcher", "ssh", "-launcher-exec", agent, "-hosts", slots, "-n",
                 str(ranks), "-bind-to", "none"]
        environment.update(parameters)
    else:
        words = ["mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", agent, "-hosts",
                 ",".join(hosts), "-ppn", str(layout.per_host), "-n", str(ranks)]
        environment.update(parameters, I_MPI_PIN="0", I_MPI_FABRICS="shm:ofi", FI_PROVIDER="tcp",
                           FI_TCP_IFACE="eth0",
                           LD_LIBRARY_PATH=os.path.join(peers.folder(build, family), "lib"))
    return [agent, hosts[0], os.path.join(commands, words[0]), *words[1:]], environment


def make_ours(root, build, layout):
    """The library asks interfaces for their speed, by which it chooses algorithms."""
    program = [os.path.join(build, "bench", "collbench")]
    agent = os.path.join(root, "bench", "peers", "on_shaped_host") + " {host}"
    return Ours("coll", collrun(build, layout, agent) + pin(root, layout), program,
                {"BENCH_SPEED": layout.hosts.speed_file}, ["--mem", "coll", "--place", "out"])


def make_limit(root, build, layout):
    program = [os.path.join(build, "bench", "limit_net")]
    environment = {"BENCH_ADDRESSES": ",".join(layout.hosts.addresses[:layout.count])}
    return Limit(LIMIT, collrun(build, layout) + pin(root, layout), program, environment)


def make_peer(root, build, family, layout):
    oversubscribed = ranks_of(layout) > len(configurations.own_cores())
    program = peers.program(root, build, family)
    made = []
    for setting, parameters in SETTINGS[family].items():
        if oversubscribed:
            parameters = {**parameters, **YIELDING[family]}
        name = "%s/%s" % (family, setting)
        if family == "gloo":
            environment = {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1",
                           "PYTHONWARNINGS": "ignore",
                           "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=65536"}
            made.append(Gloo(name, collrun(build, layout), program, environment))
            continue
        words, environment = mpi_launch(root, build, family, layout, parameters)
        made.append(Contender(name, words + pin(root, layout), program, environment))
    return made


def make(root, build, layout, families):
    """All contenders of a layout, libcoll first and the limit last."""
    made = [make_ours(root, build, layout)]
    for family in families:
        made += make_peer(root, build, family, layout)
    return made + [make_limit(root, build, layout)]

"""What is measured between hosts: libcoll, the peers with settings that make them use TCP between
hosts and, except Gloo, shared memory inside one, and plain sockets."""
import collections
import os
import statistics

from comparison import launch
from comparison.contenders import peers
from comparison.contenders.collectives import LIMIT, Contender, Gloo, Ours
from comparison.contenders.hosts import since
from comparison.contenders.sides import Place

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


class Limit(Contender):
    """Plain sockets, in several variants: waiting, sockets, sizes of system calls. Their results
    are right with one rank per host only, which a test checks. A launch is of one collective: all
    of them with all variants take minutes."""

    def command(self, collectives, sizes, time_ms, checks=None):
        return super().command(collectives, sizes, time_ms, 0)

    def outcomes(self, output):
        """{(collective, bytes): ({variant: us}, wrong)}"""
        found, variant = {}, None
        for record in launch.json_lines(output):
            if "library" in record:
                self.library, variant = record["library"].split("/")
                continue
            times, wrong = found.get((record["collective"], record["bytes"]), ({}, 0))
            times[variant] = statistics.median(record["batch_us"])
            found[record["collective"], record["bytes"]] = times, max(wrong, record["wrong"])
        return found

    def run(self, runner, collectives, sizes, time_ms, checks=None):
        found = {}
        for collective in collectives:
            try:
                found.update(super().run(runner, [collective], sizes, time_ms, checks))
            except launch.Failure as failure:
                failure.times = {**found, **failure.times}
                raise
        return found


def variants_environment(chosen):
    """For Limit: the variants to try of some calls, {(collective, bytes): [names]}. {}: all."""
    words = ["%s/%d/%s" % (*call, name) for call, names in chosen.items() for name in names]
    return {"BENCH_VARIANTS": " ".join(words)} if words else {}


# ---- commands ------------------------------------------------------------------------------------

def ranks_of(layout):
    return layout.count * layout.per_host


def names(layout):
    return layout.hosts.names[:layout.count]


def start_on(build, layout, agent="ip netns exec {host}"):
    return [os.path.join(build, "tools", "collrun"), "--hosts",
            ",".join("%s:%d" % (name, layout.per_host) for name in names(layout)),
            "--agent", agent, "--bind", "none"]


def pin(root, layout):
    """One core per rank if there are as many: the same for all. Otherwise the kernel decides, as
    what is best differs."""
    cores = launch.own_cores()
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
    agent = os.path.join(root, "bench", "peers", "on_shaped_host") + " {host}"
    return Ours("coll", start_on(build, layout, agent) + pin(root, layout), launch.collbench(build),
                {"BENCH_SPEED": layout.hosts.speed_file}, ["--mem", "coll", "--place", "out"])


def place_of(root, hosts):
    """Where bench/ab --net runs builds: each rank on a host of its own."""
    def start(folder, ranks):
        return make_ours(root, folder, Layout(hosts, ranks, 1)).start

    def run_side(line, environment, seconds_max):
        return run(hosts, line, {**environment, "BENCH_SPEED": hosts.speed_file}, seconds_max)
    return Place(start, run_side)


def make_limit(root, build, layout):
    program = [os.path.join(build, "bench", "limit_net")]
    environment = {"BENCH_ADDRESSES": ",".join(layout.hosts.addresses[:layout.count])}
    return Limit(LIMIT, start_on(build, layout) + pin(root, layout), program, environment)


def make_peer(root, build, family, layout):
    oversubscribed = ranks_of(layout) > len(launch.own_cores())
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
            made.append(Gloo(name, start_on(build, layout), program, environment))
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


# ---- running them --------------------------------------------------------------------------------

LAUNCH_SECONDS_MAX, CHECK_SECONDS_MAX = 150, 60
CHECK_BYTES, CHECK_CALLS, CHECK_WARMUPS = 1 << 20, 20, 5
FEWEST_BYTES = 0.95  # of those that must cross the network


def run(hosts, command, environment, seconds_max=LAUNCH_SECONDS_MAX):
    """What is left of a launch that fails is ended."""
    try:
        return launch.run(command, environment, seconds_max)
    except BaseException:
        hosts.end_processes()
        raise


def least_wire_bytes(layout, size):
    """Of an allreduce: every host but one must send what it has, and get the result."""
    return 2 * (layout.count - 1) * size


def check_traffic(layout, contender):
    """{"wire", "loopback": bytes per call of an allreduce of CHECK_BYTES, "least"}. Raises Failure
    if fewer bytes than must crossed the links: the contender found another way."""
    line = [*contender.start, *contender.program, "allreduce", "--sizes", str(CHECK_BYTES), "-n",
            str(CHECK_CALLS), "-w", str(CHECK_WARMUPS), "-c", "0", *contender.arguments]
    before = layout.hosts.traffic()
    with contender.prepared() as environment:
        run(layout.hosts, line, environment, CHECK_SECONDS_MAX)
    used = since(before, layout.hosts.traffic())
    calls = CHECK_CALLS + CHECK_WARMUPS
    least = least_wire_bytes(layout, CHECK_BYTES)
    found = {"wire": used.wire / calls, "loopback": used.loopback / calls, "least": least}
    if found["wire"] < FEWEST_BYTES * least:
        raise launch.Failure("%d bytes of an allreduce crossed the network, of at least %d"
                             % (found["wire"], least))
    return found

"""The measured configurations: libcoll with each kind of memory, and each peer with a few
documented settings; every row uses the best setting of a peer. A configuration makes a command
line from (collective, sizes, time) and parses times from the output."""
import json
import os
import statistics
import tempfile

from comparison import figures

RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                  "MASTER_PORT", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")

ITERATIONS_MAX = 20000

FAMILIES = {"openmpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo"}

# Open MPI: parameters of mpirun --mca.
OPENMPI = {
    "default": {},
    "copy": {"btl_vader_single_copy_mechanism": "none", "btl_vader_eager_limit": "32768",
             "btl_vader_max_send_size": "131072"},
    "coll-sm": {"coll_sm_priority": "100", "coll_sm_fragment_size": "65536"},
    "ucx": {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"},
}
OPENMPI_OVERSUBSCRIBED = {"yield": {"mpi_yield_when_idle": "1"}}

# MPICH: environment variables. Its collectives in shared memory are on by default.
MPICH = {"default": {}, "posix": {"UCX_TLS": "posix,self"}}

# Gloo: its algorithms for an allreduce.
GLOO = {"default": {}, "bcube": {"GLOO_ALGORITHM": "bcube"}}


class Configuration:
    """name: "coll", "malloc" or "family/setting". command() returns an argv; `environment` is added
    to that of this process; `collectives`: those that the library supports."""

    def __init__(self, name, launch, program, environment=None, arguments=(),
                 collectives=figures.COLLECTIVES):
        self.name = name
        self.launch, self.program = launch, program
        self.environment = environment or {}
        self.arguments = list(arguments)
        self.collectives = collectives
        self.library = None  # name and version that the program prints, once it has run

    def command(self, collective, sizes, time_ms):
        line = self.launch + [self.program, collective, "--sizes", ",".join(map(str, sizes)),
                              "-n", str(ITERATIONS_MAX), "--time-ms", str(time_ms)]
        return line + self.arguments

    def describe(self):
        return {"command": [os.path.basename(word) if os.path.isabs(word) else word
                            for word in self.launch + [self.program] + self.arguments],
                "environment": self.environment, "library": self.library}

    def read_line(self, record):
        """{bytes: (us, wrong)} of a line that a peer prints."""
        if "library" in record:
            self.library = record["library"].replace("Version: ", "")
            return {}
        return {record["bytes"]: (statistics.median(record["batch_us"]), record["wrong"])}

    def run(self, runner, collective, sizes, time_ms):
        """{bytes: us}. Raises Failure if the command fails or a result is wrong."""
        try:
            output = runner(self.command(collective, sizes, time_ms), self.environment)
        except Failure as failure:
            failure.times = {size: time for size, (time, wrong) in
                             self.read_lines(failure.output).items() if not wrong}
            raise
        return checked(self.read_lines(output), sizes)

    def read_lines(self, output):
        times = {}
        for line in output.splitlines():
            if line.startswith("{") and line.endswith("}"):
                times.update(self.read_line(json.loads(line)))
        return times


class Failure(Exception):
    """A command failed. The text is the reason; `output` and `errors`: what it printed; `times`:
    what it measured before."""

    def __init__(self, reason, output="", errors=""):
        super().__init__(reason)
        self.output, self.errors, self.times = output, errors, {}


def checked(times, sizes):
    if sorted(times) != sorted(sizes):
        raise Failure("measured %s bytes instead of %s" % (sorted(times), sorted(sizes)))
    for size, (_, wrong) in times.items():
        if wrong:
            raise Failure("%d wrong elements at %d bytes" % (wrong, size))
    return {size: time for size, (time, _) in times.items()}


class Ours(Configuration):
    """libcoll, measured by collbench, which writes a JSON file."""

    def run(self, runner, collective, sizes, time_ms):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            line = self.command(collective, sizes, time_ms) + ["--json", file.name]
            runner(line, self.environment)
            document = json.load(file)
        self.library = "libcoll " + document["libcoll"]
        return checked({row["bytes"]: (row["out_of_place"]["time_us"],
                                       row["out_of_place"]["wrong"])
                        for row in document["rows"]}, sizes)


class Gloo(Configuration):
    """Gloo. Its ranks find each other through files in a folder, which must be empty."""

    def run(self, runner, collective, sizes, time_ms):
        with tempfile.TemporaryDirectory() as folder:
            self.environment = dict(self.environment, GLOO_STORE=folder)
            try:
                return super().run(runner, collective, sizes, time_ms)
            finally:
                del self.environment["GLOO_STORE"]


def own_cores():
    """One processor of each core that this process may use."""
    cores, seen = [], set()
    for cpu in sorted(os.sched_getaffinity(0)):
        path = "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % cpu
        try:
            with open(path, encoding="ascii") as file:
                siblings = file.read().strip()
        except OSError:
            siblings = str(cpu)
        if siblings not in seen:
            seen.add(siblings)
            cores.append(cpu)
    return cores


def mca(parameters):
    return [word for name, value in parameters.items() for word in ("--mca", name, value)]


def placements(ranks, cores):
    """{suffix of a setting: argument of `pin`}. With enough cores, one core per rank. With
    fewer: blocks of ranks of equal size on each core, as collrun binds them, or unbound
    ("-any")."""
    if ranks <= len(cores):
        return {"": ",".join(map(str, cores[:ranks]))}
    if ranks % len(cores) != 0:
        return {"": "any"}
    share = ranks // len(cores)
    return {"": ",".join(str(core) for core in cores for _ in range(share)), "-any": "any"}


def make(root, build, ranks, memories, peers, quick):
    """All configurations, libcoll first, with the binding of collrun; peers also unbound."""
    made = []
    for suffix, cpus in placements(ranks, own_cores()).items():
        ours = memories if suffix == "" else []
        placed = make_placed(root, build, ranks, ours, peers, quick, cpus)
        for configuration in placed:
            if configuration.name not in memories:
                configuration.name += suffix
        made += placed
    return made


def make_placed(root, build, ranks, memories, peers, quick, cpus):
    oversubscribed = ranks > len(own_cores())
    pin = [os.path.join(root, "bench", "peers", "pin"), cpus]
    program = {name: os.path.join(build, "bench", name)
               for name in ("collbench", "peer-openmpi", "peer-mpich", "peer-gloo")}
    count = ["-n", str(ranks)]
    collrun = [os.path.join(build, "tools", "collrun"), *count, "--bind", "none", *pin]
    made = [Ours(memory, collrun, program["collbench"],
                  arguments=["--mem", memory, "--place", "out"]) for memory in memories]
    if "openmpi" in peers:
        allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        settings = dict(OPENMPI, **(OPENMPI_OVERSUBSCRIBED if oversubscribed else {}))
        for setting, parameters in settings.items():
            launch = ["mpirun.openmpi", *count, "--bind-to", "none"]
            launch += (["--oversubscribe"] if oversubscribed else []) + mca(parameters) + pin
            made.append(Configuration("openmpi/" + setting, launch, program["peer-openmpi"],
                                      allowed))
    if "mpich" in peers:
        for setting, variables in MPICH.items():
            launch = ["mpirun.mpich", *count, "-bind-to", "none", *pin]
            made.append(Configuration("mpich/" + setting, launch, program["peer-mpich"], variables))
    if "gloo" in peers:
        for setting, variables in GLOO.items():
            collectives = ("allreduce",) if variables else tuple(
                c for c in figures.COLLECTIVES if c != "reduce_scatter")
            made.append(Gloo("gloo/" + setting, collrun, program["peer-gloo"], variables,
                              collectives=collectives))
    return made[:len(memories)] + [c for c in made[len(memories):]
                                    if not quick or c.name in QUICK]


QUICK = ("openmpi/default", "openmpi/copy", "openmpi/coll-sm", "mpich/default", "mpich/posix")


def limit_command(build, ranks, collective, sizes):
    """Prints JSON: {"barrier_us", "round_trip_us", "one_way_us", "moves": [{"bytes", "mapped_us",
    "staged_us", "crossing_us"}]}; some calls lack crossing_us (see figures)."""
    cores = own_cores()[:ranks]
    return [os.path.join(build, "bench", "limit"), "-n", str(ranks), "--cpus",
            ",".join(map(str, cores)), "--sizes", ",".join(map(str, sizes)), collective]


def clean_environment():
    """The environment without variables that make a process a rank of a launcher."""
    return {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}

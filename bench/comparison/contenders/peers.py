"""The peers: where they are installed, how they are started, and with which documented settings.
Only settings that are the best one in some row are listed."""
import os

from comparison import arguments

FAMILIES = {"openmpi": "Open MPI", "mpich": "MPICH", "intelmpi": "Intel MPI", "gloo": "Gloo"}

# Parameters of mpirun --mca for Open MPI, otherwise environment variables. By default the kernel
# copies long messages of Open MPI and MPICH once (cma); "copy" copies them twice, through shared
# memory.
SETTINGS = {
    "openmpi": {
        "default": {},
        "copy": {"smsc": "^cma", "btl_sm_eager_limit": "32768", "btl_sm_max_send_size": "131072"},
        "coll-sm": {"coll_sm_priority": "100", "coll_sm_fragment_size": "65536"},
        "ucx": {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"},
    },
    "mpich": {"default": {}, "copy": {"MPIR_CVAR_CH4_CMA_ENABLE": "0"}},
    "intelmpi": {"default": {}, "bdw": {"I_MPI_SHM": "bdw_avx2"}, "icx": {"I_MPI_SHM": "icx"}},
    "gloo": {"default": {}},
}
# The settings for more ranks than cores, if they are others. The collectives of MPICH in shared
# memory ("release_gather") then wait without giving up the core and may reach the time limit.
OVERSUBSCRIBED = {
    "mpich": {"default": {},
              "mpir": {"MPIR_CVAR_%s_POSIX_INTRA_ALGORITHM" % collective: "mpir"
                       for collective in ("ALLREDUCE", "BARRIER", "BCAST", "REDUCE")}},
}
QUICK = {"openmpi": ("default", "copy", "ucx"), "mpich": ("default",),
         "intelmpi": ("default", "bdw"), "gloo": ("default",)}


def folder(build, peer):
    """The virtual environment that bench/peers/setup.sh makes."""
    return os.path.join(build, "peers", peer)


def is_installed(build, peer):
    return os.path.exists(os.path.join(folder(build, peer), "installed"))


def settings(peer, oversubscribed, quick):
    """{setting: parameters}"""
    if oversubscribed and peer in OVERSUBSCRIBED:
        return OVERSUBSCRIBED[peer]
    found = SETTINGS[peer]
    return {name: found[name] for name in QUICK[peer]} if quick else found


def program(root, build, peer):
    """The words of the command of a rank, which the options follow."""
    if peer != "gloo":
        return [os.path.join(build, "bench", "peer-" + peer)]
    return [os.path.join(folder(build, peer), "bin", "python"),
            os.path.join(root, "bench", "peers", "gloo_torch.py"),
            os.path.join(build, "bench", "libpeers_measure.so")]


def launch(build, peer, ranks, oversubscribed, parameters):
    """(words of the launcher, environment). Launchers do not bind ranks; bench/peers/pin does."""
    commands = os.path.join(folder(build, peer), "bin")
    if peer == "openmpi":
        words = [os.path.join(commands, "mpirun"), "-n", str(ranks), "--bind-to", "none"]
        words += ["--map-by", ":OVERSUBSCRIBE"] if oversubscribed else []
        words += [word for pair in parameters.items() for word in ("--mca", *pair)]
        return words, {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if peer == "mpich":
        words = [os.path.join(commands, "mpiexec"), "-n", str(ranks), "-bind-to", "none"]
    elif peer == "intelmpi":
        words = [os.path.join(commands, "mpiexec.hydra"), "-n", str(ranks)]
        parameters = dict(parameters, I_MPI_PIN="0")
    else:
        words = [os.path.join(build, "tools", "collrun"), "-n", str(ranks), "--bind", "none"]
        # Space for the thread-local variables of libcoll beside those of PyTorch.
        parameters = dict(parameters, GLIBC_TUNABLES="glibc.rtld.optional_static_tls=65536")
    return words, parameters


def add_options(parser):
    """parser: command.Parser."""
    parser.add_argument(
        "--peers", type=arguments.word_list(tuple(FAMILIES)),
        help="a list; all must be installable (those of %s that are)" % ",".join(FAMILIES))
    parser.add_argument("--python", metavar="PATH",
                        help="an interpreter that has PyTorch, for gloo")

"""MPIs on this machine, how to compile and start the program that is measured under them."""
import collections
import os
import re
import shutil
import subprocess

from comparison.launch import Trouble

# name: as the user calls it. layer: what coll-mpi calls its binary interface. libraries: a folder
# for LD_LIBRARY_PATH, or "". compiler: None where the MPI has none.
Mpi = collections.namedtuple("Mpi", "name version layer compiler launcher libraries environment")

# Debian's, whose tools have a suffix.
SUFFIXES = ("openmpi", "mpich")
# Open MPI refuses to run as root, and more ranks than cores, unless told.
OPENMPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


def output_of(command):
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20,
                             env=dict(os.environ, **OPENMPI_ENVIRONMENT))
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout + run.stderr


def describe(launcher):
    """(version in words, layer) of the MPI that a launcher belongs to."""
    text = output_of([launcher, "--version"])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "Open MPI" in text or "OpenRTE" in text:
        first = lines[0]
        return "Open MPI " + first.split(")")[-1].strip(), "ompi"
    if "Intel(R) MPI" in text:
        return "Intel MPI " + text.partition("Version ")[2].split(" Build")[0], "mpich"
    version = next((line.split(":")[1].strip() for line in lines if line.startswith("Version:")),
                   None)
    if version is None:
        raise Trouble("%s --version says neither Open MPI, nor MPICH, nor Intel MPI" % launcher)
    return "MPICH " + version, "mpich"


def find_debian(suffix):
    launcher, compiler = shutil.which("mpiexec." + suffix), shutil.which("mpicc." + suffix)
    if not launcher or not compiler:
        raise Trouble("there is no mpiexec.%s or no mpicc.%s" % (suffix, suffix))
    version, layer = describe(launcher)
    environment = OPENMPI_ENVIRONMENT if layer == "ompi" else {}
    return Mpi(suffix, version, layer, compiler, launcher, "", environment)


def find_folder(folder):
    """An MPI of its own folder with bin and lib, as pip installs them."""
    folder = os.path.abspath(folder)
    launcher, compiler = (os.path.join(folder, "bin", name) for name in ("mpiexec", "mpicc"))
    if not os.path.exists(launcher):
        raise Trouble("there is no %s" % launcher)
    version, layer = describe(launcher)
    # From PyPI, Intel MPI's compiler wrapper does not know its folder.
    environment = OPENMPI_ENVIRONMENT if layer == "ompi" else {"I_MPI_ROOT": folder}
    return Mpi(name_of(folder, version), version, layer,
               compiler if os.path.exists(compiler) else None, launcher,
               os.path.join(folder, "lib"), environment)


def name_of(folder, version):
    """That of the folder, and with the first number of the version where Debian's has it: openmpi-5
    is a folder openmpi."""
    name = os.path.basename(folder)
    number = re.search(r"\d+", version)
    return "%s-%s" % (name, number.group()) if name in SUFFIXES and number else name


def find(word):
    return find_debian(word) if word in SUFFIXES else find_folder(word)


def links_to_shared_name(mpi):
    """Whether its mpicc makes programs that any MPI with MPICH's binary interface can run: Debian's
    library has a name of its own."""
    return mpi.compiler and mpi.layer == "mpich" and mpi.libraries


def compile_program(mpi, others, source, folder):
    """The path of the program for this MPI. One without a compiler, as Intel's runtime is, borrows
    that of an MPICH."""
    lenders = [mpi] if mpi.compiler else [other for other in others if other.layer == mpi.layer
                                          and links_to_shared_name(other)]
    if not lenders:
        raise Trouble("%s has no mpicc: also name the folder of an MPICH, whose mpicc makes "
                      "programs for it" % mpi.version)
    program = os.path.join(folder, mpi.name)
    run = subprocess.run([lenders[0].compiler, "-O2", "-o", program, source], capture_output=True,
                         text=True, check=False,
                         env=dict(os.environ, **lenders[0].environment))
    if run.returncode != 0:
        raise Trouble("%s does not compile %s: %s" % (lenders[0].compiler, source, run.stderr))
    return program


def start_command(mpi, ranks, command):
    return [mpi.launcher, "-n", str(ranks), *command]


def environment_of(mpi):
    """What the launcher and the ranks need. The RUNPATH of a program yields to LD_LIBRARY_PATH."""
    made = dict(mpi.environment)
    if mpi.libraries:
        before = os.environ.get("LD_LIBRARY_PATH")
        made["LD_LIBRARY_PATH"] = mpi.libraries + (":" + before if before else "")
    return made

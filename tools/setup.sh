# Functions of tools/run and tools/test: install packages, build, exit with a one-line error.
# Sourced by bash with `program` and `root` set. Works on a fresh Debian 12 or Ubuntu 24.04.

# Required packages, each with a command, header, pkg-config or Python module that shows that
# it is installed.
needs=(
  "gcc command:cc"
  "libc6-dev header:stdio.h"
  "binutils command:nm"
  "ninja-build command:ninja"
  "meson command:meson"
  "pkg-config command:pkg-config"
  "python3 command:python3"
  "libhwloc-dev module:hwloc"
  "libopenblas-dev module:openblas"
  "libdnnl-dev header:oneapi/dnnl/dnnl.h"
  "libsodium-dev module:libsodium"
  "libjansson-dev module:jansson"
  "libexpat1-dev module:expat"
  "libibverbs-dev header:infiniband/verbs.h"
  "libucx-dev header:ucp/api/ucp.h"
  "libcriterion-dev module:criterion"
)

# Launchers that tests start, and what the front ends for MPI and Python and their tests need; a
# test is skipped where they are missing. tools/test --launchers installs them. PyTorch is large:
# its front end is built and tested where -Dtorch_python=PYTHON has it.
launchers=(
  "openmpi-bin command:mpirun.openmpi"
  "mpich command:mpiexec.hydra"
  "slurm-client command:srun"
  "slurmctld file:/usr/sbin/slurmctld"
  "slurmd file:/usr/sbin/slurmd"
  "libpmix-dev module:pmix"
  "python3-dev command:python3-config"
  "libopenmpi-dev command:mpicc.openmpi"
  "libmpich-dev command:mpicc.mpich"
  "gfortran command:gfortran"
  "hpcc command:hpcc"
  "quantum-espresso command:pw.x"
  "quantum-espresso-data file:/usr/share/doc/quantum-espresso/examples"
  "python3-mpi4py file:/usr/lib/python3/dist-packages/mpi4py/__init__.py"
  "mypy command:mypy"
  "python3-numpy file:/usr/lib/python3/dist-packages/numpy/__init__.py"
)

meson_min=1.0
build_megabytes=100    # free space that a build folder needs
install_megabytes=1000 # free space for the packages, if none is installed

fail() {
  printf '%s: %s\n' "$program" "$*" >&2
  exit 1
}

# refuse MESSAGE: for a wrong command line.
refuse() {
  printf '%s: %s\n' "$program" "$*" >&2
  exit 2
}

say() {
  local bold='' plain=''
  [ -t 1 ] && bold=$'\e[1m' plain=$'\e[0m'
  printf '\n%s== %s%s\n' "$bold" "$*" "$plain"
}

have() {
  case $1 in
    command:*) command -v "${1#command:}" > /dev/null ;;
    module:*) pkg-config --exists "${1#module:}" 2> /dev/null ;;
    header:*) printf '#include <%s>\n' "${1#header:}" | cc -E -x c - > /dev/null 2>&1 ;;
    python:*) python3 -c "import ${1#python:}" 2> /dev/null ;;
    file:*) [ -e "${1#file:}" ] ;;
  esac
}

missing_packages() {
  local need
  for need in "${needs[@]}"; do
    have "${need#* }" || printf '%s\n' "${need%% *}"
  done
}

# Free megabytes of the file system of a folder.
free_megabytes() {
  df -Pm "$1" | awk 'NR == 2 { print $4 }'
}

# Runs apt-get as root, with sudo if necessary. Its output goes to the file $log.
apt_get() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null ||
      fail "this needs root or sudo; run as root: apt-get install ${missing[*]}"
    as_root=(sudo)
    [ -t 0 ] || as_root=(sudo -n)
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 \
    "$@" > "$log" 2>&1 < /dev/null
}

# Installs the missing packages. Does not change the settings and sources of apt.
install_packages() {
  local missing log reason free
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -eq 0 ] && return
  command -v apt-get > /dev/null ||
    fail "there is no apt-get; please install: ${missing[*]}"
  free=$(free_megabytes /)
  [ "$free" -ge "$install_megabytes" ] ||
    fail "$free MB are free on /; installing ${missing[*]} may need $install_megabytes MB"
  log=$(mktemp) || fail "cannot create a temporary file"
  say "Installing ${missing[*]}"
  apt_get update || true # an unreachable source matters only if the installation fails
  if ! apt_get install -y --no-install-recommends "${missing[@]}"; then
    reason=$(grep -m 1 -E '^(E:|sudo:)' "$log" || tail -n 1 "$log")
    rm -f "$log"
    fail "cannot install ${missing[*]}: ${reason:-apt-get failed} (is there a network?)"
  fi
  rm -f "$log"
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -eq 0 ] || fail "installed but not found: ${missing[*]}"
}

# As far as that is possible here.
install_launchers() {
  local needs=("${launchers[@]}") missing
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -eq 0 ] || (install_packages) ||
    say "The tests of missing launchers will be skipped"
}

check_versions() {
  local version
  version=$(meson --version) || fail "meson does not run"
  [ "$(printf '%s\n' "$meson_min" "$version" | sort -V | head -n 1)" = "$meson_min" ] ||
    fail "meson $version is too old; $meson_min is needed: pip install meson, or a newer system"
  printf 'int main(void) { return 0; }\n' | cc -x c - -o /dev/null 2> /dev/null ||
    fail "the C compiler ($(command -v cc)) cannot build a program"
}

check_free_space() {
  local build=$1 free
  mkdir -p "$build" 2> /dev/null && : 2> /dev/null > "$build/.room" ||
    fail "cannot write to $build: copy the sources to a writable folder"
  rm -f "$build/.room"
  rmdir "$build" 2> /dev/null || true # leave no empty folder behind if a later step fails
  free=$(free_megabytes "$root")
  [ "$free" -ge "$build_megabytes" ] ||
    fail "$free MB are free for $build; it may need $build_megabytes MB"
}

# Whether the folder was configured for these sources. A copied folder was configured for others.
is_configured() {
  [ -f "$1/build.ninja" ] && python3 - "$root" "$1" << 'END'
import json, os, sys
with open(os.path.join(sys.argv[2], "meson-info", "meson-info.json"), encoding="utf-8") as file:
    places = json.load(file)["directories"]
sys.exit([places["source"], places["build"]] != [os.path.realpath(path) for path in sys.argv[1:]])
END
}

# configure_tree FOLDER [MESON OPTIONS]: configures the folder if it is not configured. If that
# fails, removes it.
configure_tree() {
  local build=$1 log
  shift
  check_free_space "$build"
  install_packages
  check_versions
  say "Building in ${build#"$root"/}"
  is_configured "$build" 2> /dev/null && return
  rm -rf "$build"
  log=$(mktemp) || fail "cannot create a temporary file"
  if ! meson setup "$build" "$root" "$@" > "$log" 2>&1; then
    local reason
    reason=$(grep -m 1 'ERROR' "$log" || tail -n 1 "$log")
    rm -rf "$build" "$log"
    fail "meson cannot configure the build: $reason"
  fi
  rm -f "$log"
}

# build_tree FOLDER [MESON OPTIONS]: configures the folder and builds it. Does not remove it if the
# build fails.
build_tree() {
  local build=$1 quiet=(--quiet)
  configure_tree "$@"
  [ -t 1 ] && quiet=()
  ninja -C "$build" "${quiet[@]}" || fail "the build failed; its messages are above"
}

# Prints the files that the tests of a suite of a build folder need, or those of the given names.
test_targets() {
  python3 - "$@" << 'END'
import json, os, subprocess, sys
build, suite, names = sys.argv[1], sys.argv[2], sys.argv[3].split("\n")
def introspect(what):
    return json.loads(subprocess.check_output(["meson", "introspect", build, what]))
files = {target["id"]: target["filename"] for target in introspect("--targets")}
needed = {"tests/harness/isolate"}
for test in introspect("--tests"):
    of_suite = any(name.split(":")[-1] == suite for name in test["suite"])
    if test["name"] in names if names != [""] else of_suite:
        for target in test["depends"]:
            needed.update(os.path.relpath(path, build) for path in files[target])
print("\n".join(sorted(needed)))
END
}

# build_tests FOLDER SUITE NAMES [MESON OPTIONS]: configures the folder and builds what the tests of
# the suite need, or the tests with the NAMES (one a line).
build_tests() {
  local build=$1 suite=$2 names=$3 targets
  shift 3
  configure_tree "$build" "$@"
  mapfile -t targets < <(test_targets "$build" "$suite" "$names")
  ninja -C "$build" --quiet "${targets[@]}" || fail "the build failed; its messages are above"
}

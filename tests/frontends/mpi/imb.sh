#!/bin/sh
# Intel MPI Benchmarks under the layer: IMB-MPI1 and IMB-NBC, all collectives, with a count of
# served calls for each. Prints TAP. The benchmarks are programs of the package impi-rt; they run
# under any MPI with MPICH's binary interface.
# Usage: imb.sh FOLDER_OF_LAYERS PREFIX_OF_IMB [PREFIX_OF_MPI]; without the last one the
# mpiexec.mpich of Debian runs them.
layers=$(realpath "$1")
imb=$(realpath "$2")/bin
prefix=${3:+$(realpath "$3")}
. "$(dirname "$0")/../../harness/tap.sh"
[ -x "$imb/IMB-MPI1" ] || tap_skip_all "there is no $imb/IMB-MPI1 (PyPI: impi-rt)"
launcher=${prefix:+$prefix/bin/mpiexec}
launcher=${launcher:-mpiexec.mpich}
command -v "$launcher" >/dev/null || tap_skip_all "there is no $launcher"
cd "$dir" || exit 1
mkdir lib
if [ -n "$prefix" ]; then
  export LD_LIBRARY_PATH="$prefix/lib"
else
  # Debian's MPICH has a name of its own for the library.
  ln -s "$(ldconfig -p | awk '/libmpich\.so\.12 / {print $NF; exit}')" lib/libmpi.so.12
  export LD_LIBRARY_PATH="$dir/lib"
fi
export COLL_TUNE=builtin COLL_MPI_SERVE="${COLL_MPI_SERVE-always}" COLL_MPI_STATS=1

# run PROGRAM NAMES...: the output in out, statistics in err.
run() {
  program=$1
  shift
  timeout 100 "$layers/coll-mpi" --layer mpich "$launcher" -n 2 "$imb/$program" -npmin 2 -iter 20 \
    -iter_policy off -msglog 0:16 -mem 0.5 "$@" >out 2>err </dev/null
}

# served VERB: whether the statistics in err count a call of it.
served() {
  awk -v verb="MPI_$1" '$2 == verb && $4 > 0 {found = 1} END {exit !found}' err
}

# check PROGRAM PREFIX VERBS...: runs the benchmark of each verb. PREFIX is "i" for IMB-NBC.
check() {
  program=$1
  letter=$2
  shift 2
  names=
  for verb; do
    if [ -z "$letter" ]; then names="$names $verb"; else names="$names I$(lower "$verb")"; fi
  done
  # shellcheck disable=SC2086
  run "$program" $names && grep -q 'All processes entering MPI_Finalize' out
  ok "$program runs to its end"
  for verb in $names; do
    grep -q "# Benchmarking $verb *$" out && served "$verb"
    ok "$program: MPI_$verb is served"
  done
}

lower() {
  echo "$1" | tr '[:upper:]' '[:lower:]'
}

check IMB-MPI1 '' Allgather Allgatherv Allreduce Alltoall Alltoallv Barrier Bcast Gather Gatherv \
  Reduce Reduce_scatter Reduce_scatter_block Scatter Scatterv
check IMB-NBC i Allgather Allgatherv Allreduce Alltoall Alltoallv Barrier Bcast Gather Gatherv \
  Reduce Reduce_scatter Scatter Scatterv

tap_end

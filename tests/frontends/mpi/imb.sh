#!/bin/sh
# Intel MPI Benchmarks under the layer: IMB-MPI1 and IMB-NBC, all collectives, with a count of
# served calls for each. Prints TAP. The benchmarks are programs of PyPI's package impi-rt; they
# run under any MPI with MPICH's binary interface.
# Usage: imb.sh FOLDER_OF_LAYERS PREFIX_OF_IMB [PREFIX_OF_MPI]; without the last one the
# mpiexec.mpich of Debian runs them.
. "$(dirname "$0")/under_mpi.sh"
imb=$(realpath "$2")/bin
[ -x "$imb/IMB-MPI1" ] || tap_skip_all "there is no $imb/IMB-MPI1 (PyPI: impi-rt)"
find_mpi mpich "$1" "${3-}"
if [ -z "$mpi_prefix" ]; then
  # Debian's MPICH has a name of its own for the library.
  mkdir lib
  ln -s "$(ldconfig -p | awk '/libmpich\.so\.12 / {print $NF; exit}')" lib/libmpi.so.12
  export LD_LIBRARY_PATH="$dir/lib"
fi
export COLL_MPI_SERVE="${COLL_MPI_SERVE-always}" COLL_MPI_STATS=1

# run PROGRAM NAMES...: whether it ends well; the output in out, statistics in err.
run() {
  program=$1
  shift
  timeout "${limit_s:-100}" "$start" --layer mpich "$launcher" -n 2 "$imb/$program" -npmin 2 \
    -iter 20 -iter_policy off -msglog 0:16 -mem 0.5 "$@" >out 2>err </dev/null &&
    grep -q 'All processes entering MPI_Finalize' out
}

# check PROGRAM NAMES...: runs these benchmarks, which have the names of verbs, and asks for calls
# of each.
check() {
  program=$1
  shift
  : >statistics
  run "$program" "$@" && keep_statistics "$program"
  ok "$program runs to its end"
  for name; do
    [ "$(grep -c "# Benchmarking $name *$" out)" -eq 1 ]
    ok "$program measures $name"
  done
  each_served "$@"
  figure_served
}

# shellcheck disable=SC2086
check IMB-MPI1 $verbs
nonblocking_verbs=
for verb in $verbs; do
  [ $verb = Reduce_scatter_block ] || nonblocking_verbs="$nonblocking_verbs $(nonblocking $verb)"
done
# shellcheck disable=SC2086
check IMB-NBC $nonblocking_verbs
tap_skip "MPI_Ireduce_scatter_block" "IMB-NBC does not measure it"
tap_end

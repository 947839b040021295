# What the tests of the MPI layer have in common: programs with the layer under one MPI. Sourced
# after harness/tap.sh and tap_begin.

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Ranks that share a core give it away while they wait.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

# use_mpi ompi|mpich|abi FOLDER_OF_LAYERS FOLDER_OF_PROGRAMS PREFIX SOURCE...: sets abi, layers,
# programs and launcher. PREFIX is empty, or the folder of an MPI with bin/mpiexec and lib. If it
# has a compiler, that builds the programs of these sources; else those of FOLDER_OF_PROGRAMS run,
# with whose MPI it shares the binary interface.
use_mpi() {
  abi=$1
  layers=$2
  programs=$3
  prefix=$4
  shift 4
  case $abi in
    ompi) launcher=mpirun.openmpi ;;
    mpich) launcher=mpiexec.mpich ;;
    abi) launcher=mpiexec.hydra ;;
  esac
  start=$layers/coll-mpi
  options=
  [ -z "$prefix" ] || use_prefix "$@"
  command -v "$launcher" >/dev/null || tap_skip_all "there is no $launcher"
}

use_prefix() {
  launcher=$prefix/bin/mpiexec
  mkdir lib
  # Debian's MPICH has a name of its own for the library.
  [ ! -f "$prefix/lib/libmpi.so.12" ] || ln -s "$prefix/lib/libmpi.so.12" lib/libmpich.so.12
  export LD_LIBRARY_PATH="$dir/lib:$prefix/lib"
  compiler=$prefix/bin/mpicc
  [ "$abi" != abi ] || compiler=$compiler"_abi"
  [ -x "$compiler" ] || return 0
  for file; do
    # From PyPI, Intel MPI's compiler wrapper does not know its folder.
    I_MPI_ROOT=$prefix "$compiler" -O1 -pthread -o "$(basename "$file" .c)-$abi" "$file" || exit 1
  done
  programs=$dir
}

# with_layer RANKS PROGRAM WORDS...: whether it ends well; output in out and err.
with_layer() {
  ranks=$1
  program=$2
  shift 2
  # shellcheck disable=SC2086
  timeout "${limit_s:-100}" $start "$launcher" $options -n "$ranks" "$programs/$program-$abi" "$@" \
    >out 2>err </dev/null
}

# served VERB: whether the statistics in err count a call of it.
served() {
  awk -v verb="MPI_$1" '$2 == verb && $4 > 0 {found = 1} END {exit !found}' err
}

# The collectives that the layer serves, in both forms.
verbs="Allgather Allgatherv Allreduce Alltoall Alltoallv Barrier Bcast Gather Gatherv Reduce
 Reduce_scatter Reduce_scatter_block Scatter Scatterv"

# nonblocking VERB: the name of its other form.
nonblocking() {
  echo "I$(echo "$1" | tr '[:upper:]' '[:lower:]')"
}

# What the tests of the MPI layer begin with: a folder of their own, TAP, one MPI, and programs with
# the layer under it. Sourced by sh before anything else.
# ABI is ompi, mpich or abi. PREFIX is the folder of an MPI with bin/mpiexec and lib, as get_mpis.sh
# makes them, or empty: then it is Debian's.
source=$(realpath "$(dirname "$0")")
. "$source/../../harness/tap.sh"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Ranks that share a core give it away while they wait.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

# find_mpi ABI FOLDER_OF_LAYERS [PREFIX]: begins the test; sets abi, layers, mpi_prefix, start,
# launcher, compiler and fortran.
find_mpi() {
  abi=$1
  layers=$(realpath "$2")
  mpi_prefix=${3:+$(realpath -m "$3")}
  start=$layers/coll-mpi
  options=
  case $abi in
    ompi) launcher=mpirun.openmpi compiler=mpicc.openmpi fortran=mpifort.openmpi ;;
    mpich) launcher=mpiexec.mpich compiler=mpicc.mpich fortran=mpifort.mpich ;;
    abi) launcher=mpiexec.hydra compiler=mpicc_abi fortran= ;;
  esac
  [ -f "$layers/libcoll-mpi-$abi.so" ] ||
    tap_skip_all "libcoll-mpi-$abi.so was not built: there is no compiler wrapper of such an MPI"
  [ -z "$mpi_prefix" ] || [ -d "$mpi_prefix" ] ||
    tap_skip_all "there is no $mpi_prefix: tests/frontends/mpi/get_mpis.sh makes it"
  tap_begin
  [ -z "$mpi_prefix" ] || use_prefix
  command -v "$launcher" >/dev/null || tap_skip_all "there is no $launcher"
}

# has_compiler: whether the MPI of the prefix has one of its own.
has_compiler() { [ "${compiler#"$mpi_prefix"/}" != "$compiler" ]; }

# An MPI without a compiler runs what that of an MPI with its binary interface has built: Debian's
# MPICH, or MPICH 5 in the folder beside it.
use_prefix() {
  launcher=$mpi_prefix/bin/mpiexec
  # From PyPI, Intel MPI's compiler wrapper does not know its folder.
  export I_MPI_ROOT="$mpi_prefix"
  suffix=
  [ "$abi" != abi ] || suffix=_abi
  for folder in "$(dirname "$mpi_prefix")/mpich" "$mpi_prefix"; do
    [ "$abi" = abi ] || [ "$folder" = "$mpi_prefix" ] || continue
    [ ! -x "$folder/bin/mpicc$suffix" ] || compiler=$folder/bin/mpicc$suffix
  done
  if [ "$abi" != abi ] && [ -x "$mpi_prefix/bin/mpifort" ]; then
    fortran=$mpi_prefix/bin/mpifort
  elif [ ! -f "$mpi_prefix/lib/libmpifort.so.12" ]; then
    fortran=
  fi
  mkdir lib
  # Debian's MPICH has names of its own for the libraries.
  for library in mpi.so.12 mpifort.so.12; do
    [ ! -f "$mpi_prefix/lib/lib$library" ] ||
      ln -s "$mpi_prefix/lib/lib$library" "lib/lib$(echo $library | sed 's/^mpi/mpich/')"
  done
  export LD_LIBRARY_PATH="$dir/lib:$mpi_prefix/lib"
}

# use_mpi ABI FOLDER_OF_LAYERS FOLDER_OF_PROGRAMS [PREFIX] [SOURCE...]: the same, and sets programs:
# the folder of what the compiler of the MPI has built of these sources, if it has one, else
# FOLDER_OF_PROGRAMS.
use_mpi() {
  programs=$(realpath "$3")
  built=$programs
  use_mpi_abi=$1
  use_mpi_layers=$2
  use_mpi_prefix=${4-}
  shift 4
  for file; do
    shift
    set -- "$@" "$(realpath "$file")"
  done
  find_mpi "$use_mpi_abi" "$use_mpi_layers" "$use_mpi_prefix"
  [ -n "$mpi_prefix" ] && has_compiler || return 0
  for file; do
    "$compiler" -O1 -pthread -o "$(basename "$file" .c)-$abi" "$file" || exit 1
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

# without_layer RANKS PROGRAM WORDS...: the same under the MPI alone.
without_layer() {
  start='' with_layer "$@"
}

# fails_without COMMAND...: whether this, which does not use the layer, fails each of three times.
# Then how is a sentence about it, of which what, if it is set, is the subject; else out and err are
# what they were.
fails_without() {
  endless=0
  mv out out.before
  mv err err.before
  for try in 1 2 3; do
    "$@"
    case $? in
      0)
        mv out.before out
        mv err.before err
        return 1
        ;;
      124) endless=$((endless + 1)) ;;
    esac
  done
  how="${what:-it} fails without the layer, too, three times of three"
  [ $endless -eq 0 ] || how="$how ($endless times it did not end)"
}

# excused NAME COMMAND...: the outcome of a case that fails under the layer: it is skipped if
# COMMAND fails without it.
excused() {
  excused_name=$1
  shift
  if fails_without "$@"; then
    tap_skip "$excused_name" "$how"
  else
    false
    ok "$excused_name"
  fi
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

# Statistics of several programs: keep_statistics WHO adds those in err to the file statistics, as
# lines WHO VERB SERVED PASSED.
keep_statistics() {
  awk -v who="$1" '$1 == "libcoll:" && $2 ~ /^MPI_/ {print who, $2, $4, $5}' err >>statistics
}

# calls_of WHO VERB: how many calls the file statistics counts as served and as passed; "." is any.
calls_of() {
  awk -v who="$1" -v verb="$2" '
    (who == "." || $1 == who) && (verb == "." || $2 == verb) {served += $3; passed += $4}
    END {print served + 0, passed + 0}' statistics
}

# each_served NAME...: that calls of each of these are served, in all programs together.
each_served() {
  for name; do
    counts=$(calls_of . "MPI_$name")
    [ "${counts% *}" -gt 0 ]
    ok "MPI_$name: ${counts% *} calls are served, ${counts#* } passed"
  done
}

# Prints how many calls were served, and the range over the verbs.
figure_served() {
  figure "served: $(awk '
    {sum += $3; count[$2] += $3}
    END {
      for (verb in count) {
        if (count[verb] == 0) continue
        if (least == "" || count[verb] < count[least]) least = verb
        if (most == "" || count[verb] > count[most]) most = verb
      }
      printf "%d calls, from %d of %s to %d of %s", sum, count[least], least, count[most], most
    }' statistics)"
}

#!/bin/sh
# MPICH's own collective tests under the layer: every program of test/mpi/coll, f77/coll, f90/coll
# and f08/coll, with the words of its testlist. They are not part of this repository: Debian has
# them in the source package mpich, which get_mpis.sh gets. Prints TAP. A test that fails three
# times without the layer, too, is skipped.
# Usage: mpich_suite.sh [-n RANKS] [-b I/N] [-p PREFIX] MPICH_SOURCE ompi|mpich|abi
#                       FOLDER_OF_LAYERS [NAME...]
#   -n     the most ranks that a test gets (4); programs that share ten rows evenly get five
#   -b     the I-th of N parts of the tests; the last lines count the calls that were served
#   -p     the folder of an MPI with bin/mpiexec and lib, in place of Debian's. What it has no
#          compiler for, Debian's MPICH compiles
#   NAMEs  choose programs, as the testlist calls them
ranks_max=4 part=1 parts=1 use_mpi_prefix=
while getopts n:b:p: option; do
  case $option in
    n) ranks_max=$OPTARG ;;
    b) part=${OPTARG%/*} parts=${OPTARG#*/} ;;
    p) use_mpi_prefix=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
. "$(dirname "$0")/under_mpi.sh"
tests=$(realpath -m "$1")/test/mpi
[ -f "$tests/coll/testlist.in" ] ||
  tap_skip_all "there is no $tests: tests/frontends/mpi/get_mpis.sh gets it"
use_mpi_abi=$2
use_mpi_layers=$3
shift 3
find_mpi "$use_mpi_abi" "$use_mpi_layers" "$use_mpi_prefix"
export COLL_MPI_SERVE="${COLL_MPI_SERVE-always}" COLL_MPI_STATS=1

# What configure would find.
cat >mpitestconf.h <<END
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define HAVE_STDIO_H 1
#define HAVE_STDLIB_H 1
#define HAVE_STRING_H 1
#define HAVE_STDARG_H 1
#define HAVE_UNISTD_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_RESOURCE_H 1
#define HAVE_GETRUSAGE 1
#define HAVE_LONG_LONG 1
#define HAVE_LONG_DOUBLE 1
#define HAVE_INTTYPES_H 1
#define HAVE_STDINT_H 1
#define HAVE_MPI_TYPE_MATCH_SIZE 1
#define MTEST_LRAND48 1
#define F77_NAME_LOWER_USCORE 1
#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX
#define THREAD_PACKAGE_POSIX 2
#define THREAD_PACKAGE_NONE 0
#define USE_STRICT_MPI 1
END
mkdir include # where "../dtpoolsconf.h" is looked for from
cat >dtpoolsconf.h <<END
#define HAVE_INTTYPES_H 1
#define HAVE_LIMITS_H 1
#define HAVE_MEMSET 1
#define HAVE_STDINT_H 1
#define HAVE_STDLIB_H 1
#define HAVE_STRDUP 1
#define HAVE_STRING_H 1
END
# Open MPI has taken out what MPI-3 removed. The layer serves non-blocking calls on communicators
# that were in a blocking one.
cat >first.h <<END
#include <mpi.h>
#define MPI_Init(argc, argv) (PMPI_Init(argc, argv) + MPI_Barrier(MPI_COMM_WORLD))
#define MPI_Init_thread(argc, argv, level, provided) \\
  (PMPI_Init_thread(argc, argv, level, provided) + MPI_Barrier(MPI_COMM_WORLD))
#undef MPI_Type_hvector
#undef MPI_Type_hindexed
#define MPI_Type_hvector MPI_Type_create_hvector
#define MPI_Type_hindexed MPI_Type_create_hindexed
END
flags="-w -O1 -include first.h -DHAVE_CONFIG_H -I$dir -I$dir/include"
flags="$flags -I$tests/include -I$tests/util -I$tests/dtpools/include"
objects=
for source in "$tests"/util/mtest.c "$tests"/util/mtest_common.c "$tests"/util/mtest_single.c \
  "$tests"/dtpools/src/*.c; do
  object=$(basename "$source" .c).o
  $compiler $flags -c "$source" -o "$object" 2>>build.err || sed 's/^/# /' build.err
  objects="$objects $object"
done

if command -v "$fortran" >/dev/null; then
  for folder in f77 f90 f08; do
    case $folder in f77) suffix=f ;; *) suffix=f90 ;; esac
    "$fortran" -w -O1 -fallow-argument-mismatch -c "$tests/util/mtest_$folder.$suffix" \
      -o mtest_$folder.o 2>>build.err || sed 's/^/# /' build.err
  done
fi

# compile FOLDER NAME: the program of that name; in coll, those that begin with nb are others in
# non-blocking form. The linker must not find the libraries of an MPI that borrows the compiler.
compile() (
  unset LD_LIBRARY_PATH
  case $1 in
    f77) "$fortran" -w -O1 -fallow-argument-mismatch "$tests/f77/coll/$2.f" mtest_f77.o -o "$2" ;;
    f*) "$fortran" -w -O1 -fallow-argument-mismatch "$tests/$1/coll/$2.f90" "mtest_$1.o" -o "$2" ;;
    *)
      case $2 in
        nb*) $compiler $flags -DUSE_MTEST_NBC "$tests/coll/${2#nb}.c" $objects -o "$2" -lm ;;
        *) $compiler $flags "$tests/coll/$2.c" $objects -o "$2" -lm ;;
      esac
      ;;
  esac 2>err
)

# run RANKS COMMAND...: whether a test of MPICH says that it found no errors; 124 if it has not
# ended. start is empty, or coll-mpi. The limit is for what hangs: beside other load, nonblocking3
# takes over a minute with MPICH 4.0, also without the layer.
run() {
  ranks=$1
  shift
  # shellcheck disable=SC2086
  timeout "${limit_s:-300}" $start "$launcher" -n "$ranks" "$@" >out 2>err </dev/null || return
  grep -q 'No Errors' out
}

# The programs that the testlists leave to other lists, or forget, have lines of ours. @largetest@
# marks what needs 20 GiB. Fewer ranks than asked for make some lines equal.
{
  grep -E '^[a-z]' "$tests/coll/testlist.in" | sed 's/^/coll /'
  echo 'coll bcast 4 arg=-typelist=MPI_INT,MPI_INT:4+MPI_DOUBLE:8 arg=-counts=1,17,512,65530' \
    'arg=-seed=100 arg=-testsizes=2 arg=-memtype=host'
  echo 'coll uop_equal 4'
  if command -v "$fortran" >/dev/null; then
    for folder in f77 f90 f08; do
      letters=${folder#f77}
      grep -E '^[a-z]' "$tests/$folder/coll/testlist" | sed "s/^/$folder /"
      echo "$folder allredint8f${letters#f} 4"
      echo "$folder allredopttf${letters#f} 4"
    done
  fi
} | awk -v most="$ranks_max" '
  $3 > most && $2 !~ /^(coll2|coll6|coll7|gatherv|nbcoll2|p_gatherv)$/ {$3 = most}
  !seen[$0]++' >list
awk -v part="$part" -v parts="$parts" 'NR % parts == part % parts' list >of_part
grep '^@largetest@' "$tests/coll/testlist.in" >large
while read -r name rest <&3; do
  [ $# -eq 0 ] && [ "$part" -eq "$parts" ] || break
  tap_skip "$name $rest" "it needs more memory than a test may take"
done 3<large

: >statistics
while read -r folder name ranks rest <&3; do
  case " $* " in "  " | *" $name "*) ;; *) continue ;; esac
  if [ "$name" = uop_equal ]; then
    tap_skip "$name $ranks" "all ranks read a result that only the root has"
    continue
  fi
  words=$(echo "$rest" | tr ' ' '\n' | sed -n 's/^arg=//p')
  if [ ! -x "$name" ] && ! compile "$folder" "$name"; then
    tap_skip "$name $ranks $rest" \
      "it does not compile here: $(grep -m1 -oE '([Ee]rror|undefined).*' err)"
    continue
  fi
  # shellcheck disable=SC2086
  if run "$ranks" "./$name" $words; then
    ok "$name $ranks $rest"
    keep_statistics "$folder"
  else
    start='' excused "$name $ranks $rest" run "$ranks" "./$name" $words
  fi
done 3<of_part

# A part of the tests need not call every verb.
figure_served
if [ "$parts" -gt 1 ] || [ $# -gt 0 ]; then
  sed 's/^/# statistics: /' statistics
  tap_end
  exit
fi
for verb in $verbs; do each_served "$verb" "$(nonblocking "$verb")"; done
for folder in f77 f90 f08; do
  if [ -z "$fortran" ] || ! command -v "$fortran" >/dev/null; then
    tap_skip "calls of $folder" "there is no compiler for Fortran"
    continue
  fi
  counts=$(calls_of $folder .)
  [ "${counts% *}" -gt 0 ]
  ok "calls of $folder are served: ${counts% *}"
done
tap_end

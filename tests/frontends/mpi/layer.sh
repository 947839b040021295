#!/bin/sh
# The MPI layer under one MPI. Prints TAP.
# Usage: layer.sh ompi|mpich|abi FOLDER_OF_LAYERS FOLDER_OF_PROGRAMS [PREFIX]
# PREFIX is the folder of an MPI with bin/mpiexec and lib. If it has no compiler, it runs the
# programs of FOLDER_OF_PROGRAMS, with whose MPI it shares the binary interface.
. "$(dirname "$0")/under_mpi.sh"
use_mpi "$1" "$2" "$3" "${4-}" "$source/verbs.c" "$source/progress.c" "$source/misuse.c" \
  "$source/trials.c" "$source/shapes.c" "$source/scarce.c"

# For what hangs: three ranks of Intel MPI on two cores take minutes for every verb, also without
# the layer.
limit_s=${limit_s:-300}

export COLL_MPI_SERVE=always COLL_MPI_STATS=1
with_layer 3 verbs && grep -q ' 0 differ' out
ok "every verb, type and communicator gives what the MPI gives"
for verb in $verbs; do
  served "$verb" && served "$(nonblocking "$verb")"
  ok "MPI_$verb is served, blocking and not"
done

COLL_MPI_SERVE=measured with_layer 3 verbs && grep -q ' 0 differ' out && served Allreduce
ok "the same while the layer measures"

free_gib=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
if [ "$free_gib" -ge 12 ]; then
  with_layer 2 shapes large && grep -q 'large shapes end' out && served Bcast && served Gatherv
  ok "elements of more than 2 GiB"
else
  tap_skip "elements of more than 2 GiB" "$free_gib GiB of memory are free, and 12 are needed"
fi

with_layer 3 misuse passes && grep -q 'passes ends' out && served Allreduce
ok "inter-communicators, ops of the program and MAXLOC pass"

for case in forked errors threads mixed persistent large session; do
  if with_layer 3 misuse $case && grep -q "$case ends" out; then
    true
    ok "misuse $case"
  elif grep -q '^no .*: it ends' out; then
    tap_skip "misuse $case" "this MPI has $(sed -n 's/^\(no .*\): it ends/\1/p' out)"
  else
    excused "misuse $case" without_layer 3 misuse $case
  fi
done
for case in before after; do
  with_layer 2 misuse $case
  grep -qiE 'MPI_INIT|MPI_FINALIZE|before initializing or after finalizing' err
  ok "a collective $case MPI_Init or MPI_Finalize: the MPI says so"
done

export COLL_MPI_SERVE=measured
with_layer 2 trials 40000 && grep -q 'trials ends' out &&
  awk '$2 == "all" && $3 > 1000 && $4 > 0 && $3 + $4 == 42000 {found = 1} END {exit !found}' err
ok "trials: results are right, and every call is counted"
COLL_MPI_STATS=0 with_layer 2 trials 40000 && grep -q 'trials ends' out
ok "the same without statistics"
COLL_MPI_STATS=0 with_layer 2 trials turn && grep -q 'turn ends' out
ok "a later trial gives libcoll the calls that have passed"
export COLL_MPI_SERVE=always

# Ranks whose MPI copies nothing by itself: the receiver needs the sender's help. UCX gets no TCP:
# in namespaces, MPICH 5's looks for the interfaces of the machine and finds none that it can use.
if [ "$abi" = ompi ]; then
  options="--mca btl tcp,self --mca pml ob1 --mca osc ^ucx"
else
  export MPIR_CVAR_CH4_CMA_ENABLE=0 MPIR_CVAR_NOLOCAL=1 MPIR_CVAR_CH3_NOLOCAL=1 UCX_TLS=posix,self
fi
for mode in always measured; do
  export COLL_MPI_SERVE=$mode
  for case in isend window ibarrier first bcast served; do
    with_layer 2 progress $case && [ "$(grep -o "$case ends" out | wc -l)" = 2 ]
    ok "progress in a collective: $case, $mode"
  done
done
# With these, MPICH 5 may also hang in other programs without the layer.
unset MPIR_CVAR_CH4_CMA_ENABLE MPIR_CVAR_NOLOCAL MPIR_CVAR_CH3_NOLOCAL UCX_TLS
options=
export COLL_MPI_SERVE=always

# lost CASE: a program whose rank 1 kills itself; how long it ran after that in lost_ms, with the
# seconds that launchers take to end. The case "killed" asserts that the errors come within 2 s.
lost() {
  rm -f dying killed.*
  with_layer 3 misuse "$1"
  lost_ms=$((($(date +%s%N) - $(date -r dying +%s%N)) / 1000000))
}

# named: how many of the two other ranks have named the rank, in the error that the program got or
# in a line of the layer.
named() {
  for rank in 0 2; do
    grep -qs 'after less than 2 s: .*rank 1 (pid' killed.$rank ||
      grep -qE "libcoll: rank $rank: MPI_Allreduce: .*rank 1 \(pid" err || continue
    echo $rank
  done | wc -l
}

lost fatal
[ -s out ] || [ -s err ] || lost fatal # Hydra may end without its last lines
# MPICH's Hydra kills the others at once, and in one job of five names one of them as the rank that
# ended first, in words of its own.
words="rank 1|pid $(cat dying)"
[ "$abi" = ompi ] || words="$words|BAD TERMINATION"
[ $lost_ms -lt 5000 ] && grep -qiE "$words" out err
ok "when a rank is killed, the launcher ends the job, after $lost_ms ms, and says so"
start="$layers/coll-mpi --no-cleanup"
lost killed
while [ "$(named)" -lt 2 ] && [ $lost_ms -lt 5000 ]; do
  sleep 1
  lost_ms=$((lost_ms + 1000))
done
[ "$(named)" -eq 2 ]
ok "a killed rank is named in the errors of both others"
lost returned
cat killed.* >out 2>&1
# Meanwhile the layer has the MPI return errors.
name="a non-blocking call's error goes to its communicator's error handler alone, and is returned"
if [ "$(grep -c 'after less than 2 s: MPI_Allreduce: .*rank 1 (pid' out)" -eq 2 ]; then
  ok "$name"
else
  what=MPI_ERRORS_RETURN excused "$name" without_layer 2 scarce returns
fi
lost fatal
[ "$(named)" -eq 2 ] && [ $lost_ms -lt 5000 ]
ok "the same with the default error handler, after $lost_ms ms"
start=$layers/coll-mpi

for other in ompi mpich abi; do
  [ $other != "$abi" ] && [ -f "$layers/libcoll-mpi-$other.so" ] || continue
  ! LD_PRELOAD=$layers/libcoll-mpi-$other.so "$programs/misuse-$abi" passes >out 2>err &&
    grep -q "libcoll-mpi-$other.so was preloaded into a program with another MPI" err
  ok "the layer of $other refuses this program"
done
LD_PRELOAD=$layers/libcoll-mpi-$abi.so sh -c 'echo fine' >out 2>err && grep -qx fine out &&
  [ ! -s err ]
ok "preloaded into a program without MPI, the layer does nothing"
! "$layers/coll-mpi" true >out 2>err && grep -q 'give --layer' err
ok "coll-mpi says when it cannot know the MPI"

if [ "$abi" = ompi ] && [ -n "$fortran" ] && command -v "$fortran" >/dev/null; then
  "$fortran" "$source/fortran.f90" -o "$dir/fortran" >out 2>err &&
    timeout 60 "$layers/coll-mpi" "$launcher" -n 3 "$dir/fortran" >out 2>err </dev/null &&
    grep -q 'fortran ends' out && served Allreduce && served Ibcast
  ok "Open MPI's Fortran bindings"
else
  tap_skip "Open MPI's Fortran bindings" "this is not Open MPI, or it has no mpifort"
fi

tap_end

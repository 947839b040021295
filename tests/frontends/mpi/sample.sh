#!/bin/sh
# Seconds of the MPI layer under one MPI: data that ranks describe in different ways, ranks without
# memory, the loop of OSU's benchmarks with a count of every call, and other MPIs. layer.sh has the
# rest. Prints TAP.
# Usage: sample.sh ompi|mpich|abi FOLDER_OF_LAYERS FOLDER_OF_PROGRAMS LOOP_SOURCE [PREFIX]
# LOOP_SOURCE is bench/peers/mpi_loop.c; PREFIX as of layer.sh.
. "$(dirname "$0")/under_mpi.sh"
use_mpi "$1" "$2" "$3" "${5-}" "$source/shapes.c" "$source/scarce.c" "$4"

export COLL_MPI_STATS=1
for mode in always measured; do
  export COLL_MPI_SERVE=$mode
  if [ "$abi $mode" = "ompi measured" ]; then
    # It chooses its algorithm by the size of the rank's own type times all ranks' counts.
    tap_skip "ranks describe the same data in different ways, $mode" \
      "Open MPI hangs in MPI_Allgatherv of different types, also without the layer"
  elif with_layer 3 shapes 1800 && grep -q 'shapes ends' out && served Gatherv && served Scatterv
  then
    true
    ok "ranks describe the same data in different ways, $mode"
  else
    excused "ranks describe the same data in different ways, $mode" without_layer 3 shapes 1800
  fi
  if COLL_MPI_STATS=0 with_layer 2 scarce && grep -q 'scarce ends' out; then
    true
    ok "a rank without memory: no rank waits for ever, $mode"
  else
    what=MPI_ERRORS_RETURN \
      excused "a rank without memory: no rank waits for ever, $mode" without_layer 2 scarce returns
  fi
done

# With no time to spend, the loop makes 76 calls of a verb and size: 64 to warm up, 4 to find out
# how long they take, and 8 batches of one.
sizes=8,65536
row_calls=76

# all_counted FORMS CONDITION: whether of each of these collectives as many calls are counted as the
# loop makes, and CONDITION, an expression of sh, holds for how many were served and passed.
all_counted() {
  for name in $1; do
    calls=$((2 * row_calls))
    case $name in *arrier) calls=$row_calls ;; esac
    counts=$(calls_of . "MPI_$name")
    served=${counts% *}
    passed=${counts#* }
    echo "MPI_$name: $served served, $passed passed" >>out
    [ $((served + passed)) -eq $calls ] && eval "$2" || return 1
  done
}

# Blocking calls come first: a communicator that was in none yet passes the non-blocking ones.
nonblocking_verbs=$(for verb in $verbs; do nonblocking "$verb"; done)
words=$(echo $verbs $nonblocking_verbs | tr '[:upper:] ' '[:lower:],')
# run_loop: whether it ends well and has printed a row for each verb and size.
run_loop() {
  with_layer 2 mpi_loop 0 "$words" $sizes && [ "$(grep -c . out)" -eq $((2 * (13 * 2 + 1))) ] &&
    : >statistics && keep_statistics mpi_loop
}
COLL_MPI_SERVE=always run_loop && all_counted "$verbs $nonblocking_verbs" '[ $passed -eq 0 ]'
ok "OSU's loop: each call of each verb is served, blocking and not"
figure_served
# The first block of a trial is served, and the next two pass.
COLL_MPI_SERVE=measured run_loop &&
  all_counted "$verbs" '[ $served -gt 0 ] && [ $passed -gt 0 ]' &&
  all_counted "$nonblocking_verbs" '[ $served -eq 0 ]'
ok "OSU's loop while the layer measures: each call is counted"

# refused LIBRARY WORDS: whether the layer of this MPI ends a program with the MPI of that file with
# these words and the exit code 1.
refused() {
  LD_PRELOAD="$layers/libcoll-mpi-$abi.so" "$built/$1" >out 2>err
  [ $? -eq 1 ] && grep -q "libcoll: libcoll-mpi-$abi.so.*$2" err && [ ! -s out ]
}
refused other_mpi "another MPI (Another MPI 1.0): start the program with coll-mpi"
ok "an MPI that no layer was built for: a sentence, and the exit code 1"
if [ "$abi" = mpich ]; then
  refused old_mpi "this process has no PMPI_.*: start the program without the layer"
  ok "an MPI without a function that the layer calls: a sentence, and the exit code 1"
fi

tap_end

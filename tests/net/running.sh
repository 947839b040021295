# Jobs of collbench that run until something happens to them. Sourced after tap.sh.

# many_rows COUNT: options of collbench for thousands of rows, 20 ms each. No test waits for the
# last one.
many_rows() { echo "--counts $(yes "$1" | head -n 4000 | paste -s -d ,) -n 1000000 --time-ms 20"; }

# calls_run: the job that writes to the file out, which did not exist before, has ended a row: the
# calls of the next one run.
calls_run() { grep -qs ' float32 ' out; }

# right CODE [FILE]: collbench ended with CODE 0, and found no wrong element. It wrote to FILE, or
# out.
right() { [ "$1" -eq 0 ] && grep -q '^# Wrong elements *: 0 OK$' "${2-out}"; }

# kills_rank_1 COMMAND...: starts a job of collbench, whose rank 1 is killed while calls run; true
# if the job fails and another rank names it. A shell in the place of rank 1 ends well: the launcher
# finds no fault with it.
kills_rank_1() {
  rm -f out victim
  # shellcheck disable=SC2016,SC2046
  "$@" sh -c '[ $RANK -eq 1 ] || exec "$@"
    "$@" & echo $! >victim; wait; exit 0' - "$collbench" allreduce $(many_rows 64) \
    >out 2>err </dev/null &
  job=$!
  eventually calls_run && kill -9 "$(cat victim)"
  ! wait $job && grep -q 'rank 1 .*died' err
}

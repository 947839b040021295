#!/bin/sh
# The table of ranks that collrun prints: on SIGQUIT, with a stopped rank, and before it stops a job
# in which a rank failed. Usage: collrun_table.sh COLLRUN STUCK. Prints TAP.
collrun=$(realpath "$1")
stuck=$(realpath "$2")
. "$(dirname "$0")/../harness/tap.sh"
tap_begin
export COLL_HANG_MS=0

# True if a new table contains the line. Waits for a rank to start: collrun then handles SIGQUIT.
# It writes a table at once.
table_has() {
  [ -e started ] || return 1
  : >err
  kill -QUIT "$pid" && eventually [ -s err ] && grep -q "$1" err
}

# Each rank is started by a shell, which remains its parent: collrun searches the process group.
"$collrun" -n 3 sh -c 'touch started; "$0" stop; exit $?' "$stuck" >out 2>>err </dev/null &
pid=$!
eventually table_has 'stopped' && eventually table_has '1     2 .* for rank 1$' &&
  [ "$(grep -c . err)" -eq 5 ]
ok "SIGQUIT prints a line for each rank, with one rank stopped"

grep -q '^comm  rank  *pid  process  *done  call  *waits$' err &&
  grep -q '1     1  *[0-9]*  stopped  *1  last 0, broadcast(float32, count 5, root 0)  *-$' \
    err &&
  grep -q '1     0 .*  1  in 1, allreduce(float32, sum, count 5)  *at least [0-9.]* s for rank' err
ok "the lines show the state of each rank"

kill -CONT "$(awk '$2 == 1 { print $3 }' err)" && wait $pid
ok "the ranks continue undisturbed"

rm started
"$collrun" -n 3 --grace-ms 2000 sh -c 'touch started; exec "$0" fail' "$stuck" \
  >out 2>>err </dev/null &
pid=$!
eventually table_has '[12]     0 .* in 0, barrier() .* for rank 1$' && : >err && touch waits
wait $pid
[ $? -eq 5 ] && grep -q '     2  *[0-9]*  exited  .* last 1, split()' err &&
  grep -q '[12]     0 .* in 0, barrier() .* for rank 1$' err && grep -q 'still run: 0, 1' err &&
  [ "$(grep -c '^comm' err)" -eq 1 ]
ok "the table is printed before a failed job is stopped, with the exited rank"

rm started
"$collrun" -n 2 sh -c 'touch started; exec sleep 200' >out 2>>err </dev/null &
pid=$!
eventually table_has 'rank 1 (pid [0-9]*) has no communicator; the process is sleeping'
ok "ranks without a communicator are listed"
kill -TERM $pid
wait $pid

tap_end

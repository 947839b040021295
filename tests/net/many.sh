#!/bin/sh
# A job of so many ranks on several hosts that most of their connections are made when they are
# first used. Usage: many.sh COLLBENCH COLLRUN RANKS_PER_HOST. Prints TAP.
collbench=$(realpath "$1")
collrun=$(realpath "$2")
each=$3
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/hosts.sh"
. "$(dirname "$0")/running.sh"

hosts_begin 4
export COLL_CONNECT_ALL=8
ranks=$((4 * each))
list=${prefix}h1:$each,${prefix}h2:$each,${prefix}h3:$each,${prefix}h4:$each

# job ARGUMENTS: of collbench. Each rank's process is in the file rank.RANK.
job() {
  rm -f rank.*
  # shellcheck disable=SC2016
  "$collrun" --hosts "$list" --agent 'ip netns exec {host}' --grace-ms 60000 \
    sh -c 'echo $$ >rank.$RANK; exec "$@"' - "$collbench" "$@" >out 2>err </dev/null
}

job allreduce --counts 1,1001 -n 1
right $?
ok "$ranks ranks of 4 hosts reduce"

job alltoall --counts 3 -n 0
right $?
ok "each rank sends to all others"

rm -f out
# shellcheck disable=SC2046
job allreduce $(many_rows 2) &
run=$!
eventually calls_run
victim=$((ranks / 2 + 1))
kill -9 "$(cat "rank.$victim")"
wait $run
code=$?
# A rank without a connection to it may have been the first to find out.
named="rank [0-9]*: rank $victim \\(pid [0-9]*\\) (died|is lost, because its host .* refuses)"
[ $code -ne 0 ] && [ "$(grep -cE "$named" err)" -eq $((ranks - 1)) ]
ok "every other rank names the one that was killed"

tap_end

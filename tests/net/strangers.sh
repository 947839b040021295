#!/bin/sh
# Ranks that come to find each other while strangers call their ports. Usage: strangers.sh COLLBENCH
# COLLRUN. Prints TAP, and how much longer creation takes.
collbench=$(realpath "$1")
collrun=$(realpath "$2")
strangers=$(realpath "$(dirname "$0")/strangers.py")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/hosts.sh"
. "$(dirname "$0")/running.sh"

ranks=16 port=23457
[ "$COLL_TEST_FULL" = 1 ] && ranks=64

hosts_begin 1

# job TRANSPORTS: makes a communicator, whose rank 0 listens before the others call, which is when
# the file report says so, and sets ms to how long it took.
job() {
  begin=$(date +%s%N)
  # shellcheck disable=SC2016
  COLL_TRANSPORTS=$1 ip netns exec "${prefix}h1" "$collrun" -n $ranks --port $port --bind none \
    sh -c '[ $RANK = 0 ] || until grep -q called report; do sleep 0.05; done; exec "$@"' - \
    "$collbench" allreduce --counts 100 -n 1 -w 0 >out 2>err </dev/null
  code=$?
  ms=$((($(date +%s%N) - begin) / 1000000))
  return $code
}

# among_strangers TRANSPORTS: a job, and the strangers' report in the file report.
among_strangers() {
  mkfifo stop
  ip netns exec "${prefix}h1" python3 "$strangers" $port <stop >report &
  exec 3>stop
  rm stop
  until grep -q ready report; do sleep 0.05; done
  job "$1"
  code=$?
  exec 3>&-
  wait $!
  return $code
}

for transports in shm tcp; do
  echo called >report
  job $transports && alone=$ms
  right $?
  ok "$ranks ranks over $transports"
  among_strangers $transports
  right $?
  ok "among strangers they are right"
  awk 'END { exit !($1 > 1000 && $(NF - 1) == 0) }' report
  ok "no stranger is admitted"
  figure "creation over $transports: $alone ms alone, $ms ms among $(tail -n 1 report)"
done

tap_end

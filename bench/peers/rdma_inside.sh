#!/bin/sh
# What bench/rdma-compare runs in the virtual machine: perftest and collbench in turn, over the same
# two devices. Usage: rdma_inside.sh FOLDER_OF_DEVICES_SH COLLRUN COLLBENCH ROUNDS SIZE...
# Prints a line per measurement, ROUND WHO WHAT BYTES VALUE: bandwidths in bytes per second, times
# in us. WHO is perftest or libcoll, WHAT write, send, broadcast (one way) or latency (of one
# message).
. "$1/devices.sh"
collrun=$2 collbench=$3 rounds=$4
shift 4
export COLL_TUNE=builtin COLL_TRANSPORTS=shm,verbs
round_bytes=8388608 # of one size in one round, but at least two messages; the same for both
latency_messages=200
port=18515
cd /tmp || exit 1
devices_make || exit 1

# perftest PROGRAM OPTIONS...: the number that its client prints, or nothing.
perftest() {
  program=$1
  shift
  "$program" -d rxe1 -x 1 -F -p $port "$@" >server 2>&1 </dev/null &
  server=$!
  until ss -ltn | grep -q ":$port "; do
    kill -0 $server 2>/dev/null || { cat server >&2; return 1; }
    sleep 0.1
  done
  "$program" -d rxe0 -x 1 -F -p $port "$@" 10.9.0.2 2>client.err >client || cat client.err >&2
  wait $server
  tail -n 1 client
}

# collbench COLLECTIVE CALLS SIZE...: BYTES and us of each, two ranks, each with a device.
collbench() {
  collective=$1 calls=$2
  shift 2
  counts=$(for size; do echo $((size / 4)); done | paste -sd,)
  # shellcheck disable=SC2016
  "$collrun" -n 2 sh -c 'COLL_HOST_ID=h$RANK COLL_IB_HCA=rxe$RANK exec "$@"' - "$collbench" \
    "$collective" --counts "$counts" -n "$calls" -w 1 </dev/null |
    awk '/^ *[0-9]/ { print $1, $6 }'
}

# messages_of SIZE
messages_of() { echo $(($1 * 2 > round_bytes ? 2 : round_bytes / $1)); }

for round in $(seq "$rounds"); do
  for program in write send; do
    for size; do
      messages=$(messages_of "$size")
      perftest ib_${program}_bw -s "$size" -n $messages --output=bandwidth --report_gbits |
        awk -v line="$round perftest $program $size" '{ print line, $1 * 1e9 / 8 }'
    done
  done
  for size; do
    collbench broadcast "$(messages_of "$size")" "$size" |
      awk -v round="$round" '{ print round, "libcoll broadcast", $1, $1 / $2 * 1e6 }'
  done
  perftest ib_write_lat -s 8 -n $latency_messages --output=latency |
    awk -v line="$round perftest latency 8" '{ print line, $1 }'
  collbench sendrecv $latency_messages 8 |
    awk -v round="$round" '{ print round, "libcoll latency", $1, $2 }'
done

#!/bin/sh
# What rxe.sh runs in the virtual machine.
# Usage: inside.sh TEST_VERBS COLLBENCH COLLRUN. Prints TAP.
test_verbs=$1 collbench=$2 collrun=$3
here=$(dirname "$0")
. "$here/devices.sh"
. "$here/../../harness/tap.sh"
. "$here/../running.sh"

tap_begin
export COLL_TEST_PATIENCE=10 COLL_IB_HCA=rxe0,rxe1

# on_two_hosts COMMAND...: two ranks, each on a host of its own with a device of its own.
on_two_hosts() {
  # shellcheck disable=SC2016
  "$collrun" -n 2 sh -c 'COLL_HOST_ID=h$RANK COLL_IB_HCA=rxe$RANK exec "$@"' - "$@" \
    >out 2>err </dev/null
}

# on_two_rails COMMAND...: the same, with a device on either link.
on_two_rails() {
  # shellcheck disable=SC2016
  COLL_TRANSPORTS=shm,verbs on_two_hosts sh -c 'COLL_IB_RAILS=2 \
    COLL_IB_HCA=rxe$RANK,rxe$((RANK + 2)) exec "$@"' - "$@"
}

devices_make >out 2>err
ok "four devices"

timeout 200 "$test_verbs" -j2 >out 2>err
ok "the conformance kit"

before=$(devices_count sent_pkts)
COLL_TRANSPORTS=shm,verbs on_two_hosts "$collbench" all --algo all --counts 1,1001 -n 0
right $? && packets=$(($(devices_count sent_pkts) - before)) && [ "$packets" -gt 1000 ]
ok "every collective and algorithm, over the devices"
echo "# $packets packets"

COLL_TRANSPORTS=shm,verbs,tcp on_two_hosts "$collbench" allreduce --counts 1M -n 1 -w 1
right $? && [ ! -s err ]
ok "large messages"

before=$(devices_count sent_pkts 23)
on_two_rails "$collbench" sendrecv --counts 2M -n 4 -w 1
right $? && [ ! -s err ] && packets=$(($(devices_count sent_pkts 23) - before)) &&
  [ "$packets" -gt 2000 ]
ok "two rails share long messages"
echo "# $packets packets on the second"

before=$(devices_count sent_pkts)
COLL_TRANSPORTS=tcp on_two_hosts "$collbench" allreduce --counts 77 -n 1 -w 0
right $? && [ "$(devices_count sent_pkts)" -eq "$before" ]
ok "sockets alone leave the devices alone"

# shellcheck disable=SC2016
COLL_TRANSPORTS=shm,verbs kills_rank_1 "$collrun" -n 2 sh -c \
  'COLL_HOST_ID=h$RANK COLL_IB_HCA=rxe$RANK exec "$@"' -
ok "a rank that is killed is named"

tap_end

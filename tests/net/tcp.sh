#!/bin/sh
# Ranks that share no memory and send over TCP: of one host where COLL_TRANSPORTS or COLL_HOST_ID
# says so, with wrong settings, and with a rank that is killed. Usage: tcp.sh COLLBENCH COLLRUN.
# Prints TAP.
collbench=$(realpath "$1")
collrun=$(realpath "$2")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/running.sh"

tap_begin

# on_two_hosts COMMAND...: the command with the host of this rank: h0 for the lower half.
on_two_hosts() {
  # shellcheck disable=SC2016
  "$collrun" -n 4 sh -c 'COLL_HOST_ID=h$((RANK / 2)) exec "$@"' - "$@" >out 2>err </dev/null
}

COLL_TRANSPORTS=tcp COLL_DEBUG=1 "$collrun" -n 4 "$collbench" all --algo all --counts 0,1,1001 \
  -n 1 -w 0 >out 2>err </dev/null
right $? && [ "$(grep -c 'sends to its peers over tcp' err)" -eq 4 ]
ok "every collective and algorithm over TCP"

COLL_TRANSPORTS=tcp "$collrun" -n 3 "$collbench" all --counts 1,1M -n 2 -w 1 --root all >out \
  2>err </dev/null
right $? && [ ! -s err ]
ok "large messages, every root"

COLL_TRANSPORTS=tcp "$collrun" -n 12 "$collbench" all --counts 77 -n 3 -w 1 >out 2>err </dev/null
right $? && [ ! -s err ]
ok "more ranks than cores"

COLL_TRANSPORTS=tcp "$collbench" all --threads 3 --counts 1,1001 -n 2 -w 1 >out 2>err </dev/null
right $?
ok "ranks that are threads"

COLL_DEBUG=1 on_two_hosts "$collbench" all --algo all --counts 1,1001 -n 1 -w 0
right $? && grep -q 'groups of the 4 ranks: 2 of host' err && grep -q 'over shm and tcp' err &&
  grep -q hierarchical out
ok "ranks of two hosts: hosts are groups, and hierarchical algorithms run"

COLL_TRANSPORTS=shm on_two_hosts "$collbench" barrier -n 1
[ $? -ne 0 ] && grep -q 'rank 0 has no transport to rank 2: they are on different hosts' err
ok "shared memory alone does not reach another host"

COLL_IB_HCA=none COLL_TRANSPORTS=shm,verbs on_two_hosts "$collbench" barrier -n 1
[ $? -ne 0 ] && grep -q 'rank 0 has no transport to rank 2: .*; here verbs: ' err
ok "RDMA without a device is refused, and the message says why there is none"

COLL_TRANSPORTS=shm,tpc "$collrun" -n 2 "$collbench" barrier -n 1 >out 2>err </dev/null
[ $? -ne 0 ] && grep -q 'COLL_TRANSPORTS is "shm,tpc": give one or more of shm, tcp, verbs' err
ok "a wrong name of a transport is refused"

COLL_HOST_ID=$(printf '%0200d' 1) "$collrun" -n 2 "$collbench" barrier -n 1 >out 2>err </dev/null
[ $? -ne 0 ] && grep -q 'COLL_HOST_ID has 200 characters' err
ok "a host's identity may not be too long"

COLL_TRANSPORTS=tcp kills_rank_1 "$collrun" -n 3
ok "a rank that is killed is named"

tap_end

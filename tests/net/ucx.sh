#!/bin/sh
# Ranks that send by UCX: of one host, with a library that is missing or cannot be used, with a rank
# that is killed, and between hosts that are network namespaces with two interfaces, of which UCX
# uses the one that it is told to. Usage: ucx.sh COLLRUN COLLBENCH. Prints TAP.
collrun=$(realpath "$1")
collbench=$(realpath "$2")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/hosts.sh"
. "$(dirname "$0")/running.sh"

tap_begin
# LeakSanitizer crashes now and then in memory of UCX's; test_ucx looks for leaks of ours.
export LSAN_OPTIONS=detect_leaks=0

COLL_UCX_LIBRARY=/nonexistent/libucp.so COLL_TRANSPORTS=ucx "$collrun" -n 2 "$collbench" barrier \
  -n 1 >out 2>err </dev/null
[ $? -ne 0 ] && grep -q 'rank 0 has no transport to rank 1' err && grep -q 'ucx: ' err
ok "without the library, and without tcp in the list, a sentence says why"

COLL_UCX_LIBRARY=/nonexistent/libucp.so COLL_TRANSPORTS=ucx,tcp "$collrun" -n 2 "$collbench" all \
  --counts 1001 -n 1 -w 0 >out 2>err </dev/null
right $?
ok "with tcp in the list, sockets are used"

COLL_TRANSPORTS=ucx "$collrun" -n 2 "$collbench" barrier -n 1 >out 2>err </dev/null || {
  tap_skip "ranks that send by UCX" "$(grep -m 1 -o 'ucx: .*' err)"
  tap_end
  exit
}

COLL_TRANSPORTS=ucx "$collrun" -n 4 "$collbench" all --algo all --counts 0,1,1001 -n 1 -w 0 >out \
  2>err </dev/null
right $? && [ ! -s err ]
ok "every collective and algorithm by UCX"

COLL_TRANSPORTS=ucx "$collrun" -n 3 "$collbench" all --counts 1,1M -n 2 -w 1 --root all >out \
  2>err </dev/null
right $? && [ ! -s err ]
ok "large messages, every root"

COLL_TRANSPORTS=ucx UCX_RNDV_THRESH=16K "$collrun" -n 3 "$collbench" all --counts 1,300K -n 2 -w 1 \
  >out 2>err </dev/null
right $? && [ ! -s err ]
ok "large messages that the receiver fetches"

COLL_TRANSPORTS=ucx "$collbench" all --threads 3 --counts 1,1001 -n 2 -w 1 >out 2>err </dev/null
right $?
ok "ranks that are threads"

COLL_TRANSPORTS=ucx kills_rank_1 "$collrun" -n 3
ok "a rank that is killed is named"

why=$(hosts_may) || {
  tap_skip "ranks of two hosts" "$why"
  tap_end
  exit
}
hosts_make 2
i=1
while [ $i -le 2 ]; do
  ip -n "${prefix}h$i" link add eth1 type veth peer name "g$i" netns "${prefix}b"
  ip -n "${prefix}h$i" addr add "10.78.0.$i/24" dev eth1
  ip -n "${prefix}h$i" link set eth1 up
  i=$((i + 1))
done
ip -n "${prefix}b" link add br1 type bridge
ip -n "${prefix}b" link set br1 up
ip -n "${prefix}b" link set g1 master br1 up
ip -n "${prefix}b" link set g2 master br1 up

# on_two_hosts COMMAND...: two ranks on each.
on_two_hosts() {
  "$collrun" --hosts h1:2,h2:2 --agent "ip netns exec $prefix{host}" "$@" >out 2>err </dev/null
}

# sent_by DEVICE: the bytes that it has sent on the first host.
sent_by() { ip netns exec "${prefix}h1" cat "/sys/class/net/$1/statistics/tx_bytes"; }

COLL_TRANSPORTS=shm,ucx on_two_hosts "$collbench" all --algo all --counts 1,1001 -n 0
right $?
ok "two hosts of two ranks: every collective and algorithm"

# Before a pair has connected, which takes longer on a busy machine, its messages go by sockets,
# which are on eth0: as many calls that they are a small part of the bytes.
for device in eth0 eth1; do
  other=$([ $device = eth0 ] && echo eth1 || echo eth0)
  device_was=$(sent_by $device) other_was=$(sent_by $other)
  COLL_TRANSPORTS=shm,ucx UCX_NET_DEVICES=$device on_two_hosts "$collbench" allgather \
    --counts 2M -n 6 -w 0
  right $? && sent=$(($(sent_by $device) - device_was)) && [ $sent -gt 160000000 ] &&
    [ $((($(sent_by $other) - other_was) * 5)) -lt $sent ]
  ok "the bytes between hosts go by the device that UCX is told to use, $device"
done

tap_end

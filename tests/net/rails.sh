#!/bin/sh
# Two hosts with two interfaces each: large messages take both, a job goes on by one when the other
# fails for good or for a while, and connections that are reset are made again. Usage: rails.sh
# COLLBENCH COLLRUN MBIT, where MBIT is the speed of the interfaces, of which this build can use
# twice. Prints TAP, and a line for each case with what came of it.
collbench=$(realpath "$1")
collrun=$(realpath "$2")
mbit=$3
calls=$((mbit / 20)) # 1.7 s by one interface
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/hosts.sh"
. "$(dirname "$0")/running.sh"

hosts_begin

patience=$(patience_of "$collbench")

now_ms() { echo $(($(date +%s%N) / 1000000)); }
on_bridge() { ip -n "${prefix}b" "$@"; }

# shape RATE: of every port.
shape() {
  for port in h1 h2 h1.1 h2.1; do
    tc -n "${prefix}b" qdisc replace dev $port root tbf rate "$1" burst 256k latency 50ms
  done
  for host in 1 2; do
    for k in 0 1; do
      tc -n "${prefix}h$host" qdisc replace dev eth$k root tbf rate "$1" burst 256k latency 50ms
    done
  done
}

# begin INTERFACES CALLS [COUNT]: starts a job of one rank on each host, and returns when it is
# under way.
begin() {
  interfaces=$1 job_calls=$2 count=${3:-1M}
  rm -f rank.*
  started=$(now_ms)
  # shellcheck disable=SC2016
  COLL_INTERFACES=$interfaces "$collrun" --hosts "${prefix}h1:1,${prefix}h2:1" \
    --agent 'ip netns exec {host}' --grace-ms 5000 \
    sh -c 'echo $$ >rank.$RANK; exec "$@"' - "$collbench" sendrecv --counts "$count" \
    -n "$job_calls" -w 1 >out 2>err </dev/null &
  job=$!
  for _ in $(seq 200); do
    [ "$(ls rank.* 2>/dev/null | wc -l)" -eq 2 ] && break
    sleep 0.05
  done
  sleep 1
  began=$(now_ms)
}

# end: waits for the job; took: milliseconds since it was under way; whole: since it was started.
end() {
  wait $job
  code=$?
  now=$(now_ms)
  took=$((now - began))
  whole=$((now - started))
}

exact() { right $code; }

said() {
  echo "# $1: exit code $code after $whole ms: $(grep -m 1 'rank [0-3]:' err | cut -c1-200)"
}

# MiB that host 1 has sent by interface ethK.
sent_mib() {
  bytes=$(ip netns exec "${prefix}h1" cat "/sys/class/net/eth$1/statistics/tx_bytes")
  echo $((bytes >> 20))
}

# hosts_make_two: with two interfaces each.
hosts_make_two() {
  hosts_make 2
  hosts_connect 1
  shape "${mbit}mbit"
}

# On hosts of its own, as it mostly waits, beside cases that are not timed: what is short takes the
# first interface, and nothing is under way by the second one when it fails.
idle_interface() {
  mkdir idle && cd idle || return 1
  prefix=${prefix}i
  trap hosts_remove EXIT
  hosts_make_two
  begin eth0,eth1 1000000 1000
  on_bridge link set h2.1 down
  sleep 4 # until the kernel has given it up
  on_bridge link set h2.1 up
  sleep 6 # until it was tried again
  on_bridge link set h2 down
  sleep 5
  kill -0 $job
  goes_on=$?
  kill $job
  wait $job
  return $goes_on
}

hosts_make_two

begin eth0 $calls
end
exact
ok "one interface"
one=$whole
said "one interface"

before=$(sent_mib 1)
begin eth0,eth1 $((2 * calls))
end
exact && [ $(($(sent_mib 1) - before)) -gt $((3 * calls)) ]
ok "half of the bytes go by the second interface"
said "two interfaces, twice the calls"
figure "twice the calls by two interfaces take $whole ms, by one $one ms"

begin eth0,eth1 $calls
on_bridge link set h2.1 down
end
exact
ok "one interface fails for good: an exact result, by the other"
said "one of two interfaces down"
on_bridge link set h2.1 up

(idle_interface) &
idle=$!
begin eth0,eth1 $((2 * calls))
for _ in 1 2 3; do
  on_bridge link set h1.1 down
  sleep 0.7
  on_bridge link set h1.1 up
  on_bridge link set h2 down
  sleep 0.7
  on_bridge link set h2 up
  sleep 0.3
done
end
exact
ok "each interface fails for a while: an exact result"
said "both interfaces in turn"

begin eth0,eth1 1000000
on_bridge link set h2.1 down
on_bridge link set h2 down
end
[ $code -ne 0 ] && [ $took -lt $((8000 * patience)) ] &&
  grep -Eq 'rank [01] \(pid [0-9]+\) is lost, because its host 10\.7[78]\.0\.[12] ' err
ok "both interfaces fail: the rank is lost"
said "both interfaces down"
on_bridge link set h2.1 up
on_bridge link set h2 up

# reset: all connections between the hosts that are established, as by a firewall.
reset() { ip netns exec "${prefix}h1" ss -K state established dst 10.76.0.0/14 >/dev/null 2>&1; }

# resets INTERFACES: a job during which all connections are reset six times.
resets() {
  begin "$1" $((2 * calls))
  for _ in 1 2 3 4 5 6; do
    reset
    sleep 0.2
  done
  end
}

export COLL_RECONNECT=none
resets eth0
unset COLL_RECONNECT
if [ $code -eq 0 ]; then
  echo "# not tried: this kernel lets nobody reset connections"
else
  grep -Eq 'rank [01] \(pid [0-9]+\) lives, but its connection has ended' err
  ok "connections that are reset, and not made again: the rank is lost"
  said "resets, COLL_RECONNECT=none"
  COLL_DEBUG=1 COLL_INTERFACES=eth0,eth1 "$collrun" --hosts "${prefix}h1:2,${prefix}h2:2" \
    --agent 'ip netns exec {host}' "$collbench" all --algo all --counts 1,1001 \
    -n $((mbit / 25)) -w 0 >out 2>err </dev/null &
  job=$!
  started=$(now_ms) began=$started
  for _ in $(seq 300); do # the rendezvous of a communicator does not survive a reset
    grep -q 'groups of the 4 ranks' err && break
    sleep 0.1
  done
  sleep 0.2
  while kill -0 $job 2>/dev/null; do
    reset
    sleep 0.05
  done
  end
  exact
  ok "every collective and algorithm while connections are reset"
  said "all"
  for interfaces in eth0 eth0,eth1; do
    resets $interfaces
    exact
    ok "connections that are reset are made again ($interfaces)"
    said "resets"
  done
fi

wait $idle
ok "an idle interface that failed for a while is used again"
tap_end

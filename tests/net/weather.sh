#!/bin/sh
# Jobs of two hosts whose network fails: each ends with an exact result or in time with a sentence
# that names rank and address. Usage: weather.sh COLLBENCH COLLRUN. Prints TAP, and a line for each
# case with what came of it.
collbench=$(realpath "$1")
collrun=$(realpath "$2")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/hosts.sh"
cd "$dir" || exit 1
export COLL_TUNE=builtin

why=$(hosts_may) || tap_skip_all "$why"

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# Whether the running job has begun its calls: every rank's first line is there.
job_runs() { [ "$(ls rank.* 2>/dev/null | wc -l)" -eq 4 ]; }

# begin CALLS [COLLBENCH OPTIONS]: starts a job of two ranks on each of two new hosts, and returns
# when it is under way.
begin() {
  calls=$1
  shift
  hosts_make 2
  rm -f rank.*
  # shellcheck disable=SC2016
  "$collrun" --hosts "${prefix}h1:2,${prefix}h2:2" --agent 'ip netns exec {host}' --grace-ms 5000 \
    sh -c 'echo $$ >rank.$RANK; exec "$@"' - "$collbench" allreduce --counts 100003 \
    -n "$calls" -w 1 "$@" >out 2>err </dev/null &
  job=$!
  for _ in $(seq 200); do
    job_runs && break
    sleep 0.1
  done
  sleep 1
  began=$(now_ms)
}

# end: waits for the job; took: milliseconds since the event.
end() {
  wait $job
  code=$?
  took=$(($(now_ms) - began))
  hosts_remove
}

exact() { [ $code -eq 0 ] && grep -q '^# Wrong elements *: 0 OK$' out; }

# lost MS: it failed, in time, with a sentence that names a rank of the other host and its address.
lost() {
  [ $code -ne 0 ] && [ $took -lt $(($1 * patience)) ] &&
    grep -Eq 'rank [0-3]: rank [0-3] \(pid [0-9]+\) is lost, because its host 10\.77\.0\.[12] ' err
}

said() {
  echo "# $1: exit code $code after $took ms: $(grep -m 1 'rank [0-3]:' err |
    cut -c1-160)"
}

on_bridge() { ip -n "${prefix}b" "$@"; }

# A sanitizer's calls take longer, and a job ends later.
slowness=1 patience=$(patience_of "$collbench")
[ $patience -eq 1 ] || slowness=4
endless=1000000

begin $endless
on_bridge link set h2 down
end
lost 7000
ok "a host whose link is down is lost"
said "link down"

begin $endless
on_bridge link del h2
end
lost 7000
ok "a host that vanishes is lost"
said "host vanishes"

begin $endless
on_bridge link set h2 type bridge_slave flood off learning off
bridge -n "${prefix}b" fdb show br br0 | awk '$3 == "h2" && !/permanent/ { print $1 }' |
  while read -r address; do bridge -n "${prefix}b" fdb del "$address" dev h2 master; done
end
lost 7000
ok "a host that is heard and does not hear is lost"
said "partition in one direction"

begin $((4000 / slowness))
kill -STOP "$(cat rank.3)" && was_stopped=yes
sleep 5
kill -CONT "$(cat rank.3)"
end
[ "$was_stopped" = yes ] && exact && [ $took -gt 5000 ]
ok "a rank that is stopped for 5 s is not"
said "rank stopped"

begin $((2000 / slowness))
for _ in $(seq "${flaps:-25}"); do
  on_bridge link set h2 down
  sleep 0.1
  on_bridge link set h2 up
  sleep 0.1
done
end
exact || lost 12000
ok "a link that flaps: an exact result or a sentence"
said "link flaps"

begin $endless
for host in h1 h2; do # or else packets pass that are cut later only
  ip -n "$prefix$host" link set eth0 gso_max_segs 1
done
on_bridge link set h2 mtu 600
end
lost 25000
ok "packets that are too large for a hop are noticed"
said "MTU black hole"

# refused: a job that cannot be made said so in time.
refused() { [ $code -ne 0 ] && [ $took -lt $((12000 * patience)) ] && grep -Eq 'rank [0-3]: ' err; }

# start SETUP: runs a job on the hosts of hosts_make, each rank behind a shell command.
start() {
  began=$(now_ms)
  COLL_TIMEOUT_MS=4000 timeout 60 "$collrun" --hosts "${prefix}h1:2,${prefix}h2:2" \
    --agent 'ip netns exec {host}' --address 10.77.0.1 --port 23456 sh -c "$1"'; exec "$@"' - \
    "$collbench" allreduce --counts 100003 -n 1 >out 2>err </dev/null
  code=$?
  took=$(($(now_ms) - began))
  hosts_remove
}

hosts_make 2
on_bridge link set h1 type bridge_slave isolated on
on_bridge link set h2 type bridge_slave isolated on
start :
[ $code -ne 0 ] && [ $took -lt $((12000 * patience)) ] &&
  grep -Eq 'rank [23]: no rendezvous server answers at 10.77.0.1' err
ok "a firewall that drops: a sentence"
said "firewall drops"

hosts_make 2
ip netns exec "${prefix}h2" sysctl -qw net.ipv4.ip_local_port_range='40000 40000'
start :
exact || refused
ok "no ports: a sentence"
said "ports exhausted"

hosts_make 2
start 'ulimit -n 12'
exact || refused
ok "no descriptors: a sentence"
said "descriptors exhausted"

tap_end

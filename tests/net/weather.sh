#!/bin/sh
# Jobs of two hosts whose network fails: each ends with an exact result or in time with a sentence
# that names rank and address. Cases mostly wait: several run at the same time, each on hosts of its
# own. Prints TAP, and a line for each case with what came of it.
# Usage: weather.sh COLLBENCH COLLRUN.
collbench=$(realpath "$1")
collrun=$(realpath "$2")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/hosts.sh"
. "$(dirname "$0")/running.sh"

hosts_begin

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

exact() { right $code; }

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

link_down() {
  begin $endless
  on_bridge link set h2 down
  end
  said "link down"
  lost 7000
}

host_vanishes() {
  begin $endless
  on_bridge link del h2
  end
  said "host vanishes"
  lost 7000
}

host_is_deaf() {
  begin $endless
  on_bridge link set h2 type bridge_slave flood off learning off
  bridge -n "${prefix}b" fdb show br br0 | awk '$3 == "h2" && !/permanent/ { print $1 }' |
    while read -r address; do bridge -n "${prefix}b" fdb del "$address" dev h2 master; done
  end
  said "partition in one direction"
  lost 7000
}

rank_stopped() {
  begin $((4000 / slowness))
  kill -STOP "$(cat rank.3)" && was_stopped=yes
  sleep 5
  kill -CONT "$(cat rank.3)"
  end
  said "rank stopped"
  [ "$was_stopped" = yes ] && exact && [ $took -gt 5000 ]
}

link_flaps() {
  begin $((2000 / slowness))
  for _ in $(seq "${flaps:-25}"); do
    on_bridge link set h2 down
    sleep 0.1
    on_bridge link set h2 up
    sleep 0.1
  done
  end
  said "link flaps"
  exact || lost 12000
}

black_hole() {
  begin $endless
  for host in h1 h2; do # or else packets pass that are cut later only
    ip -n "$prefix$host" link set eth0 gso_max_segs 1
  done
  on_bridge link set h2 mtu 600
  end
  said "MTU black hole"
  lost 25000
}

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

firewall_drops() {
  hosts_make 2
  on_bridge link set h1 type bridge_slave isolated on
  on_bridge link set h2 type bridge_slave isolated on
  start :
  said "firewall drops"
  [ $code -ne 0 ] && [ $took -lt $((12000 * patience)) ] &&
    grep -Eq 'rank [23]: no rendezvous server answers at 10.77.0.1' err
}

no_ports() {
  hosts_make 2
  ip netns exec "${prefix}h2" sysctl -qw net.ipv4.ip_local_port_range='40000 40000'
  start :
  said "ports exhausted"
  exact || refused
}

no_descriptors() {
  hosts_make 2
  start 'ulimit -n 12'
  said "descriptors exhausted"
  exact || refused
}

# together CASE...: starts them, each in a folder and on hosts of its own.
together() {
  for case in "$@"; do
    mkdir "$case"
    (cd "$case" && prefix=$prefix${case}x && "$case") >"$case/said" &
    eval "pid_of_$case=$!"
  done
}

# came CASE NAME: waits for it. NAME is what it shows.
came() {
  eval "wait \$pid_of_$1"
  outcome=$?
  cd "$1" || exit 1
  cat said
  (exit $outcome)
  ok "$2"
  cd ..
}

tap_finally hosts_remove
hosts_finally=set

# It waits for longer than two groups of the others take.
together black_hole

together link_down host_vanishes host_is_deaf
came link_down "a host whose link is down is lost"
came host_vanishes "a host that vanishes is lost"
came host_is_deaf "a host that is heard and does not hear is lost"

together rank_stopped link_flaps
came rank_stopped "a rank that is stopped for 5 s is not"
came link_flaps "a link that flaps: an exact result or a sentence"

together firewall_drops no_ports no_descriptors
came black_hole "packets that are too large for a hop are noticed"
came firewall_drops "a firewall that drops: a sentence"
came no_ports "no ports: a sentence"
came no_descriptors "no descriptors: a sentence"

tap_end

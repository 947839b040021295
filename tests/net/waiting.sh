#!/bin/sh
# What is not there yet when a rank starts is waited for: the name of rank 0's host, a way to it, an
# address of an interface, and a service that has nobody behind it. Each test brings it about when
# the rank has said that it waits. Usage: waiting.sh COLLBENCH. Prints TAP.
collbench=$(realpath "$1")
forward=$(realpath "$(dirname "$0")/forward.py")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/hosts.sh"

hosts_begin 3
hosts_secret
names_of_node1 10.77.0.1 127.0.0.1

# says RANK TEXT: the rank has printed it, on one line, and no other one about what it waits for.
says() { eventually grep -q "^libcoll: rank $1 waits for $2" "err.$1"; }

# both_wait_once: both end well, and each has said at most once that it waits.
both_wait_once() {
  both_end && [ "$(grep -c ' waits for ' err.0)" -le 1 ] &&
    [ "$(grep -c ' waits for ' err.1)" -le 1 ]
}

server='the rendezvous server of rank 0 at'

printf '127.0.0.1 localhost\n' >names.h2
at_node1 1 node1
says 1 "$server node1 port 29555: cannot resolve the host 'node1'" &&
  echo '10.77.0.1 node1' >>names.h2
at_node1 0 node1
both_wait_once
ok "a name that is made when the rank waits for it"

ip -n "${prefix}h2" addr flush dev eth0
ip -n "${prefix}h2" addr add 10.99.0.2/24 dev eth0
ip -n "${prefix}h1" route add 10.99.0.0/24 dev eth0
at_node1 0 node1
at_node1 1 node1
says 1 "$server node1 port 29555: Network is unreachable" &&
  ip -n "${prefix}h2" route add 10.77.0.0/24 dev eth0
both_wait_once
ok "a route"

ip -n "${prefix}h1" addr flush dev eth0
ip -n "${prefix}h2" addr flush dev eth0
at_node1 0 node1
at_node1 1 node1
says 0 'an address of this host: its interface eth0 has none yet' &&
  says 1 'an address of this host: its interface eth0 has none yet' &&
  ip -n "${prefix}h1" addr add 10.77.0.1/24 dev eth0 &&
  ip -n "${prefix}h2" addr add 10.77.0.2/24 dev eth0
both_wait_once
ok "addresses of interfaces"

ip netns exec "${prefix}h3" python3 "$forward" 10.77.0.3 29555 10.77.0.1 >forwarding 2>&1 &
forwarder=$!
eventually grep -q ready forwarding
at_node1 1 10.77.0.3
says 1 "$server 10.77.0.3 port 29555: what listens there hung up"
at_node1 0 10.77.0.3
both_wait_once
ok "a service that has nobody behind it"
kill $forwarder
wait $forwarder 2>/dev/null

COLL_TIMEOUT_MS=2500
export COLL_TIMEOUT_MS
at_node1 1 nowhere1
! wait "$pid1" && says 1 "$server nowhere1" &&
  grep -q "rank 1: no rendezvous server answers at nowhere1 port 29555 (cannot resolve" err.1
ok "the sentence at the end says what was tried last"

tap_end

#!/bin/sh
# Which address of a host others are told, and where rank 0 listens, on hosts that are network
# namespaces: names that a host takes for its loopback interface, hosts with IPv6 only, addresses
# that are not local, bridges of containers. Usage: addresses.sh COLLBENCH COLLRUN. Prints TAP.
collbench=$(realpath "$1")
collrun=$(realpath "$2")
forward=$(realpath "$(dirname "$0")/forward.py")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/hosts.sh"

hosts_begin 3
hosts_secret
export COLL_DEBUG=1 COLL_TIMEOUT_MS=20000

# meet ADDRESS VARIABLE=VALUE...: rank 0 on h1 and rank 1 on h2 meet there. True if both end well.
meet() {
  at_node1 0 "$@"
  at_node1 1 "$@"
  both_end
}

# run_on HOSTS: a job of collrun.
run_on() {
  "$collrun" --hosts "$1" --agent "ip netns exec $prefix{host}" "$collbench" barrier -n 1 >out \
    2>err </dev/null
}

names_of_node1 10.77.0.1 127.0.0.1

meet node1 && grep -q '2 ranks meet at node1 port 29555' err.0
ok "a name that rank 0's host takes for its loopback interface"

! COLL_TIMEOUT_MS=2000 meet node1 COLL_AUTH_FILE= COLL_TIMEOUT_MS=2000 &&
  grep -q 'COLL_AUTH_FILE is set but empty' err.1
ok "an empty variable is refused"

meet node1 COLL_INTERFACE_ADDRESS=10.77.0.1 && grep -q '2 ranks meet at 10.77.0.1 port' err.0
ok "COLL_INTERFACE_ADDRESS is where rank 0 listens"

# A service has an address of its own, from which connections go on to rank 0's host.
ip netns exec "${prefix}h3" python3 "$forward" 10.77.0.3 29555 10.77.0.1 >forwarding 2>&1 &
forwarder=$!
eventually grep -q ready forwarding
meet 10.77.0.3
ok "an address that is none of rank 0's host"
kill $forwarder
wait $forwarder 2>/dev/null

# Bridges that containers have made before the host's own interface came up.
ip netns add "${prefix}c"
for bridge in docker0 br-77 pods; do
  ip -n "${prefix}c" link add $bridge type bridge
  ip -n "${prefix}c" link add p$bridge type veth peer name q$bridge
  ip -n "${prefix}c" link set p$bridge master $bridge up
  ip -n "${prefix}c" link set q$bridge up
  ip -n "${prefix}c" link set $bridge up
done
ip -n "${prefix}c" addr add 172.17.0.1/16 dev docker0
ip -n "${prefix}c" addr add 172.18.0.1/16 dev br-77
ip -n "${prefix}c" addr add 10.244.0.1/24 dev pods
ip -n "${prefix}c" link add eth9 type veth peer name x9
ip -n "${prefix}c" link set x9 up
ip -n "${prefix}c" addr add fd09::9/64 dev eth9 nodad
ip -n "${prefix}c" link set eth9 up
picked() {
  ip netns exec "${prefix}c" env "$@" "$collrun" --print-address >out 2>err &&
    grep -q "^collrun-address $expected " out
}
expected=fd09::9
eventually picked A=
ok "the host's own interface comes before bridges"
expected=10.244.0.1
eventually picked COLL_INTERFACES=pods && expected=172.17.0.1 && picked COLL_INTERFACES=docker
ok "COLL_INTERFACES overrides that"
expected=10.1.2.3
picked COLL_INTERFACE_ADDRESS=10.1.2.3
ok "and COLL_INTERFACE_ADDRESS overrides it"
! picked COLL_INTERFACES= && grep -q 'COLL_INTERFACES is set but empty' err
ok "an empty list is refused"

for i in 1 2; do
  ip -n "${prefix}h$i" addr flush dev eth0
  ip -n "${prefix}h$i" addr add "fd77::$i/64" dev eth0 nodad
done
run_on h1,h2 && grep -q '2 ranks meet at fd77::1 port' err
ok "collrun on hosts that have IPv6 only"
names_of_node1 fd77::1 ::1
meet node1 && meet '[fd77::1]'
ok "a name, and an address in brackets, on hosts that have IPv6 only"

for i in 1 2; do ip -n "${prefix}h$i" addr flush dev eth0; done
! run_on h1,h2 && grep -q 'host h1 has no address that the other hosts reach' err
ok "no loopback address is told to another host"
run_on h1:2
ok "but one host may be without a network"

tap_end

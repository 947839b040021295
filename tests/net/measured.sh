#!/bin/sh
# What the network between hosts, which are network namespaces, costs is measured when a
# communicator is made. A machine that has other work measures nothing: this is a test of the timing
# suite. Usage: measured.sh COLLRUN COLLBENCH. Prints TAP.
collrun=$(realpath "$1")
collbench=$(realpath "$2")
slow_link=$(realpath "$(dirname "$0")/slow_link.py")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/hosts.sh"

hosts_begin 2

# run COLLRUN-ARGUMENTS...: true if it ends well. Writes the output to out and err.
run() { "$collrun" "$@" >out 2>err </dev/null; }

# measured HOSTS: what a hop and bytes cost.
# shellcheck disable=SC2317
measured() {
  rm -rf "$dir/cache"
  XDG_CACHE_HOME="$dir/cache" COLL_TUNE=auto run --hosts "$1" --agent \
    "ip netns exec $prefix{host}" "$collbench" sendrecv --sizes 4 --explain && grep -Eqx \
    '# network: measured [0-9.]+ us a hop, [0-9.]+ GB/s between 2 hosts, now' out
}
COLL_CONNECT_ALL=2 eventually measured h1:3,h2:2
ok "the network is measured by ranks that are not connected at creation"
eventually measured h1,h2 && grep -q '_hop_ps [1-9]' "$dir"/cache/libcoll/machine-*
ok "the network is measured, and cached"
XDG_CACHE_HOME="$dir/cache" COLL_TUNE=builtin run --hosts h1,h2 --agent \
  "ip netns exec $prefix{host}" "$collbench" sendrecv --sizes 4 --explain &&
  grep -q ' direct ' out && ! grep -q network: out
ok "but not with COLL_TUNE=builtin"

# 0.41 ms per KiB, about: the link takes some time itself, and more on a busy machine.
# shellcheck disable=SC2317
measured_slow() {
  COLL_INTERFACES=slow measured h1,h2 &&
    awk '/_both_ways_ps / { ms = $2 / 1e9 } END { exit !(ms > 0.2 && ms < 1.6) }' \
      "$dir"/cache/libcoll/machine-*
}
if [ -c /dev/net/tun ]; then
  "$slow_link" "${prefix}h1" "${prefix}h2" 20 >slow.out 2>&1 &
  slow=$!
  tap_finally "kill $slow 2>/dev/null"
  eventually grep -q ready slow.out && eventually measured_slow
  ok "so is a network of 20 Mb/s"
  kill $slow; wait $slow 2>/dev/null
else
  tap_skip "so is a network of 20 Mb/s" "there is no /dev/net/tun"
fi

tap_end

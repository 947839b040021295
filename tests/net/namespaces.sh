#!/bin/sh
# Ranks on hosts that are network namespaces. Usage: namespaces.sh COLLBENCH. Prints TAP.
collbench=$(realpath "$1")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/hosts.sh"
cd "$dir" || exit 1
export COLL_TUNE=builtin

why=$(hosts_may) || {
  echo "1..0 # SKIP $why"
  exit 0
}
trap 'hosts_remove; rm -rf "$dir"' EXIT
hosts_make 3

right() { [ "$1" -eq 0 ] && grep -q '^# Wrong elements *: 0 OK$' out.0; }

on_hosts 2 2 "$collbench" all --algo all --counts 1,1001 -n 1 -w 0
right $?
ok "two hosts of two ranks: every collective and algorithm"

on_hosts 3 1 "$collbench" all --counts 0,5,100003 -n 2 -w 1
right $?
ok "three hosts of one rank"

on_hosts 3 3 "$collbench" all --counts 77 -n 2 -w 1
right $?
ok "three hosts of three ranks"

tap_end

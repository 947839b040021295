#!/bin/sh
# Ranks on hosts that are network namespaces. Usage: namespaces.sh COLLBENCH. Prints TAP.
collbench=$(realpath "$1")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/hosts.sh"
. "$(dirname "$0")/running.sh"

hosts_begin 3

on_hosts 2 2 "$collbench" all --algo all --counts 1,1001 -n 1 -w 0
right $? out.0
ok "two hosts of two ranks: every collective and algorithm"

on_hosts 3 1 "$collbench" all --counts 0,5,100003 -n 2 -w 1
right $? out.0
ok "three hosts of one rank"

on_hosts 3 3 "$collbench" all --counts 77 -n 2 -w 1
right $? out.0
ok "three hosts of three ranks"

# A second network on each host that does not reach the other.
for i in 1 2; do
  ip -n "${prefix}h$i" link add x0 type veth peer name x1
  ip -n "${prefix}h$i" addr add "10.88.0.$i/24" dev x0
  ip -n "${prefix}h$i" link set x0 up
  ip -n "${prefix}h$i" link set x1 up
done

COLL_INTERFACES=10.77.0.0/16 on_hosts 2 2 "$collbench" allreduce --counts 1,1001 -n 1
right $? out.0
ok "COLL_INTERFACES chooses a network"

COLL_INTERFACES=^x COLL_TIMEOUT_MS=20000 on_hosts 2 2 "$collbench" allreduce --counts 1001 -n 1
right $? out.0
ok "or excludes one"

COLL_INTERFACES=x0 COLL_TIMEOUT_MS=10000 on_hosts 2 1 "$collbench" barrier -n 1
[ $? -ne 0 ] && grep -q 'rank [01]: .*no connection to rank [01]' err.0
ok "a network that does not reach the other host: a sentence"

COLL_INTERFACES=ib on_hosts 2 1 "$collbench" barrier -n 1
[ $? -ne 0 ] && grep -q 'COLL_INTERFACES=ib: no interface of this host is like that: .*eth0' err.0
ok "a network that the host does not have: a sentence"

auth=
on_hosts 2 1 "$collbench" barrier -n 1
[ $? -ne 0 ] && grep -q '10.77.0.1, which other hosts reach, but have no secret' err.0
ok "ranks of two hosts without a secret are refused"

COLL_INSECURE=1 on_hosts 2 1 "$collbench" barrier -n 1
right $? out.0
ok "unless the user says that they may"

unset auth
chmod 644 auth
COLL_AUTH_FILE=auth RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29555 "$collbench" \
  barrier -n 1 >out 2>err </dev/null
[ $? -ne 0 ] && grep -q 'COLL_AUTH_FILE=auth can be read or written by others (mode 644)' err
ok "a secret that others can read is refused"

rm auth
mkfifo -m 600 auth
COLL_AUTH_FILE=auth RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29555 timeout 20 \
  "$collbench" barrier -n 1 >out 2>err </dev/null
[ $? -ne 0 ] && grep -q 'COLL_AUTH_FILE=auth is no regular file' err
ok "a FIFO is refused, not waited for"

tap_end

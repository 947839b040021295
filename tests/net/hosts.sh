# Hosts of a test: network namespaces h1, h2, ... of this machine, each with an interface eth0 of
# address 10.77.0.N on one bridge. Their names begin with a prefix of this process, so that tests
# that run at the same time have different ones. (No such prefix is the beginning of another.)

prefix=coll$$x

# hosts_may: whether this system lets us make them; prints why not.
hosts_may() {
  [ "$(id -u)" = 0 ] || { echo "network namespaces need root"; return 1; }
  command -v ip >/dev/null || { echo "there is no ip (Debian: iproute2)"; return 1; }
  ip netns add "${prefix}try" 2>/dev/null ||
    { echo "this system makes no network namespaces"; return 1; }
  runs=yes
  why=$(ip netns exec "${prefix}try" true 2>&1) || runs=
  ip netns del "${prefix}try"
  # In a chroot whose root is no mount point, for one.
  [ -n "$runs" ] || { echo "this system runs no programs in network namespaces: $why"; return 1; }
}

# hosts_await INTERFACE: the kernel reports links as up some time after they were set up; until then
# ranks do not use them.
hosts_await() {
  tries=0
  for i in $(seq "$hosts"); do
    until ip -n "${prefix}h$i" link show "$1" | grep -q 'state UP' || [ $tries -ge 200 ]; do
      tries=$((tries + 1))
      sleep 0.05
    done
  done
}

# hosts_connect K: every host gets an interface ethK of address 10.(77+K).0.N, on a bridge brK of
# its own, whose port for host N is hN (K is 0) or hN.K.
hosts_connect() {
  k=$1
  ip -n "${prefix}b" link add "br$k" type bridge
  ip -n "${prefix}b" link set "br$k" up
  for i in $(seq "$hosts"); do
    bridge_port=h$i
    [ "$k" -eq 0 ] || bridge_port=h$i.$k
    ip -n "${prefix}h$i" link add "eth$k" type veth peer name "$bridge_port" netns "${prefix}b"
    ip -n "${prefix}b" link set "$bridge_port" master "br$k" up
    ip -n "${prefix}h$i" addr add "10.$((77 + k)).0.$i/24" dev "eth$k"
    ip -n "${prefix}h$i" link set "eth$k" up
  done
  hosts_await "eth$k"
}

# hosts_make N: hosts that are removed when the test ends, at the latest.
hosts_make() {
  hosts=$1
  [ -n "${hosts_finally-}" ] || tap_finally hosts_remove
  hosts_finally=set
  ip netns add "${prefix}b"
  for i in $(seq "$hosts"); do
    ip netns add "${prefix}h$i"
    ip -n "${prefix}h$i" link set lo up
  done
  hosts_connect 0
}

# hosts_begin [COUNT]: begins a test that needs hosts, and makes some for all of its cases; skips it
# where this system makes none.
hosts_begin() {
  tap_begin
  why=$(hosts_may) || tap_skip_all "$why"
  [ "${1-0}" -eq 0 ] || hosts_make "$1"
}

# hosts_secret: a new secret in the file auth.
hosts_secret() { (umask 077; head -c 32 /dev/urandom | base64 >auth); }

hosts_remove() {
  for name in $(ip netns list | awk -v prefix="$prefix" 'index($1, prefix) == 1 { print $1 }'); do
    ip netns del "$name"
  done
}

# on HOST COMMAND...: runs it on one of the hosts, with that name as the host's name.
on() {
  on_host=$1
  shift
  ip netns exec "$prefix$on_host" unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' - \
    "$on_host" "$@"
}

# names_of_node1 ADDRESS LOCALHOST: node1 is rank 0's host, h1, whose /etc/hosts has an address of
# the loopback interface for it, as Debian writes it. h2 knows its real one.
names_of_node1() {
  printf '%s localhost\n127.0.1.1 node1\n' "$2" >names.h1
  printf '%s localhost\n%s node1\n' "$2" "$1" >names.h2
}

# with_names HOST COMMAND...: the command on the host, where /etc/hosts is the file names.HOST.
with_names() {
  names_host=$1
  shift
  # shellcheck disable=SC2016
  ip netns exec "$prefix$names_host" sh -c 'mount --bind "$1" /etc/hosts && shift && exec "$@"' - \
    "$dir/names.$names_host" "$@"
}

# at_node1 RANK ADDRESS VARIABLE=VALUE...: starts the rank of two of collbench on its host, h1 or
# h2, which meets the other one at the address. Its process is pidRANK; its output goes to out.RANK
# and err.RANK. Their secret is in the file auth.
at_node1() {
  node_rank=$1 node_address=$2
  shift 2
  with_names "h$((node_rank + 1))" env RANK="$node_rank" WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 \
    MASTER_ADDR="$node_address" MASTER_PORT=29555 COLL_AUTH_FILE=auth "$@" \
    "$collbench" barrier -n 1 >"out.$node_rank" 2>"err.$node_rank" </dev/null &
  eval "pid$node_rank=\$!"
}

# both_end: both ranks end well.
both_end() {
  wait "$pid0"
  code=$?
  wait "$pid1" && [ $code -eq 0 ]
}

# on_hosts HOSTS RANKS COMMAND...: RANKS ranks of the command on each of the first hosts, whose
# output goes to out.RANK and err.RANK. Their secret is in the file auth; with auth="" they have
# none. The exit code is the largest.
on_hosts() {
  on=$1 each=$2 worst=0 pids=
  shift 2
  hosts_secret
  rank=0
  while [ $rank -lt $((on * each)) ]; do
    ip netns exec "${prefix}h$((rank / each + 1))" env RANK=$rank WORLD_SIZE=$((on * each)) \
      MASTER_ADDR=10.77.0.1 MASTER_PORT=29555 \
      ${auth-COLL_AUTH_FILE=auth} "$@" >out.$rank 2>err.$rank </dev/null &
    pids="$pids $!"
    rank=$((rank + 1))
  done
  for pid in $pids; do
    wait "$pid"
    code=$?
    [ $code -le $worst ] || worst=$code
  done
  return $worst
}

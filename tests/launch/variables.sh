#!/bin/sh
# Ranks whose variables the user sets, as in pods of Kubernetes. Usage: variables.sh AGAIN. Prints
# TAP.
again=$(realpath "$1")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/../net/hosts.sh"
. "$(dirname "$0")/launchers.sh"
cd "$dir" || exit 1
export COLL_DEBUG=1
tap_ports 1

# ranks SIZE RANK...: starts these ranks, with their output in out and err; true if all end well.
ranks() {
  size=$1 worst=0 pids=
  shift
  rm -f out.* err.*
  for rank in "$@"; do
    COLL_RANK=$rank COLL_SIZE=$size COLL_ADDRESS=${address-127.0.0.1:$port} timeout 100 "$again" \
      >out.$rank 2>err.$rank </dev/null &
    pids="$pids $!"
  done
  for pid in $pids; do wait "$pid" || worst=1; done
  cat out.* >out
  cat err.* >err
  return $worst
}

ranks 3 0 1 2 && made 3 COLL_RANK
ok "three ranks of one host"

! ranks 3 0 1 1 && grep -q 'two processes .*rank 1\|rank 1 .*two\|both .*rank 1' err
ok "two ranks of one number"

# The clock is that of rank 0, which starts after the other one.
! COLL_TIMEOUT_MS=10000 ranks 3 2 0 && grep -q 'missing: 1)' err
ok "a rank that does not come"

! COLL_TIMEOUT_MS=700 ranks 3 1 &&
  grep -q "no rendezvous server answers at 127.0.0.1 port $port" err
ok "rank 0 does not come"

! address=no-port ranks 2 0 && grep -q 'COLL_ADDRESS=no-port: give HOST:PORT' err
ok "an address that is wrong"

if why=$(hosts_may); then
  hosts_make 2
  (umask 077; head -c 32 /dev/urandom | base64 >auth)
  for host in 1 2; do
    COLL_RANK=$((host - 1)) COLL_SIZE=2 COLL_ADDRESS=10.77.0.1:5151 COLL_AUTH_FILE=auth \
      on h$host timeout 100 "$again" >out.$host 2>err.$host </dev/null &
  done
  wait
  cat out.1 >out
  cat err.1 err.2 >err
  made 2 COLL_RANK && grep -q 'sends to its peers over tcp' err
  ok "two hosts"
else
  tap_skip "two hosts" "$why"
fi

tap_end

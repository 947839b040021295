#!/bin/sh
# Ranks started by torchrun, which meet through its store. TORCHRUN may name the program.
# Usage: torchrun.sh AGAIN. Prints TAP.
again=$(realpath "$1")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/../net/hosts.sh"
. "$(dirname "$0")/launchers.sh"
torchrun=${TORCHRUN-torchrun}
tap_need "$torchrun" python3-torch
cd "$dir" || exit 1
export COLL_DEBUG=1
python=$(sed -n '1s/^#! *//p' "$(command -v "$torchrun")")
version=$($python -c 'import torch; print(torch.__version__)' 2>/dev/null)
case $version in
  "") why="$torchrun does not run" ;;
  0.* | 1.* | 2.0.*) why="the store of PyTorch $version is not supported: 2.1 and later are" ;;
  *) why= ;;
esac
[ -z "$why" ] || tap_skip_all "$why"

launch "$torchrun" --nproc-per-node 3 --no-python "$again" && made 3 "torchrun's store"
ok "three ranks of one host"

launch "$torchrun" --standalone --nproc-per-node 3 --no-python "$again" &&
  made 3 "torchrun's store"
ok "three ranks, --standalone"

# shellcheck disable=SC2016
launch "$torchrun" --standalone --max-restarts 1 --nproc-per-node 2 --no-python sh -c '
  if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then
    "$@" || exit 2
    exit $((RANK == 1))
  fi
  exec "$@"' - "$again" && [ "$(grep -cx '2 ranks, 3 communicators' out)" = 2 ]
ok "an elastic restart"

! COLL_TIMEOUT_MS=700 launch "$torchrun" --standalone --nproc-per-node 2 --no-python sh -c \
  "$(missing RANK 0)" - "$again" &&
  grep -q 'rank 1: rank 0 is missing' err
ok "rank 0 does not come"

! COLL_TIMEOUT_MS=20000 launch "$torchrun" --standalone --nproc-per-node 3 --no-python sh -c \
  "$(missing RANK 1)" - "$again" && grep -q 'missing: 1)' err
ok "another rank does not come"

if why=$(hosts_may); then
  hosts_make 2
  for host in 1 2; do
    on h$host timeout 100 "$torchrun" --nnodes 2 --node-rank $((host - 1)) --nproc-per-node 2 \
      --master-addr 10.77.0.1 --master-port 29511 --no-python "$again" >out.$host 2>err.$host \
      </dev/null &
  done
  wait
  cat out.1 >out
  cat err.1 err.2 >err
  made 4 "torchrun's store" && grep -q 'meet at 10.77.0.1' err &&
    grep -q 'groups of the 4 ranks: 2 of host' err
  ok "two hosts"
else
  tap_skip "two hosts" "$why"
fi

tap_end

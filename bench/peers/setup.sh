#!/usr/bin/env bash
# setup.sh [--optional] [--python PYTHON] BUILD PEER...: installs the libraries of the named peers
# into BUILD/peers (install.sh), then builds collbench, collrun, limit and the programs of the peers
# in the build folder.
#   --optional: a peer that cannot be installed is left out, with a message
#   --python: an interpreter that has PyTorch, for gloo
set -euo pipefail

program=bench/compare
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tools/setup.sh"
needs+=("python3-venv python:ensurepip")

optional='' python=''
while [ $# -gt 0 ]; do
  case $1 in
    --optional) optional=yes ;;
    --python) python=$2 && shift ;;
    *) break ;;
  esac
  shift
done
build=$1
shift

configure_tree "$build"
targets=(bench/collbench bench/limit bench/limit_net tools/collrun)
for peer in "$@"; do
  if reason=$(bash "$root/bench/peers/install.sh" "$build/peers" "$peer" "$python"); then
    [ "$peer" = gloo ] && targets+=(bench/libpeers_measure.so) || targets+=("bench/peer-$peer")
  else
    [ -n "$optional" ] || fail "cannot install $peer: $reason"
    echo "$program: $peer is left out, because it cannot be installed: $reason" >&2
  fi
done

# A build folder that was configured before the peers were installed has no targets for them.
if ! ninja -C "$build" -n "${targets[@]}" > /dev/null 2>&1; then
  meson setup --reconfigure "$build" "$root" > "$build/reconfigure.log" 2>&1 ||
    fail "meson cannot configure the peers; see $build/reconfigure.log"
fi
ninja -C "$build" --quiet "${targets[@]}" || fail "the build failed; its messages are above"

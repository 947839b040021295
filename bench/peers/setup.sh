#!/usr/bin/env bash
# setup.sh BUILD PEER...: installs the packages of the named peers that are missing (as root or with
# sudo), then builds collbench, collrun, limit and the programs of the peers in the build folder.
set -euo pipefail

program=bench/compare
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tools/setup.sh"

build=$1
shift
targets=(bench/collbench bench/limit tools/collrun)
for peer in "$@"; do
  case $peer in
    openmpi)
      needs+=("openmpi-bin command:mpirun.openmpi" "libopenmpi-dev module:ompi-c") ;;
    mpich) needs+=("mpich command:mpirun.mpich" "libmpich-dev module:mpich") ;;
    gloo) needs+=("g++ command:g++" "libgloo-dev header:gloo/config.h") ;;
    *) fail "unknown peer '$peer'; the peers are openmpi, mpich and gloo" ;;
  esac
  targets+=("bench/peer-$peer")
done

configure_tree "$build"
# A build folder that was configured before the peers were installed has no targets for them.
if ! ninja -C "$build" -n "${targets[@]}" > /dev/null 2>&1; then
  meson setup --reconfigure "$build" "$root" > "$build/reconfigure.log" 2>&1 ||
    fail "meson cannot configure the peers; see $build/reconfigure.log"
fi
ninja -C "$build" --quiet "${targets[@]}" || fail "the build failed; its messages are above"

#!/usr/bin/env bash
# setup.sh BUILD PEER...: installs the named peers' packages where they are missing (as root or with
# sudo), then builds collbench, collrun, limit and the peers' programs in the build folder.
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
    *) fail "there is no peer '$peer'; there are openmpi, mpich and gloo" ;;
  esac
  targets+=("bench/peer-$peer")
done

configure_tree "$build"
# A build folder that was configured before the peers were installed knows nothing of them.
if ! ninja -C "$build" -n "${targets[@]}" > /dev/null 2>&1; then
  meson setup --reconfigure "$build" "$root" > "$build/reconfigure.log" 2>&1 ||
    fail "meson cannot configure the peers; see $build/reconfigure.log"
fi
ninja -C "$build" --quiet "${targets[@]}" || fail "the build failed; its messages are above"

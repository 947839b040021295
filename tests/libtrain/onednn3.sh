#!/bin/sh
# Builds the tests of the operators with oneDNN 3, whose C interface differs from version 2, and
# runs them. The library comes from the Python packages that contain it; without pip or a network
# the test is skipped, and unless all cases are run (COLL_TEST_FULL).
# Usage: onednn3.sh SOURCE. Prints TAP.
source=$1
. "$source/tests/harness/tap.sh"
version=2023.2.0

fetch() {
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$dir/packages" onednn-cpu-gomp==$version onednn-devel-cpu-gomp==$version &&
    for package in "$dir"/packages/*.whl; do
      python3 -m zipfile -e "$package" "$dir/files" || return 1
    done
}

[ -n "${COLL_TEST_FULL-}" ] || tap_skip_all "only in full runs"
if [ "$(uname -m)" != x86_64 ] || ! fetch >"$dir/out" 2>&1; then
  tap_skip_all "the packages of oneDNN 3 cannot be downloaded"
fi

library=$(dirname "$(find "$dir/files" -name libdnnl.so.3 | head -n 1)")
header=$(find "$dir/files" -path '*/oneapi/dnnl/dnnl.h' | head -n 1)
CPATH=${header%/oneapi/dnnl/dnnl.h}
export CPATH LIBRARY_PATH="$library" LD_LIBRARY_PATH="$library"
meson setup "$dir/build" "$source" -Dbuildtype=release -Ddnnl=enabled >"$dir/out" 2>&1 &&
  ninja -C "$dir/build" tests/libtrain/test_ops >>"$dir/out" 2>&1 &&
  ldd "$dir/build/tests/libtrain/test_ops" | grep -q 'libdnnl.so.3'
ok "the operators build with oneDNN 3"
unset COLL_TEST_FULL # the interface differs, not what is computed
LIBTRAIN_GEMM=onednn "$dir/build/tests/libtrain/test_ops" >>"$dir/out" 2>&1
ok "the operators pass their tests with oneDNN 3"
tap_end

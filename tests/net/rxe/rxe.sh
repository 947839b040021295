#!/bin/sh
# RDMA for real, in a virtual machine with two devices of soft-RoCE (guest.sh): the conformance kit
# and collbench over them (inside.sh). Only when all cases are run (COLL_TEST_FULL).
# Usage: rxe.sh TEST_VERBS COLLBENCH COLLRUN. Prints TAP.
here=$(realpath "$(dirname "$0")")
. "$here/../../harness/tap.sh"
[ -n "${COLL_TEST_FULL-}" ] || tap_skip_all "boots a virtual machine; COLL_TEST_FULL=1 runs it"
. "$here/guest.sh"
why=$(guest_may) || tap_skip_all "$why"
echo "exec sh '$here/inside.sh' '$(realpath "$1")' '$(realpath "$2")' '$(realpath "$3")'" \
  >"$dir/run"

guest_run /out/run "$dir" "${COLL_RXE_SECONDS:-290}"
code=$?
grep -E '^(ok|not ok|#|1\.\.)' "$dir/out"
if [ $code -ne 0 ] || ! grep -q '^1\.\.' "$dir/out"; then
  echo "Bail out! the guest ended with $code: $(tail -n 2 "$dir/err" "$dir/console" | tr '\n' ' ')"
  exit 1
fi

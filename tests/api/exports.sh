#!/bin/sh
# The symbols that libcoll.so exports, and their version, are those of a list: a function that is
# added or removed changes it too. Usage: exports.sh LIBRARY LIST. Speaks TAP.
library=$(realpath "$1")
list=$(realpath "$2")
. "$(dirname "$0")/../harness/tap.sh"
cd "$dir" || exit 1

nm -D --defined-only "$library" | awk '$2 == "T" {print $3}' | LC_ALL=C sort >out 2>err
sed 's/$/@@COLL_0/' "$list" >listed
diff listed out >err
ok "exports what tests/api/exports.txt lists, in version COLL_0"

tap_end

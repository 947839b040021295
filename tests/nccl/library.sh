#!/bin/sh
# The library from outside: what it exports, and that programs get it in every way that they get
# NCCL's. Usage: library.sh LIBRARY SYMBOLS PROGRAM. Speaks TAP.
library=$(realpath "$1")
symbols=$(realpath "$2")
program=$(realpath "$3")
folder=$(realpath "$(dirname "$0")")
. "$folder/../harness/tap.sh"
cd "$dir" || exit 1

LC_ALL=C sort "$symbols" >expected
nm -D --defined-only -P "$library" | cut -d ' ' -f 1 | LC_ALL=C sort >found
diff expected found >out 2>err
ok "exports the names of NCCL 2.28.9, 2.30.7 and 2.32.3, and nothing else"

nm -D --defined-only -P "$library" | grep '^nccl' | grep -v ' W ' >out 2>err
[ ! -s out ]
ok "nccl* are weak, so that a profiler may define them"

readelf -d "$library" >out 2>err && grep -q 'SONAME.*\[libnccl.so.2\]' out
ok "its name is libnccl.so.2"

LD_PRELOAD=$library NCCL_DEBUG=INFO NCCL_UNHEARD_OF=1 "$program" 2>err >out &&
  grep -q '^version 22809$' out && grep -q '^sum 10 10 10 10$' out
ok "preloaded, a program that looks up its functions"

grep -q 'NCCL 2.28.9 (libcoll' err && [ "$(grep -c NCCL_UNHEARD_OF err)" = 1 ]
ok "NCCL_DEBUG=INFO shows the version, and once what is ignored"

mkdir libs && ln -s "$library" libs/libnccl.so.2
LD_LIBRARY_PATH=$dir/libs "$program" libnccl.so.2 2>err >out && grep -q '^sum 10 10 10 10$' out
ok "loaded by name from LD_LIBRARY_PATH"

if command -v python3 >/dev/null; then
  python3 "$folder/load.py" "$library" >out 2>err
  ok "loaded by Python's ctypes"
  python3 "$folder/users.py" --check "$library" >out 2>err
  ok "has what PyTorch, CuPy, vLLM and nccl4py look up"
  sed 's/^/# /' out
else
  tap_skip "loaded by Python's ctypes" "there is no python3"
  tap_skip "has what PyTorch, CuPy, vLLM and nccl4py look up" "there is no python3"
fi

tap_end

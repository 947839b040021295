#!/bin/sh
# Tensors of CUDA over backend coll, on virtual GPUs.
# Usage: gpu.sh PYTHON PACKAGE LIBRARY..., where PACKAGE is the folder that has coll_torch, and the
# libraries stand in for CUDA's. Prints TAP.
python=$1
package=$(realpath "$2")
shift 2
here=$(realpath "$(dirname "$0")")
. "$here/../../harness/tap.sh"
preload=
for library; do preload=$preload${preload:+:}$(realpath "$library"); done
export PYTHONPATH="$package" OMP_NUM_THREADS=1 TORCH_DEVICE_BACKEND_AUTOLOAD=0
export PYTHONDONTWRITEBYTECODE=1 MASTER_ADDR=127.0.0.1

"$python" -c 'import torch; v = torch.__version__.split(".")[:2]
raise SystemExit(torch.version.cuda is None or [int(p) for p in v] < [2, 10])' ||
  tap_skip_all "$python has no PyTorch 2.10 or later with CUDA"
cd "$dir" || exit 1

# ranks SIZE PART...: parts of gpu.py; rank R writes out.R.
ranks() {
  export WORLD_SIZE="$1"
  shift
  MASTER_PORT=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
  export MASTER_PORT
  rm -f out* err*
  started=
  for rank in $(seq 0 $((WORLD_SIZE - 1))); do
    RANK=$rank LD_PRELOAD=$preload timeout 100 "$python" "$here/gpu.py" "$@" >"out.$rank" \
      2>"err.$rank" &
    started="$started $!"
  done
  failed=0
  for pid in $started; do wait "$pid" || failed=$((failed + 1)); done
  cat out.* >out
  grep -v '^libcuda stand-in' err.* >err
}

# Importing PyTorch takes longest.
parts="reductions movements order messages host_too refusals new_group dropped"
for size in 2 4; do
  # shellcheck disable=SC2086
  ranks $size $parts
  for part in $parts; do
    [ "$(grep -cx "ok $part" out)" = $size ]
    ok "$part on $size ranks"
  done
done
ranks 3 killed
[ $failed = 1 ] && [ "$(grep -c '^lost after .*rank 1' out)" = 2 ]
ok "a rank is killed: the others name it"
figure_of_death
tap_end

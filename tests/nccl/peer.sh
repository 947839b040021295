#!/bin/sh
# bench/peer-nccl, with our library in the place of NVIDIA's, on the stand-in's GPUs: ranks as
# threads and as processes. Usage: peer.sh PROGRAM LIBRARY FOLDER-OF-THE-DRIVER KERNEL. Speaks TAP.
program=$(realpath "$1")
library=$(realpath "$2")
driver=$(realpath "$3")
kernel=$(realpath "$4")
. "$(realpath "$(dirname "$0")")/../harness/tap.sh"
cd "$dir" || exit 1
export LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" COLL_STANDIN_GPUS=2
rows='-b 8 -e 32K -f 64 -w 1 -n 2'

# run ARGUMENTS: the program, with the kernel for the stand-in.
run() { LD_PRELOAD=$kernel timeout 60 "$program" "$library" "$@"; }

# right FILE: the program has named our library and measured rows, and no element is wrong.
right() {
  head -n 1 "$1" | grep -q '"NCCL 2.28.9, Virtual GPU 0"' && grep -q '"batch_us"' "$1" &&
    ! grep '"batch_us"' "$1" | grep -v '"wrong":0.0,'
}

for collective in allreduce reduce reduce_scatter allgather broadcast alltoall sendrecv; do
  run threads 2 "$collective" $rows >out 2>err && right out
  ok "$collective, two threads on two GPUs"
done
CUDA_VISIBLE_DEVICES=0 run threads 3 allreduce $rows >out 2>err && right out
ok "allreduce, three threads on a GPU"

run 1 2 id allreduce $rows >other 2>err &
other=$!
run 0 2 id allreduce $rows >out 2>>err && wait "$other" && right out
ok "allreduce, two processes"

run threads 2 allreduce --nothing >out 2>err
[ $? -ne 0 ] && grep -q nothing err
ok "refuses what it does not know"

tap_end

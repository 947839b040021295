#!/bin/sh
# The front end for PyTorch on two hosts, which are network namespaces, under torchrun.
# Usage: hosts.sh PYTHON PACKAGE, where PACKAGE is the folder that has coll_torch. Prints TAP.
python=$1
package=$(realpath "$2")
here=$(realpath "$(dirname "$0")")
. "$here/../../harness/tap.sh"
. "$here/../../net/hosts.sh"
export PYTHONPATH="$package:$here" OMP_NUM_THREADS=1 TORCH_DEVICE_BACKEND_AUTOLOAD=0
export PYTHONDONTWRITEBYTECODE=1

"$python" -c 'import torch; raise SystemExit(int(torch.__version__.split(".")[0]) < 2)' ||
  tap_skip_all "torchrun of $python's PyTorch does not run, as that of 1.13 under Python 3.11"
hosts_begin 2

# ranks PER_HOST PROGRAM: succeeds if all ranks do.
ranks() {
  started=
  for host in 1 2; do
    on h$host timeout 120 "$python" -m torch.distributed.run --redirects=9:3 --tee=9:3 --nnodes 2 \
      --node_rank $((host - 1)) --nproc_per_node "$1" --master_addr 10.77.0.1 \
      --master_port 29513 "$2" >out.$host 2>err.$host </dev/null &
    started="$started $!"
  done
  failed=0
  for pid in $started; do wait "$pid" || failed=1; done
  cat out.* >out
  cat err.* >err
  return $failed
}

ranks 1 "$here/collectives.py"
ok "collectives of a rank on each of two hosts"
ranks 2 "$here/messages.py"
ok "sends and receives of two ranks on each of two hosts"
tap_end

#!/bin/sh
# The package coll under each launcher that is here: a rank is killed, and the others name it.
# TORCHRUN may name the program of PyTorch. Prints TAP.
# Usage: launchers.sh PYTHON PACKAGE FOLDER_OF_COLLRUN
python=$1
package=$(realpath "$2")
tools=$(realpath "$3")
here=$(realpath "$(dirname "$0")")
. "$here/../../harness/tap.sh"
. "$here/../../launch/slurm_start.sh"
export PYTHONPATH="$package" PYTHONDONTWRITEBYTECODE=1 COLL_TUNE=builtin
unset PYTHONUNBUFFERED # would divide lines, which ranks may mix
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
program=$here/ranks/killed.py
torchrun=${TORCHRUN-torchrun}
cd "$dir" || exit 1

# kills COMMAND...: whether the three other ranks say that rank 1 died. The command may fail, as a
# rank of it did.
kills() {
  timeout 60 "$@" >out 2>err </dev/null
  [ ! -f said ] || cat said >out
  figure_of_death
  [ "$(grep -c '^lost after .* s: .*rank 1 .*died' out)" = 3 ] &&
    [ "$(grep -c '^checked' out)" = 3 ]
}

kills "$tools/collrun" -n 4 "$python" "$program" call
ok "collrun"
PATH=$tools:$PATH kills "$python" -m coll.run -n 4 "$program" call
ok "python -m coll.run"

# mpirun ends the other ranks when it sees that one has died, unless it is told not to.
if command -v mpirun.openmpi >/dev/null; then
  kills mpirun.openmpi --oversubscribe --mca orte_enable_recovery 1 -n 4 "$python" "$program" call
  ok "Open MPI's mpirun"
else
  tap_skip "Open MPI's mpirun" "there is no mpirun.openmpi (Debian: openmpi-bin)"
fi

# Hydra ends the processes that it started in any case. Here these are shells, whose programs
# survive.
if command -v mpiexec.hydra >/dev/null; then
  printf '#!/bin/sh\nexec setsid -f "$@" >>said\n' >survives
  chmod +x survives
  kills mpiexec.hydra -n 4 ./survives "$python" "$program" call
  ok "MPICH's mpiexec"
  rm -f said
else
  tap_skip "MPICH's mpiexec" "there is no mpiexec.hydra (Debian: mpich)"
fi

# The agent looks after its ranks only after eight seconds, when they have said it.
if "$torchrun" --standalone --nproc_per_node 1 --no_python true >/dev/null 2>&1; then
  kills "$torchrun" --standalone --monitor_interval 8 --nproc_per_node 4 --no_python "$python" \
    "$program" call
  ok "torchrun"
else
  why="$torchrun does not run, as that of PyTorch 1.13 with Python 3.11"
  command -v "$torchrun" >/dev/null || why="there is no $torchrun (PyPI: torch)"
  tap_skip "torchrun" "$why"
fi

if slurm_start; then
  kills srun -N1 -n4 "$python" "$program" call
  ok "srun, variables alone"
  kills srun --mpi=pmi2 -N1 -n4 "$python" "$program" call
  ok "srun, PMI"
else
  tap_skip "srun" "$why"
fi

tap_end

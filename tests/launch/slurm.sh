#!/bin/sh
# Ranks started by srun. Usage: slurm.sh AGAIN. Prints TAP.
again=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
. "$here/../harness/tap.sh"
. "$here/../net/hosts.sh"
. "$here/launchers.sh"
. "$here/slurm_start.sh"
cd "$dir" || exit 1
export COLL_DEBUG=1
slurm_start || tap_skip_all "$why"

# Two nodes of one machine are two hosts to the library if their ids differ.
# shellcheck disable=SC2016
two_nodes='COLL_HOST_ID=$SLURM_NODEID exec "$@"'

launch srun -N1 -n3 "$again" && made 3 SLURM_PROCID
ok "variables alone, one node"

launch sbatch --wait -N1 -n3 -o "$dir/batch" --wrap "$again" &&
  grep -qx '1 ranks, 3 communicators' batch
ok "a batch script is one rank"

launch srun --mpi=pmi2 -N1 -n3 "$again" && made 3 "the launcher's PMI"
ok "PMI, one node"

launch srun --mpi=pmi2 -N2 -n4 sh -c "$two_nodes" - "$again" && made 4 "the launcher's PMI" &&
  grep -q 'groups of the 4 ranks' err
ok "PMI, two nodes"

! launch srun -N2 -n4 sh -c "$two_nodes" - "$again" && grep -q 'the ranks meet at n1, which' err
ok "variables alone: the first node is where rank 0 is looked for"

MASTER_ADDR=127.0.0.1 launch srun -N2 -n4 sh -c "$two_nodes" - "$again" && made 4 SLURM_PROCID
ok "variables alone, two nodes, MASTER_ADDR"

outer=$(hostname -I | cut -d ' ' -f 1)
if [ -n "$outer" ]; then
  ! MASTER_ADDR=$outer launch srun -N2 -n2 sh -c "$two_nodes" - "$again" &&
    grep -q "$outer, which other hosts reach, but have no secret" err
  ok "variables alone, two nodes, without a secret"
else
  tap_skip "variables alone, two nodes, without a secret" "this host has no address"
fi

! COLL_TIMEOUT_MS=700 launch srun --mpi=pmi2 -N2 -n3 sh -c "$(missing SLURM_PROCID 1)" - "$again" &&
  grep -q 'rank [02]: not all of the 3 ranks have called coll_comm_create_env' err
ok "PMI, a rank that does not come"

why=
srun --mpi=list 2>&1 | grep -q pmix || why='this Slurm has no plugin for PMIx'
[ -n "$why" ] || ! grep -q 'can not load PMIx library' n1.out ||
  why='Slurm finds no libpmix.so (Debian: libpmix-dev)'
if [ -z "$why" ]; then
  launch srun --mpi=pmix -N2 -n4 sh -c "$two_nodes" - "$again" && made 4 PMIx
  ok "PMIx, two nodes"
else
  tap_skip "PMIx, two nodes" "$why"
fi

tap_end

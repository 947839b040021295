#!/bin/sh
# Ranks started by srun, with a controller and two nodes of Slurm that this test starts on the
# loopback interface. Usage: slurm.sh AGAIN. Prints TAP.
again=$(realpath "$1")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/../net/hosts.sh"
. "$(dirname "$0")/launchers.sh"
PATH=$PATH:/usr/sbin:/sbin
need srun slurm-client
need slurmctld slurmctld
need slurmd slurmd
cd "$dir" || exit 1
export COLL_DEBUG=1 SLURM_CONF="$dir/slurm.conf"

host=$(hostname -s)
user=$(id -un)
plugins=$(dirname "$(find /usr/lib -name mpi_pmi2.so -path '*slurm*' | head -n 1)")
# Three ports that were free a moment ago.
ports=$(python3 -c 'import socket
all = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*[each.getsockname()[1] for each in all])')
# shellcheck disable=SC2086
set -- $ports
mkdir state tmp.n1 tmp.n2
cat >slurm.conf <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$1
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/none
CredType=cred/none
PluginDir=$plugins
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
CommunicationParameters=NoCtldInAddrAny
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/ctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/ctld.log
SlurmdLogFile=$dir/slurmd.%n.log
TmpFS=$dir/tmp.%n
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$2 CPUs=8
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$3 CPUs=8
PartitionName=p Nodes=n1,n2 Default=YES OverSubscribe=FORCE
END

daemons=
stop() {
  scancel --user="$user" 2>/dev/null
  # shellcheck disable=SC2086
  kill $daemons 2>/dev/null
  # shellcheck disable=SC2086
  wait $daemons 2>/dev/null
  rm -rf "$dir"
}
trap stop EXIT
slurmctld -D >ctld.out 2>&1 &
daemons=$!
for node in n1 n2; do
  slurmd -D -N $node >$node.out 2>&1 &
  daemons="$daemons $!"
done

nodes_are_idle() { [ "$(sinfo -h -o %D -t idle 2>/dev/null)" = 2 ]; }
tries=0
until nodes_are_idle; do
  tries=$((tries + 1))
  if [ $tries -gt 100 ]; then
    echo "1..0 # SKIP Slurm does not start here: $(grep -h -E 'error|fatal' ctld.out | tail -n 1)"
    exit 0
  fi
  sleep 0.2
done

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

! launch srun -N2 -n4 sh -c "$two_nodes" - "$again" && grep -q "host 'n1'" err
ok "variables alone: the first node is where rank 0 is looked for"

MASTER_ADDR=127.0.0.1 launch srun -N2 -n4 sh -c "$two_nodes" - "$again" && made 4 SLURM_PROCID
ok "variables alone, two nodes, MASTER_ADDR"

outer=$(hostname -I | cut -d ' ' -f 1)
if [ -n "$outer" ]; then
  ! MASTER_ADDR=$outer launch srun -N2 -n2 sh -c "$two_nodes" - "$again" &&
    grep -q "$outer, which other hosts reach, but have no secret" err
  ok "variables alone, two nodes, without a secret"
else
  ok "variables alone, two nodes, without a secret # SKIP this host has no address"
fi

# shellcheck disable=SC2016
! COLL_TIMEOUT_MS=700 launch srun --mpi=pmi2 -N2 -n3 sh -c \
  '[ $SLURM_PROCID != 1 ] || exec sleep 3; exec "$@"' - "$again" &&
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
  ok "PMIx, two nodes # SKIP $why"
fi

tap_end

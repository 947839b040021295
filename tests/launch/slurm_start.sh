# Slurm on one machine, for tests that start ranks by srun. Sourced, in the folder $dir of tap.sh.

# slurm_start: starts a controller and the nodes n1 and n2 on the loopback interface, which are
# stopped when the test ends. Where Slurm is not installed or does not start, returns 1 and sets
# why.
slurm_start() {
  PATH=$PATH:/usr/sbin:/sbin
  for slurm_program in srun slurmctld slurmd; do
    why="there is no $slurm_program (Debian: slurm-client, slurmctld, slurmd)"
    command -v $slurm_program >/dev/null || return 1
  done
  mkdir state tmp.n1 tmp.n2
  slurm_configure
  slurm_daemons=
  tap_finally slurm_stop
  slurmctld -D >ctld.out 2>&1 &
  slurm_daemons=$!
  for slurm_node in n1 n2; do
    slurmd -D -N $slurm_node >$slurm_node.out 2>&1 &
    slurm_daemons="$slurm_daemons $!"
  done
  why=
  eventually slurm_settled
  [ -z "$why" ]
}

# Whether both nodes are idle, or why says with which error a daemon has ended. (Slow ones are
# waited for, and what is asked of them fails.)
slurm_settled() {
  for slurm_daemon in $slurm_daemons; do
    has_ended "$slurm_daemon" || continue
    slurm_error=$(cat ctld.out n1.out n2.out | grep -E 'error|fatal' | tail -n 1)
    why="Slurm does not start here: $slurm_error"
    return
  done
  [ "$(sinfo -h -o %D -t idle 2>/dev/null)" = 2 ]
}

slurm_configure() {
  export SLURM_CONF="$dir/slurm.conf"
  slurm_host=$(hostname -s)
  slurm_user=$(id -un)
  tap_ports 3
  cat >slurm.conf <<END
ClusterName=test
SlurmctldHost=$slurm_host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$slurm_user
SlurmdUser=$slurm_user
AuthType=auth/none
CredType=cred/none
PluginDir=$(dirname "$(find /usr/lib -name mpi_pmi2.so -path '*slurm*' | head -n 1)")
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
NodeName=n1 NodeHostname=$slurm_host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=8
NodeName=n2 NodeHostname=$slurm_host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=8
PartitionName=p Nodes=n1,n2 Default=YES OverSubscribe=FORCE
END
}

slurm_stop() {
  scancel --user="$slurm_user" 2>/dev/null
  # shellcheck disable=SC2086
  kill $slurm_daemons 2>/dev/null
  # shellcheck disable=SC2086
  wait $slurm_daemons 2>/dev/null
}

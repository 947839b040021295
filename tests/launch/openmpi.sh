#!/bin/sh
# Ranks started by Open MPI's mpirun, which speaks PMIx. Usage: openmpi.sh AGAIN. Prints TAP.
again=$(realpath "$1")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/../net/hosts.sh"
. "$(dirname "$0")/launchers.sh"
tap_need mpirun.openmpi openmpi-bin
cd "$dir" || exit 1
export COLL_DEBUG=1

mpirun='mpirun.openmpi --allow-run-as-root --oversubscribe'

launch $mpirun -n 3 "$again" && made 3 PMIx
ok "three ranks of one host"

launch $mpirun -n 1 "$again" : -n 2 "$again" && made 3 PMIx
ok "two programs"

COLL_LAUNCHER=variables launch $mpirun -n 3 "$again" && made 3 OMPI_COMM_WORLD_RANK
ok "without the launcher's key-value space"

! COLL_TIMEOUT_MS=700 launch $mpirun -n 3 sh -c "$(missing OMPI_COMM_WORLD_RANK 1)" - "$again" &&
  grep -q 'rank [02]: not all of the 3 ranks have called coll_comm_create_env' err
ok "a rank that does not come"

printf broken >libpmix.so.2
# shellcheck disable=SC2016
launch $mpirun -n 3 env LD_LIBRARY_PATH="$dir" "$again" && made 3 OMPI_COMM_WORLD_RANK
ok "three ranks where libpmix cannot be loaded"

if why=$(hosts_may); then
  hosts_make 2
  write_agent
  launch_on h1 $mpirun --mca plm_rsh_agent "$dir/agent" --mca oob_tcp_if_include eth0 \
    -x COLL_TUNE -x COLL_DEBUG -H h1:2,h2:2 "$again" && made 4 PMIx &&
    grep -q 'meet at 10.77.0.1' err && grep -q 'groups of the 4 ranks: 2 of host' err
  ok "two hosts"
  ! launch_on h1 $mpirun --mca plm_rsh_agent "$dir/agent" --mca oob_tcp_if_include eth0 \
    -x LD_LIBRARY_PATH="$dir" -H h1:1,h2:1 "$again" && grep -q 'install it .*libpmix2.*' err &&
    grep -q 'set MASTER_ADDR to an address' err
  ok "two hosts where libpmix cannot be loaded"
else
  tap_skip "two hosts" "$why"
  tap_skip "two hosts where libpmix cannot be loaded" "$why"
fi

tap_end

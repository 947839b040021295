#!/bin/sh
# Ranks started by Hydra, the launcher of MPICH and Intel MPI. Usage: hydra.sh AGAIN. Prints TAP.
again=$(realpath "$1")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/../net/hosts.sh"
. "$(dirname "$0")/launchers.sh"
tap_need mpiexec.hydra mpich
cd "$dir" || exit 1
export COLL_DEBUG=1

launch mpiexec.hydra -n 3 "$again" && made 3 "the launcher's PMI"
ok "three ranks of one host"

launch mpiexec.hydra -pmi-port -n 3 "$again" && made 3 "the launcher's PMI"
ok "three ranks that connect to the launcher themselves"

launch mpiexec.hydra -n 1 "$again" : -n 2 "$again" && made 3 "the launcher's PMI"
ok "two programs"

COLL_LAUNCHER=variables launch mpiexec.hydra -n 3 "$again" && made 3 PMI_RANK
ok "without the launcher's key-value space"

! COLL_TIMEOUT_MS=700 launch mpiexec.hydra -n 3 sh -c "$(missing PMI_RANK 1)" - "$again" &&
  grep -q 'rank [02]: not all of the 3 ranks have called coll_comm_create_env' err
ok "a rank that does not come"

# shellcheck disable=SC2016
! launch mpiexec.hydra -n 3 sh -c '[ $PMI_RANK = 0 ] && export COLL_INTERFACE_ADDRESS=192.0.2.777
  exec "$@"' - "$again" && grep -q "'192.0.2.777' is no name and no address" err &&
  grep -q 'rank [12]: rank 0 could not start the rendezvous server' err
ok "rank 0 cannot listen"

if why=$(hosts_may); then
  hosts_make 2
  write_agent
  launch_on h1 mpiexec.hydra -launcher ssh -launcher-exec "$dir/agent" -iface eth0 -genvall \
    -hosts h1:2,h2:2 -n 4 "$again" && made 4 "the launcher's PMI" &&
    grep -q 'meet at 10.77.0.1' err && grep -q 'groups of the 4 ranks: 2 of host' err
  ok "two hosts"
else
  tap_skip "two hosts" "$why"
fi

tap_end

#!/bin/sh
# The MPI layer with ranks on several hosts, which are network namespaces whose names are their
# addresses. Prints TAP.
# Usage: hosts.sh ompi|mpich|abi FOLDER_OF_LAYERS FOLDER_OF_PROGRAMS [PREFIX]
# PREFIX is the folder of an MPI with bin/mpiexec and lib, in place of Debian's.
. "$(dirname "$0")/under_mpi.sh"
. "$source/../../net/hosts.sh"
use_mpi "$1" "$2" "$3" "${4-}" "$source/verbs.c"
why=$(hosts_may) || tap_skip_all "$why"
hosts_make 2

# What the launchers have in place of ssh: enter [OPTIONS] ADDRESS COMMAND.
cat >enter <<END
#!/bin/sh
while :; do case \$1 in -*) shift ;; *) break ;; esac; done
address=\$1
shift
exec ip netns exec ${prefix}h\${address##*.} unshare --uts \
  sh -c "hostname \$address; cd $dir; \$*"
END
chmod +x enter
case $("$launcher" --version 2>&1) in
  *"Open MPI) 4"* | *OpenRTE*)
    options="--mca plm_rsh_agent $dir/enter --host 10.77.0.1:2,10.77.0.2:1"
    options="$options --mca btl tcp,self --mca pml ob1 --mca oob_tcp_if_include 10.77.0.0/16"
    options="$options --mca btl_tcp_if_include 10.77.0.0/16 --mca orte_keep_fqdn_hostnames 1"
    ;;
  *"Open MPI"*)
    options="--prtemca plm_ssh_agent $dir/enter --host 10.77.0.1:2,10.77.0.2:1"
    options="$options --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include 10.77.0.0/16"
    options="$options --prtemca prte_if_include 10.77.0.0/16 --prtemca prte_keep_fqdn_hostnames 1"
    ;;
  *)
    options="-launcher ssh -launcher-exec $dir/enter -hosts 10.77.0.1,10.77.0.2 -ppn 2"
    options="$options -iface eth0"
    export FI_PROVIDER=tcp FI_TCP_IFACE=eth0 UCX_TLS=tcp,self UCX_NET_DEVICES=eth0
    ;;
esac

# on_two_hosts COMMAND...: runs it with two ranks on one host and one on the other; output in out
# and err. The launcher is on the first host. The limit is for what hangs.
on_two_hosts() {
  # shellcheck disable=SC2086
  timeout "${limit_s:-300}" ./enter 10.77.0.1 "$layers/coll-mpi" --layer "$abi" "$launcher" \
    $options -n 3 "$@" >out 2>err </dev/null
}

export COLL_MPI_SERVE=always COLL_MPI_STATS=1
on_two_hosts "$programs/verbs-$abi" && grep -q ' 0 differ' out && ! grep -q 'left to the MPI' err
ok "every verb gives what the MPI gives on two hosts"
for verb in $verbs; do
  served "$verb"
  ok "MPI_$verb is served on two hosts"
done
tap_end

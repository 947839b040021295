# Four RDMA devices in software at the ends of two links: rxe0 at 10.9.0.1 and rxe1 at 10.9.0.2,
# rxe2 at 10.9.1.1 and rxe3 at 10.9.1.2.
# Sourced by sh, as root, in a machine of its own. Both ends are in the initial network namespace,
# in which alone the kernel's driver opens its sockets, so packets between addresses of one machine
# must be let through.
PATH=/usr/sbin:/usr/bin:/sbin:/bin

devices_make() {
  ip link set lo up
  ip link add v0 type veth peer name v1
  ip link add v2 type veth peer name v3
  sysctl -q -w net.ipv4.conf.all.rp_filter=0
  for i in 0 1 2 3; do
    sysctl -q -w net.ipv4.conf.v$i.accept_local=1 net.ipv4.conf.v$i.rp_filter=0
    ip addr add 10.9.$((i / 2)).$((i % 2 + 1))/24 dev v$i
    ip link set v$i mtu 9000 up
    rdma link add rxe$i type rxe netdev v$i || return 1
  done
}

# devices_count NAME [DEVICES]: of all devices, or of rxe[DEVICES], such as sent_pkts.
devices_count() {
  cat /sys/class/infiniband/rxe[${2-0-3}]/ports/1/hw_counters/"$1" |
    awk '{ n += $1 } END { print n }'
}

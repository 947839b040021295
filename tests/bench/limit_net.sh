#!/bin/sh
# Runs limit_net between ranks of this machine: every collective is right, variants are measured,
# and wrong settings are refused. Usage: limit_net.sh LIMIT_NET COLLRUN. Prints TAP.
limit_net=$(realpath "$1")
collrun=$(realpath "$2")
. "$(dirname "$0")/../harness/tap.sh"
cd "$dir" || exit 1
tap_ports 4 # rank r has the first one + r
export BENCH_PORT="$port"

# between RANKS ADDRESSES ARGUMENTS...
between() {
  ranks=$1
  export BENCH_ADDRESSES="$2"
  shift 2
  timeout 150 "$collrun" -n "$ranks" "$limit_net" "$@" >out 2>err </dev/null
}

# has EXPRESSION: true of `names`, the variants, and `rows`, the other lines.
has() {
  python3 -c "import json
lines = [json.loads(line) for line in open('out')]
names = [line['library'] for line in lines if 'library' in line]
rows = [line for line in lines if 'library' not in line]
raise SystemExit(not ($1))" 2>>err
}

all=allreduce,allgather,reduce_scatter,alltoall,sendrecv
# right VARIANTS HOSTS SIZES
right() {
  ranks=$(echo "$2" | tr , ' ' | wc -w)
  between "$ranks" "$2" $all --sizes "$3" -n 3 -w 1 -c 2 &&
    has "len(set(names)) == $1 and all(row['wrong'] == 0 for row in rows) and
      len({(row['collective'], row['bytes']) for row in rows}) >= 10"
  ok "every collective is right among $ranks hosts, with $1 variants"
}
right 21 127.0.0.1,127.0.0.2 48,100008,1M
right 10 127.0.0.1,127.0.0.2,127.0.0.3 48,100008
right 10 127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4 48,100008

between 2 127.0.0.1,127.0.0.2 sendrecv --sizes 16K,64K,256K,1M -n 3 -w 1 -c 0 &&
  has "[sum(row['bytes'] == size << 10 for row in rows) for size in (16, 64, 256, 1024)] ==
    [2, 8, 15, 21]"
ok "system calls of so many bytes are tried for larger calls only"

between 4 127.0.0.1,127.0.0.2 $all --sizes 48,1M -n 3 -w 1 -c 0 && has "len(rows) > 20"
ok "two ranks on each of two hosts"

export BENCH_VARIANTS="sendrecv/4194304/spin-2 allreduce/48/poll sendrecv/48/spin-16K"
between 2 127.0.0.1,127.0.0.2 $all --sizes 48,4M -n 3 -w 1 &&
  has "[(name, row['collective'], row['bytes']) for name, row in zip(names, rows)] ==
    [('sockets/poll', 'allreduce', 48), ('sockets/spin-16K', 'sendrecv', 48),
     ('sockets/spin-2', 'sendrecv', 4 << 20)]"
ok "chosen variants of chosen calls"
figure "$(python3 -c "import json
lines = [json.loads(line) for line in open('out')]
print(', '.join('%s of %d bytes %.3g us' % (row['collective'], row['bytes'], min(row['batch_us']))
                for row in lines if 'batch_us' in row))")"
for wrong in sendrecv/48/spin-16 sendrecv/48/; do
  export BENCH_VARIANTS="sendrecv/48/spin $wrong"
  ! between 2 127.0.0.1,127.0.0.2 $all --sizes 48 &&
    grep -q "BENCH_VARIANTS: '$wrong' does not end in a variant" err
  ok "a variant that is none: $wrong"
done
unset BENCH_VARIANTS

! between 3 127.0.0.1,127.0.0.2 $all --sizes 48 && grep -q '3 ranks cannot be divided' err
ok "ranks that cannot be divided among the hosts"
! between 2 127.0.0.1,localhost $all --sizes 48 && grep -q 'is not a list of at most 16' err
ok "an address that is none"
! between 2 127.0.0.1,127.0.0.2 $all && grep -q 'give --sizes LIST' err
ok "sizes are needed"

tap_end

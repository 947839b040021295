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
for hosts in 127.0.0.1,127.0.0.2 127.0.0.1,127.0.0.2,127.0.0.3 \
  127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4; do
  ranks=$(echo "$hosts" | tr , ' ' | wc -w)
  between "$ranks" "$hosts" $all --sizes 48,100008,1M -n 3 -w 1 -c 2 &&
    has "len(names) == 6 and all(row['wrong'] == 0 for row in rows) and
      len({(row['collective'], row['bytes']) for row in rows}) >= 15"
  ok "every collective is right among $ranks hosts, with every variant"
done

between 4 127.0.0.1,127.0.0.2 $all --sizes 48,1M -n 3 -w 1 -c 0 && has "len(rows) > 20"
ok "two ranks on each of two hosts"

export BENCH_VARIANTS=1
between 2 127.0.0.1,127.0.0.2 $all --sizes 48,4M -n 3 -w 1 && has "len(names) == 1"
ok "one variant"
figure "$(python3 -c "import json
lines = [json.loads(line) for line in open('out')]
print(', '.join('%s of %d bytes %.3g us' % (row['collective'], row['bytes'], min(row['batch_us']))
                for row in lines if 'batch_us' in row))")"
unset BENCH_VARIANTS

! between 3 127.0.0.1,127.0.0.2 $all --sizes 48 && grep -q '3 ranks cannot be divided' err
ok "ranks that cannot be divided among the hosts"
! between 2 127.0.0.1,localhost $all --sizes 48 && grep -q 'is not a list of at most 16' err
ok "an address that is none"
! between 2 127.0.0.1,127.0.0.2 $all && grep -q 'give --sizes LIST' err
ok "sizes are needed"

tap_end

#!/bin/sh
# Trains the same model with four ranks of one host and with two hosts (network namespaces) of two
# ranks: the same bits with COLL_REPRODUCIBLE=1, the same loss within 1e-6 without.
# Usage: gpt_hosts.sh GPT COLLRUN. Prints TAP.
gpt=$(realpath "$1")
collrun=$(realpath "$2")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/hosts.sh"

hosts_begin 2
export LIBTRAIN_GEMM=plain

mkdir text
i=0
while [ $i -lt 30 ]; do
  seq $i 7 900 | sed 's/.*/static int value_& = &;/' >text/file$i.c
  i=$((i + 1))
done

# train NAME OPTIONS...: with ranks as the options of collrun say; writes NAME.ckpt and NAME.jsonl.
train() {
  name=$1
  shift
  timeout 300 "$collrun" "$@" "$gpt" train --data text --layers 2 --heads 2 --width 32 \
    --context 32 --batch 8 --threads 1 --zero 2 --steps 8 --bucket 4K \
    --log "$name.jsonl" --out "$name.ckpt" >out 2>err </dev/null
}

on_one_host() { train "$1" -n 4; }

on_two_hosts() { train "$1" --hosts h1:2,h2:2 --agent "ip netns exec $prefix{host}"; }

# losses NAME: of every step, with all digits.
losses() { sed -n 's/.*"step": *\([0-9]*\),.*"loss": *\([0-9.e+-]*\).*/\1 \2/p' "$1.jsonl"; }

# are_close NAME NAME TOLERANCE: the losses, of which there are some, differ by no more.
are_close() {
  losses "$1" >first
  losses "$2" >second
  paste -d ' ' first second | awk -v most="$3" '
    { d = $2 - $4; if (d < 0) d = -d; if (NF != 4 || $1 != $3 || d > most * $2) wrong = 1 }
    END { exit wrong || NR < 8 }'
}

COLL_REPRODUCIBLE=1 on_one_host one && COLL_REPRODUCIBLE=1 on_two_hosts two
ok "reproducible trainings on one host and on two"
are_close one two 0 && cmp one.ckpt two.ckpt >out
ok "every loss and the parameters are the same to the bit"

on_one_host one && COLL_DEBUG=1 on_two_hosts two &&
  grep -q 'groups of the 4 ranks: 2 of host' err && are_close one two 1e-6
ok "without, every loss is the same within 1e-6"

tap_end

#!/bin/sh
# What gpt promises, checked from outside under collrun: results that do not depend on the number
# of ranks, one clear line for each kind of bad input, and nothing half-written.
# Usage: gpt.sh PATH-TO-GPT PATH-TO-COLLRUN. Speaks TAP.
gpt=$1
collrun=$2
. "$(dirname "$0")/../harness/tap.sh"
cd "$dir" || exit 1

# gpt_on RANKS ARGUMENTS...: runs gpt on that many ranks; output lands in out and err.
gpt_on() {
  ranks=$1
  shift
  timeout 60 "$collrun" -n "$ranks" "$gpt" "$@" >out 2>err </dev/null
}

# refuses WORDS ARGUMENTS...: two ranks fail, with exactly one line of gpt's that has WORDS in it.
refuses() {
  words=$1
  shift
  ! gpt_on 2 "$@" && [ "$(grep -c '^gpt' err)" = 1 ] && grep '^gpt' err | grep -qF -- "$words"
}

# train RANKS ARGUMENTS...: a small training run.
train() {
  ranks=$1
  shift
  gpt_on "$ranks" train --data text --layers 1 --heads 2 --width 32 --context 32 --batch 8 \
    --threads 1 "$@"
}

held_out() { sed -n 's/^held-out loss \([0-9.]*\) nats.*/\1/p' out; }

mkdir text empty
i=0
while [ $i -lt 30 ]; do
  seq $i 7 900 | sed 's/.*/static int value_& = &;/' >text/file$i.c
  i=$((i + 1))
done

# ---- training

train 1 --steps 30 --out one.ckpt && one=$(held_out) && train 2 --steps 30 --out two.ckpt &&
  two=$(held_out) && train 4 --steps 30 --out four.ckpt && four=$(held_out) && [ -n "$one" ] &&
  awk "BEGIN { d = $one - $two; e = $one - $four; t = 1e-4 * $one
               exit !(d * d <= t * t && e * e <= t * t) }"
ok "1, 2 and 4 ranks come to the same held-out loss ($one $two $four)"

train 2 --steps 60 --out more.ckpt --resume two.ckpt && grep -q 'after step 60' out &&
  awk "BEGIN { exit !($(held_out) < $two) }"
ok "a resumed run goes on learning"

gpt_on 2 eval --checkpoint more.ckpt --data text && [ -n "$(held_out)" ]
ok "eval measures a checkpoint"

start=$(date +%s)
train 2 --seconds 2 --out timed.ckpt && [ $(($(date +%s) - start)) -le 12 ]
ok "--seconds ends the run"

train 2 --steps 4 --json run.json --out json.ckpt && grep -q '"ranks": 2' run.json &&
  grep -q '"nats_per_byte"' run.json
ok "--json keeps the record"

"$gpt" sample --checkpoint more.ckpt --prompt 'static ' --bytes 50 --seed 4 >sample1 2>err &&
  "$gpt" sample --checkpoint more.ckpt --prompt 'static ' --bytes 50 --seed 4 >sample2 2>err &&
  cmp sample1 sample2 && [ "$(head -c 7 sample1)" = 'static ' ] &&
  [ "$(wc -c <sample1)" = 58 ]
ok "a sample starts with its prompt and can be repeated"

# ---- bad input

refuses 'no text in it' train --data empty
ok "an empty folder"
refuses 'cannot read --data missing' train --data missing
ok "a missing folder"
refuses 'context 4000 is longer than the data' train --data text/file1.c --context 4000
ok "a context longer than the data"
refuses 'do not divide width' train --data text --heads 3 --width 32
ok "heads that do not divide the width"
refuses 'does not split evenly over 2 ranks' train --data text --batch 3
ok "a batch that the ranks cannot share"
refuses 'cannot write checkpoint nowhere/gpt.ckpt' train --data text --out nowhere/gpt.ckpt
ok "a checkpoint that cannot be written"
refuses 'cannot write --json nowhere/run.json' train --data text --json nowhere/run.json
ok "a record that cannot be written"
refuses 'did you mean --layers' train --layer 3
ok "an unknown option"

refuses 'cannot read checkpoint missing.ckpt' eval --checkpoint missing.ckpt --data text
ok "a missing checkpoint"
head -c 1000 one.ckpt >cut.ckpt
refuses 'cut short' eval --checkpoint cut.ckpt --data text
ok "a truncated checkpoint"
refuses 'is not a checkpoint' eval --checkpoint text/file1.c --data text
ok "a foreign file"

! "$gpt" tarin >out 2>err && grep -q "did you mean 'train'" err
ok "an unknown command"

[ -z "$(find . -name '*.part')" ] && [ ! -e gpt.ckpt ]
ok "nothing was left half-written"

# ---- a rank that dies

timeout 60 "$collrun" -n 2 sh -c 'echo $$ >pid$RANK; exec "$@"' sh "$gpt" train --data text \
  --seconds 30 --out dead.ckpt >out 2>err </dev/null &
job=$!
sleep 3
start=$(date +%s)
kill -9 "$(cat pid1)"
! wait $job && [ $(($(date +%s) - start)) -le 3 ] && ! kill -0 "$(cat pid0)" 2>/dev/null
ok "a killed rank ends the others"

tap_end

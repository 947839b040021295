#!/bin/sh
# Tests how gpt train, plan and schedule cut layers into the stages of a pipeline.
# Usage: gpt_partition.sh PATH-TO-GPT PATH-TO-COLLRUN. Prints TAP.
libtrain=$(cd "$(dirname "$0")" && pwd)
. "$libtrain/training.sh"

# train RANKS ARGUMENTS...: a small training run, with a record of each step in steps.jsonl.
train() {
  ranks=$1
  shift
  rm -f steps.jsonl
  gpt_on "$ranks" train --data text --layers 4 --heads 2 --width 32 --context 32 --batch 8 \
    --threads 1 --eval-tokens 1024 --evals 1 --steps 4 --accumulate 4 --lr 1e-3 \
    --log steps.jsonl "$@"
}

# same_steps: every loss in steps.jsonl is that in one.jsonl to 1e-5.
same_steps() {
  python3 - one.jsonl steps.jsonl 2>err <<'END'
import json, sys
one, steps = ([r["loss"] for r in map(json.loads, open(path)) if r["record"] == "step"]
              for path in sys.argv[1:])
assert len(one) == len(steps) > 0 and all(abs(a - b) <= 1e-5 * a for a, b in zip(one, steps))
END
}

# rejects WORDS ARGUMENTS...: succeeds if two ranks fail with exactly one line of gpt that contains
# WORDS.
rejects() {
  words=$1
  shift
  ! train 2 --out none.ckpt "$@" && refused "$words" && [ ! -e none.ckpt ]
}

# partition: the first one that the output names.
partition() { sed -n 's/.*--partition \([0-9*,]*\).*/\1/p' out | head -n 1; }

write_text

# ---- parity

train 1 --out one.ckpt && cp steps.jsonl one.jsonl &&
  train 2 --out two.ckpt --pp 2 --partition 3,1 && grep -q 'layers 3,1)' out && same_steps &&
  train 4 --out two.ckpt --tp 2 --sp --pp 2 --partition 1,3 && same_steps &&
  train 3 --out two.ckpt --pp 3 --partition 1,2,1 --schedule gpipe && same_steps
ok "an uneven partition gives the loss of one rank"

train 2 --out two.ckpt --pp 2 --partition 4,0 && same_steps &&
  train 2 --out two.ckpt --pp 2 --partition 0,4 --schedule zb-h1 && same_steps &&
  train 2 --out two.ckpt --pp 2 --partition 4,0 --schedule zb-h1 && same_steps &&
  train 3 --out two.ckpt --pp 3 --partition 0,4,0 --recompute block && same_steps &&
  train 2 --out two.ckpt --pp 2 --partition 0,2*2,0 --schedule interleaved --virtual-stages 2 &&
  same_steps && train 2 --out two.ckpt --pp 2 --partition 4,0 --schedule terapipe --slices 2 &&
  same_steps
ok "stages of the embedding or the head alone give the loss of one rank"

train 1 --out one.ckpt --untied && cp steps.jsonl one.jsonl &&
  train 3 --out two.ckpt --untied --pp 3 --partition 0,4,0 && same_steps
ok "so does an untied head on a stage of its own"

apart="--untied --clip-by stage --clip 1e6 --schedule pipedream-2bw --pp 2"
train 2 --out one.ckpt $apart && cp steps.jsonl one.jsonl &&
  train 2 --out two.ckpt $apart --partition 4,0 && same_steps &&
  train 4 --out two.ckpt $apart --partition 1,3 --dp 2 --accumulate 2 --zero 1 && same_steps
ok "stages that update at different times do not depend on the partition"

moe="--experts 4 --moe-every 2"
train 1 --out one.ckpt $moe && cp steps.jsonl one.jsonl &&
  train 2 --out two.ckpt $moe --pp 2 --partition 1,3 && same_steps
ok "so do layers with experts"

# ---- checkpoints

# resumed ARGUMENTS...: two more steps after two of cut.ckpt.
resumed() { train 2 --out again.ckpt --resume cut.ckpt --steps 4 "$@" && held_out; }
train 2 --out cut.ckpt --pp 2 --partition 4,0 --steps 2 && even=$(resumed --pp 2) &&
  cp again.ckpt even.ckpt && [ "$(resumed --pp 2 --partition 1,3)" = "$even" ] &&
  cmp -s even.ckpt again.ckpt && [ "$(resumed --pp 2 --partition 0,4)" = "$even" ] &&
  cmp -s even.ckpt again.ckpt
ok "a checkpoint of one partition is resumed under others, with the same bytes"

# ---- cuts by cost

train 2 --out two.ckpt --pp 2 --layer-costs 0.5,4*1,4.5 && grep -q 'layers 4,0)' out &&
  train 3 --out two.ckpt --pp 3 --layer-costs 5,4*1,5 && grep -q 'layers 0,4,0)' out
ok "layers are cut by given costs"

# cut_alike COSTS CUT: gpt schedule, plan and train make the partition CUT of COSTS. The plan is of
# one schedule: which one is the fastest depends on the costs, and interleaved has twice the stages.
cut_alike() {
  "$gpt" schedule --pp 3 --layer-costs "$1" >out 2>err && [ "$(partition)" = "$2" ] &&
    "$gpt" plan --layers 4 --heads 2 --width 32 --context 32 --ranks 3 --pp 3 --batch 12 \
      --schedule gpipe --layer-costs "$1" >out 2>err && [ "$(partition)" = "$2" ] &&
    train 3 --out two.ckpt --pp 3 --schedule gpipe --layer-costs "$1" &&
    grep -qF "layers $2)" out
}

cut_alike 0.01,4*1,3 '2*2,0' && cut_alike 0.5,4*1,0.3 1,2,1
ok "gpt train, plan and schedule cut alike by given costs"

# What is measured is printed so that the other commands cut alike.
train 3 --out two.ckpt --pp 3 --partition profile &&
  costs=$(sed -n 's/^measured in ms: --layer-costs //p' out) &&
  cut=$(sed -n 's/.*layers \([0-9*,]*\)).*/\1/p' out | head -n 1) && [ -n "$costs" ] &&
  [ -n "$cut" ] && cut_alike "$costs" "$cut"
ok "gpt train, plan and schedule cut alike by measured costs"

train 2 $moe --out two.ckpt --pp 2 --partition profile &&
  sed -n 's/^measured in ms: --layer-costs //p' out |
  awk -F, '{ exit !(NF == 6 && $2 == $4 && $3 == $5) }'
ok "blocks with and without experts are measured"

train 1 --out two.ckpt --partition profile && ! grep -q '^measured in ms' out
ok "nothing is measured without a pipeline"

# ---- invalid input

rejects 'gives the stages 3 layers, but the model has 4' --pp 2 --partition 1,2 &&
  rejects 'gives the layers of 3 stages, but --pp 2 has 2' --pp 2 --partition 1,2,1 &&
  rejects 'no layers: only the first stage' --pp 2 --schedule interleaved --virtual-stages 2 \
    --partition 2,0,1,1 &&
  rejects 'gives the layers of 2 stages, but --pp 1 has 1' --partition 2,2 &&
  rejects 'give even, profile, or the layers' --pp 2 --partition half &&
  rejects '--partition 1.5,2.5: give even' --pp 2 --partition 1.5,2.5 &&
  rejects '--layer-costs gives 3 times' --pp 2 --layer-costs 1,2,3 &&
  rejects 'leave one of the two out' --pp 2 --layer-costs 6*1 --partition 2,2
ok "partitions that do not fit get one line"

! "$gpt" plan --ranks 4 --pp 2 --partition profile 2>err && refused 'gpt plan measures no layers' &&
  ! "$gpt" plan --layers 4 --ranks 4 --pp 2 --partition 1,2 2>err &&
  refused 'gives the stages 3 layers'
ok "gpt plan refuses them, too"

tap_end

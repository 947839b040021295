#!/bin/sh
# Tests gpt train in layouts: every step has the loss of one rank, and layouts that cannot train are
# refused with one line that says what to give instead. tests/libtrain/layouts/test_matrix.c has
# many more layouts, without the command.
# Usage: layouts.sh PATH-TO-GPT PATH-TO-COLLRUN. Prints TAP.
libtrain=$(cd "$(dirname "$0")/.." && pwd)
. "$libtrain/training.sh"
write_text

# train RANKS ARGUMENTS...: 20 steps of a small model.
train() {
  ranks=$1
  shift
  gpt_on "$ranks" train --data text --layers 4 --heads 4 --width 64 --context 32 --batch 8 \
    --steps 20 --lr 1e-3 --evals 1 --eval-tokens 256 --threads 1 "$@"
}

# agrees NAME ARGUMENTS...: 4 ranks have the losses of one rank, which are in the file one.jsonl.
agrees() {
  name=$1
  shift
  rm -f layout.jsonl
  train 4 --log layout.jsonl "$@" && python3 - 2>>err <<'END'
import json
def losses(path):
    lines = [json.loads(line) for line in open(path)]
    return [line["loss"] for line in lines if line["record"] == "step"]
one, layout = losses("one.jsonl"), losses("layout.jsonl")
assert len(one) == len(layout) == 20, (len(one), len(layout))
for step, (expected, got) in enumerate(zip(one, layout)):
    assert abs(got - expected) <= 1e-5 * expected, (step + 1, expected, got)
END
  ok "$name has the losses of one rank"
}

train 1 --log one.jsonl && grep -q '^held-out loss' out
ok "one rank trains"
agrees "tensor parallelism" --tp 4
agrees "a pipeline" --pp 4 --accumulate 4
agrees "tensor parallelism that overlaps with products" --tp 4 --sp --tp-overlap 2
agrees "tensor parallelism that chooses" --tp 4 --tp-overlap auto
grep -q 'tp-overlap auto chose' err && grep -q '"record": *"tp_overlap"' layout.jsonl
ok "the choice is printed and logged"
agrees "tensor parallelism in a pipeline" --tp 2 --pp 2 --accumulate 4
agrees "context and data parallelism" --cp 2 --dp 2
agrees "ZeRO 1 with an interleaved pipeline" --zero 1 --pp 2 --dp 2 --accumulate 4 \
  --schedule interleaved --virtual-stages 2
agrees "TeraPipe" --pp 4 --accumulate 2 --schedule terapipe
agrees "TeraPipe with tensor parallelism" --tp 2 --sp --pp 2 --schedule terapipe --slices 3
agrees "TeraPipe with given slices" --zero 1 --dp 2 --pp 2 --accumulate 2 --schedule terapipe \
  --slices 17,9,6 --recompute block

# ---- what is refused

# refuses WORDS RANKS ARGUMENTS...: so many ranks fail with exactly one line of gpt, which contains
# WORDS.
refuses() {
  words=$1
  shift
  ! train "$@" && refused "$words"
}

refuses 'the product 3 does not divide' 4 --tp 3 &&
  refuses 'the product 8 is more than' 4 --tp 4 --cp 2 &&
  refuses '--ep 4 does not divide dp x cp = 2 x 1; the nearest' 4 --tp 2 --experts 4 --ep 4 &&
  refuses '--ep 2 does not divide --experts 3: the nearest' 2 --experts 3 --ep 2 &&
  refuses 'the model has no experts' 2 --ep 2 &&
  refuses 'leave out --etp' 2 --tp 2 --etp 1
ok "axes that do not multiply to the job"

refuses 'the nearest that does is --tp 2' 4 --heads 2 --tp 4 &&
  refuses 'the nearest that is is --context' 4 --context 36 --cp 4 &&
  refuses 'the nearest that it divides is --context' 2 --context 31 --cp 2 --cp-kind ulysses &&
  refuses 'the nearest that divides them is --cp' 4 --tp 2 --cp 2 --cp-kind ulysses --heads 2 &&
  refuses 'give a context that is a multiple of 4' 4 --context 30 --tp 4 --sp &&
  refuses 'give at most --pp 1' 2 --layers 1 --pp 2 --accumulate 2 &&
  refuses 'make --batch a multiple of' 2 --dp 2 --batch 7 &&
  refuses 'give auto, off, or 1 to 64 chunks' 2 --tp 2 --tp-overlap 0 &&
  refuses 'give auto, off, or 1 to 64 chunks' 2 --tp 2 --tp-overlap most &&
  refuses 'collectives of tensor ranks, of which there are none' 2 --dp 2 --tp-overlap 2
ok "axes that do not divide the model or the batch"

refuses 'needs --schedule interleaved, not 1f1b' 2 --pp 2 --accumulate 4 --virtual-stages 2 \
  --schedule 1f1b &&
  refuses 'give at most --pp 2' 4 --pp 4 --accumulate 4 --schedule interleaved \
    --virtual-stages 2 &&
  refuses 'the nearest that fits is --accumulate 2' 2 --pp 2 --schedule interleaved \
    --virtual-stages 2 &&
  refuses '--recompute none' 2 --pp 2 --accumulate 4 --schedule zb-h1 --recompute block &&
  refuses 'give --zero 1' 2 --pp 2 --accumulate 4 --zero 2 &&
  refuses 'give --zero 1' 2 --pp 2 --accumulate 4 --zero 3
ok "schedules that do not fit"

# slices WORDS ARGUMENTS...: what TeraPipe cannot cut.
slices() {
  words=$1
  shift
  refuses "$words" 2 --pp 2 --schedule terapipe "$@"
}
refuses '--slices 4 needs --schedule terapipe, not 1f1b' 2 --pp 2 --slices 4 &&
  refuses '--pp 1 is none: give --pp 2' 2 --dp 2 --schedule terapipe --slices 9,9 &&
  slices 'change the last one by +2' --slices 16,8,6 &&
  slices '--slices 16,,8: give the number' --slices 16,,8 &&
  slices 'into 40 slices of multiples of 1: give at most 32' --slices 40 &&
  slices 'give --schedule 1f1b, or leave out --experts' --experts 2 &&
  slices 'give --zero 1' --zero 2 &&
  refuses 'give --cp 1, or --schedule 1f1b' 4 --cp 2 --pp 2 --schedule terapipe &&
  refuses 'give multiples of 2' 4 --tp 2 --sp --pp 2 --schedule terapipe --slices 17,15
ok "slices that do not fit"

# asynchronous WORDS ARGUMENTS...: what stages that update at different times cannot do.
asynchronous() {
  words=$1
  shift
  refuses "$words" 2 --pp 2 "$@"
}
asynchronous 'give --untied' --schedule pipedream --clip-by stage &&
  asynchronous 'give --clip-by stage' --schedule pipedream --untied &&
  asynchronous 'give --precision bf16' --schedule pipedream --untied --clip-by stage \
    --precision fp16 &&
  asynchronous 'give --steps without --seconds' --schedule pipedream --untied --clip-by stage \
    --seconds 9 &&
  asynchronous 'or --schedule pipedream-2bw' --schedule pipedream --untied --clip-by stage \
    --accumulate 2 &&
  asynchronous 'or --clip-by global' --clip-by stage --accumulate 2
ok "what needs all stages at the same step"

tap_end

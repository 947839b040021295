#!/bin/sh
# Tests gpt eval and gpt sample in layouts: the held-out loss and the text of one rank, from
# checkpoints and Hugging Face's format; layouts that cannot be are refused with one line that says
# what to give instead.
# Usage: forward.sh PATH-TO-GPT PATH-TO-COLLRUN. Prints TAP.
libtrain=$(cd "$(dirname "$0")/.." && pwd)
. "$libtrain/training.sh"
write_text

# train ARGUMENTS...: a small model.
train() {
  gpt_on 1 train --data text --layers 2 --heads 2 --width 32 --context 32 --batch 8 --steps 60 \
    --evals 1 --eval-tokens 256 --threads 1 "$@"
}

# evaluates RANKS ARGUMENTS...: the loss of $file.
evaluates() {
  ranks=$1
  shift
  gpt_on "$ranks" eval --checkpoint "$file" --data text --eval-tokens 2048 "$@"
}

# samples RANKS ARGUMENTS...: the text of $file; the file `out` has it.
samples() {
  ranks=$1
  shift
  gpt_on "$ranks" sample --checkpoint "$file" --prompt 'static ' --tokens 60 "$@"
}

# same_text RANKS ARGUMENTS...: samples the text that one rank samples, with both temperatures.
same_text() {
  samples "$@" --temperature 0 && cmp out greedy >>err && samples "$@" --seed 3 &&
    cmp out seeded >>err
}

# one_rank FILE: what one rank makes of FILE, to compare with.
one_rank() {
  file=$1
  evaluates 1 && one=$(held_out) && [ -n "$one" ] && samples 1 --temperature 0 && cp out greedy &&
    samples 1 --seed 3 && cp out seeded && ! cmp -s greedy seeded
}

# same_everywhere: loss and text in layouts of two and four ranks.
same_everywhere() {
  for layout in "--tp 2" "--pp 2" "--cp 2" "--dp 2" "--tp 2 --sp"; do
    evaluates 2 $layout && same_loss 1e-4 || return
  done
  evaluates 4 --tp 2 --pp 2 && same_loss 1e-4 && same_text 2 --tp 2 && same_text 2 --pp 2 &&
    same_text 4 --tp 2 --pp 2
}

train --out dense.ckpt && one_rank dense.ckpt && same_everywhere
ok "eval and sample give the same in any layout"
"$gpt" convert dense.ckpt dense/ >out 2>err && one_rank dense && same_everywhere
ok "eval and sample divide a model in Hugging Face's format"
train --experts 4 --top-k 2 --out experts.ckpt && one_rank experts.ckpt && same_everywhere &&
  evaluates 2 --ep 2 && same_loss 1e-4 && evaluates 2 --tp 2 --etp 1 && same_loss 1e-4 &&
  same_text 2 --tp 2 --etp 1
ok "eval and sample divide experts"

file=dense.ckpt
! samples 2 && refused 'a sample is one: give --tp 2 instead' && ! samples 2 --cp 2 &&
  refused 'a sample has one at a time: give --tp 2 instead' && ! samples 4 --tp 2 &&
  refused '--dp 2 divides the sequences of a batch, but a sample is one: give --pp 2 instead' &&
  ! samples 8 --tp 2 --pp 2 && refused 'a sample is one: start 4 ranks instead' &&
  ! samples 4 --tp 4 && refused 'the nearest that does is --tp 2'
ok "sample refuses what it cannot divide"
! evaluates 4 --pp 4 && refused 'give at most --pp 2' && ! evaluates 2 --ep 2 &&
  refused 'the model has no experts' && ! evaluates 4 --tp 3 &&
  refused 'the product 3 does not divide'
ok "eval refuses what it cannot divide"

tap_end

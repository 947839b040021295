#!/bin/sh
# Tests options of parallel training in gpt train under collrun.
# Usage: gpt_parallel.sh PATH-TO-GPT PATH-TO-COLLRUN. Prints TAP.
libtrain=$(cd "$(dirname "$0")" && pwd)
. "$libtrain/training.sh"

# train RANKS ARGUMENTS...: a small training run.
train() {
  ranks=$1
  shift
  gpt_on "$ranks" train --data text --layers 2 --heads 2 --width 32 --context 32 --batch 8 \
    --threads 1 --eval-tokens 1024 "$@"
}

# rejects WORDS ARGUMENTS...: succeeds if two ranks fail with exactly one line of gpt that contains
# WORDS.
rejects() {
  words=$1
  shift
  ! train 2 --steps 1 "$@" && refused "$words"
}

write_text

# ---- few micro-batches

few='fewer micro-batches than the 2 stages'
train 2 --steps 1 --pp 2 --schedule 1f1b && [ "$(grep -c "$few" out)" -eq 1 ] &&
  train 2 --steps 1 --pp 2 --schedule 1f1b --accumulate 2 && ! grep -q "$few" out &&
  train 2 --steps 1 --pp 2 --schedule terapipe --slices 2 && ! grep -q "$few" out
ok "fewer micro-batches than stages are said once"

# ---- naive data parallelism

train 1 --steps 20 --out one.ckpt && one=$(held_out) && [ -n "$one" ] &&
  train 2 --steps 20 --out naive.ckpt --naive-dp --accumulate 2 && grep -q 'naive dp' out &&
  same_loss 1e-4 && train 2 --steps 20 --out narrow.ckpt --naive-dp --comm-dtype bf16 &&
  same_loss 2e-2
ok "naive data parallelism gives the loss of one rank"
train 1 --steps 30 --out again.ckpt --resume one.ckpt && one=$(held_out) && [ -n "$one" ] &&
  train 2 --steps 30 --out again.ckpt --resume naive.ckpt --naive-dp && same_loss 1e-4 &&
  train 2 --steps 30 --out again.ckpt --resume naive.ckpt && same_loss 1e-4
ok "a run of naive data parallelism is resumed"
rejects 'leave one of the two out' --naive-dp --zero 1 &&
  rejects '--naive-dp has rank 0 update the whole model, --tp 2' --naive-dp --tp 2 &&
  rejects '--naive-dp has rank 0 update the whole model, --pp 2' --naive-dp --pp 2 &&
  rejects '--naive-dp has rank 0 update the whole model, --ep 2' --naive-dp --experts 2 --ep 2
ok "naive data parallelism with what divides the model"

# ---- experts that tensor ranks do not cut

moe="--experts 4 --top-k 2 --steps 5"
train 1 $moe --out one.ckpt && one=$(held_out) && [ -n "$one" ] &&
  train 2 $moe --out whole.ckpt --tp 2 --etp 1 && grep -q 'etp 1' out && same_loss 1e-4 &&
  train 2 $moe --steps 8 --out again.ckpt --resume whole.ckpt --tp 2 --zero 1 && two=$(held_out) &&
  train 2 $moe --steps 8 --out again.ckpt --resume whole.ckpt --tp 2 --etp 1 --zero 1 &&
  one=$two && same_loss 1e-4
ok "whole experts on tensor ranks give the loss of one rank, and are resumed in both ways"
rejects 'the nearest that fits is --etp 2' --tp 2 --experts 4 --etp 3 &&
  rejects '--etp 1: the model has no experts' --tp 2 --etp 1
ok "wrong divisions of experts over tensor ranks get one line"

# ---- traces

# traced RANKS-AND-TRACKS ARGUMENTS...: a run writes valid JSON, in which each rank has just these
# tracks besides compute, with spans of every pass, of $slices slices of a micro-batch, and spans of
# a track are nested or disjoint.
slices=1
traced() {
  tracks=$1 n=$2
  shift 2
  train "$n" --steps 3 --evals 1 --accumulate 2 --out trace.ckpt --trace trace.json "$@" &&
    grep -q "^trace trace.json: [0-9]* spans of $n ranks" out &&
    python3 "$libtrain/read_trace.py" trace.json "$n" "$tracks" "$slices" >out
}
traced data 2 && traced data 2 --no-overlap && traced data 2 --naive-dp --zero 0 &&
  traced data 2 --zero 3
ok "a trace of data parallelism"
traced tensor,data 4 --tp 2 --sp
ok "a trace of tensor and data parallelism"
traced data,context,pipeline,embedding 4 --cp 2 --pp 2
ok "a trace of context and pipeline parallelism"
traced data,experts 2 --experts 4 --ep 2 && traced tensor,data,experts 4 --experts 4 --tp 2 --ep 2
ok "a trace of expert parallelism"
traced pipeline 2 --pp 2 --untied --clip-by stage --schedule pipedream-2bw --evals 3
ok "a trace of stages that update at different times"
slices=3 && traced pipeline,embedding 2 --pp 2 --schedule terapipe --slices 14,11,7
ok "a trace of slices"
slices=1
! train 2 --steps 1 --out trace.ckpt --trace missing/trace.json &&
  grep -qF 'cannot write the trace missing/trace.json' err && [ ! -e trace.ckpt.part ]
ok "a trace that cannot be written"

# ---- metrics

# metrics STAGES ARGUMENTS...: all records have these metrics by their formulas.
metrics() {
  stages=$1
  shift
  rm -f run.jsonl
  train 2 --steps 4 --evals 1 --accumulate 2 --out metrics.ckpt --log run.jsonl \
    --tensorboard "tb$stages" "$@" &&
    grep -q '^  MFU .* 6 (12 L C^2 + V C) + 6 L C (T + 1) per token$' out &&
    grep -q '^  exposed .* in which rank 0 waits for communication$' out &&
    python3 - "$stages" 2>err <<'END'
import json, sys
records = [json.loads(line) for line in open("run.jsonl")]
model, gemm = records[0]["model"], records[0]["gemm_flops_per_s"]
v, c, t, l = model["vocabulary"], model["width"], model["context"], model["layers"]
needed = 6 * (12 * l * c * c + v * c) + 6 * l * c * (t + 1)
for record in records:
    if record["record"] not in ("step", "summary"): continue
    gemm = max(gemm, max(needed, records[0]["flops_per_token"]) * record["tokens_per_s"])
    mfu = needed * record["tokens_per_s"] / gemm
    assert abs(record["mfu"] - mfu) <= 1e-6 * mfu, record
    assert record["mfu"] <= 1, record
    assert ("bubble" in record) == (int(sys.argv[1]) > 1), record
    assert 0 <= record.get("bubble", 0) < 1, record
END
}
metrics 1 && ! grep -q bubble out
ok "MFU in the log and the table of the end"
metrics 2 --pp 2 --schedule 1f1b &&
  grep -q '^  bubble .* 1f1b has (p-1) / (m + p-1) = 33.3 %$' out &&
  python3 "$libtrain/read_events.py" tb2/* >out 2>err && [ "$(grep -c '^time/bubble ' out)" = 4 ] &&
  [ "$(grep -c '^speed/mfu ' out)" -ge 4 ] && metrics 2 --pp 2 --schedule terapipe &&
  grep -q '^  bubble .* terapipe has (p-1) / (s m + p-1) = 11.1 %$' out
ok "the bubble of a pipeline beside its formula"

tap_end

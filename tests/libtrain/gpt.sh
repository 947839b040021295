#!/bin/sh
# Tests gpt as a command under collrun: results do not depend on the number of ranks, each kind of
# invalid input gives one clear error line, and no partial files are left.
# Usage: gpt.sh PATH-TO-GPT PATH-TO-COLLRUN. Prints TAP.
libtrain=$(cd "$(dirname "$0")" && pwd)
. "$libtrain/training.sh"

# rejects WORDS ARGUMENTS...: succeeds if two ranks fail with exactly one line of gpt that contains
# WORDS.
rejects() {
  words=$1
  shift
  ! gpt_on 2 "$@" && refused "$words"
}

# train RANKS ARGUMENTS...: a small training run.
train() {
  ranks=$1
  shift
  gpt_on "$ranks" train --data text --layers 1 --heads 2 --width 32 --context 32 --batch 8 \
    --threads 1 "$@"
}

# Cases that differ in values only: one of each kind, or all of them in a soak.
stages=3 kinds_of_recompute=block planned_stages=3 compares_types=
[ -z "${COLL_TEST_FULL-}" ] ||
  stages="1 2 3" kinds_of_recompute="attention block" planned_stages="0 1 2 3" compares_types=yes

write_text
mkdir empty

# ---- training

train 1 --steps 30 --out one.ckpt && one=$(held_out) && train 2 --steps 30 --out two.ckpt &&
  two=$(held_out) && train 4 --steps 30 --out four.ckpt && four=$(held_out) && [ -n "$one" ] &&
  awk "BEGIN { d = $one - $two; e = $one - $four; t = 1e-4 * $one
               exit !(d * d <= t * t && e * e <= t * t) }"
ok "1, 2 and 4 ranks give the same held-out loss ($one $two $four)"

for stage in $stages; do
  train 2 --steps 30 --out stage.ckpt --zero $stage && same_loss 1e-4 &&
    train 2 --steps 30 --out stage.ckpt --zero $stage --accumulate 2 --bucket 4K --no-overlap &&
    same_loss 1e-4 && train 3 --steps 15 --batch 9 --out stage.ckpt --zero $stage &&
    train 1 --steps 30 --batch 9 --out stage.ckpt --resume stage.ckpt --zero 0
  ok "ZeRO $stage gives the same loss, and its checkpoint resumes with other ranks and stages"
done
for what in $kinds_of_recompute; do
  train 2 --steps 30 --out again.ckpt --recompute $what && cmp again.ckpt two.ckpt
  ok "recomputing $what gives the same bits"
done
train 2 --steps 30 --out bf16.ckpt --comm-dtype bf16 && same_loss 1e-2 &&
  train 2 --steps 3 --out bf16.ckpt --no-comm && grep -q 'after step 3' out
ok "gradients can be sent as bf16, or not at all"

train 2 --steps 60 --out more.ckpt --resume two.ckpt && grep -q 'after step 60' out &&
  awk "BEGIN { exit !($(held_out) < $two) }"
ok "a resumed run continues training"

gpt_on 2 eval --checkpoint more.ckpt --data text && [ -n "$(held_out)" ]
ok "eval computes the loss of a checkpoint"

start=$(date +%s)
train 2 --seconds 2 --out timed.ckpt && [ $(($(date +%s) - start)) -le 40 ] # without it: 60
ok "--seconds ends the run"

gpt_on 2 train --data text --threads 1 --steps 60 \
  --resume two.ckpt --print-config && grep -q '"width": 32' out && grep -q '"batch": 8' out
ok "a resumed run takes its options from the checkpoint"

# resume WORDS ARGUMENTS...: checks that two ranks reject settings that differ from two.ckpt's.
resume() {
  words=$1
  shift
  rejects "$words" train --data text --threads 1 --steps 60 --resume two.ckpt "$@"
}
resume 'two.ckpt was trained with layers 1, this run has 2: resume with the same' --layers 2 &&
  resume 'with layers 1, this run has 4' --preset mini && resume 'with width 32' --width 64 &&
  resume 'with context 32, this run has 64' --context 64 && resume 'with heads 2' --heads 4 &&
  resume 'with vocabulary 257, this run has 300' --vocabulary 300 &&
  resume 'with lr 0.004, this run has 0.001' --lr 1e-3 && resume 'with batch 8' --batch 16 &&
  resume 'with seed 1, this run has 2' --seed 2 && resume 'with clip 1' --clip 2 &&
  resume 'with training-tokens' --data text/file1.c &&
  resume 'two.ckpt was trained without --untied: leave it out' --untied &&
  resume 'trained without experts, this run has --experts 4: leave it out' --experts 4
ok "resuming with other settings is an error"

all_narrow=bf16
[ -n "${COLL_TEST_FULL-}" ] && all_narrow="bf16 fp16 bf16-pure"
trained_with='was trained with --precision'
for precision in float32 $all_narrow; do
  train 1 --steps 2 --precision $precision --out precision.ckpt &&
    gpt_on 1 train --resume precision.ckpt --print-config &&
    grep -q "\"precision\": \"$precision\"" out &&
    train 2 --steps 3 --resume precision.ckpt --out next.ckpt && ! grep -q "$trained_with" err &&
    gpt_on 1 train --resume next.ckpt --print-config &&
    grep -q "\"precision\": \"$precision\"" out
  ok "a run with --precision $precision is resumed with it"
done
train 2 --steps 4 --resume next.ckpt --precision float32 --out other.ckpt &&
  [ "$(grep -c "next.ckpt $trained_with bf16.*, this run continues with float32" err)" = 1 ] &&
  echo '{"precision": "fp16"}' >precision.json &&
  gpt_on 1 train --resume other.ckpt --config precision.json --print-config &&
  grep -q '"precision": "fp16"' out && rejects 'did you mean' train --precision bf17
ok "--precision changes the precision of a resumed run, with a note"

for precision in ${compares_types:+$all_narrow}; do
  train 1 --steps 30 --precision $precision --out narrow.ckpt && same_loss 2e-2 &&
    float32=$one && one=$(held_out) &&
    train 2 --steps 30 --precision $precision --out narrow2.ckpt && same_loss 2e-3 &&
    train 2 --steps 30 --precision $precision --out again.ckpt --recompute block &&
    cmp narrow2.ckpt again.ckpt &&
    train 2 --steps 30 --precision $precision --out again.ckpt --zero 3 && same_loss 2e-3 &&
    train 2 --steps 30 --precision $precision --out narrow2.ckpt --zero 3 &&
    cmp narrow2.ckpt again.ckpt
  ok "in $precision ranks and stages give the same loss, near that of float32 ($one, $float32)"
  one=$float32
done
# losses_agree WIRE TOLERANCE: whether ranks and stages agree at each of 20 steps in bf16 with
# gradients sent in that type, and the stages among themselves within 1e-5.
all_ranks="1 2" all_stages="0 3"
[ -n "${COLL_TEST_FULL-}" ] && all_ranks="1 2 4" all_stages="0 1 2 3"
losses_agree() {
  rm -f wire.*.jsonl
  for n in $all_ranks; do
    for stage in $all_stages; do
      train $n --steps 20 --lr 1e-3 --precision bf16 --comm-dtype $1 --zero $stage --evals 1 \
        --out wire.ckpt --log wire.$n.$stage.jsonl || return 1
    done
  done
  python3 - "$2" >out 2>&1 <<'END'
import glob, json, sys
runs = {}
for name in glob.glob("wire.*.jsonl"):
    records = map(json.loads, open(name))
    runs[name] = [record["loss"] for record in records if record["record"] == "step"]
for name, losses in runs.items():
    same_ranks = runs[name.rsplit(".", 2)[0] + ".0.jsonl"]
    for other, bound in (runs["wire.1.0.jsonl"], float(sys.argv[1])), (same_ranks, 1e-5):
        worst = max(abs(a / b - 1) for a, b in zip(losses, other))
        assert len(losses) == 20 and worst <= bound, (name, worst, bound)
END
}
if [ -n "$compares_types" ]; then
  losses_agree float32 1e-4 && losses_agree bf16 1e-3
  ok "in bf16 ranks and stages agree at each of 20 steps"
fi

gpt_on 1 eval --checkpoint one.ckpt --data text && wide=$(held_out) &&
  for precision in bf16 fp16; do
    gpt_on 1 eval --checkpoint one.ckpt --data text --precision $precision &&
      awk "BEGIN { d = $(held_out) / $wide - 1; exit !(d * d < 4e-4) }" || break
  done
ok "eval in narrow types is near float32 ($wide, $(held_out))"

train 1 --steps 2 --precision bf16 --out narrow.ckpt --explain &&
  grep -q '^bfloat16 .* A B^T ' out && grep -q '^bfloat16 .* A^T B ' out
ok "--explain shows the libraries of the products"

# ---- tokens

gpt_on 1 tokenizer train --data text --vocabulary 320 --out t.json &&
  gpt_on 1 tokenizer encode --tokenizer t.json --data text --out shards &&
  train 2 --steps 20 --tokenizer t.json --out bpe.ckpt && text_loss=$(held_out) &&
  grep -q ' nats/token, .* nats/byte' out &&
  timeout 300 "$collrun" -n 2 "$gpt" train --data shards --layers 1 --heads 2 --width 32 \
    --context 32 --batch 8 --threads 1 --steps 20 --out shards.ckpt >out 2>err &&
  [ "$(held_out)" = "$text_loss" ] && cmp bpe.ckpt shards.ckpt
ok "text with a tokenizer and shards made with it give the same run"

gpt_on 2 eval --checkpoint bpe.ckpt --data text && [ "$(held_out)" = "$text_loss" ] &&
  "$gpt" sample --checkpoint bpe.ckpt --prompt 'static int' --tokens 30 >sample 2>err &&
  grep -q '^static int' sample && train 2 --steps 22 --resume bpe.ckpt --out bpe.ckpt
ok "a checkpoint contains its tokenizer"

mkdir foreign
python3 -c 'import struct, sys
tokens = [i * i % 300 for i in range(4000)]
for name in "train", "val":
    with open("foreign/%s_0.bin" % name, "wb") as file:
        file.write(struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253))
        file.write(struct.pack("<4000H", *tokens))'
train 2 --steps 3 --data foreign --vocabulary 300 --out foreign.ckpt && grep -q '1 shard, ' out &&
  grep -q 'nats/token over' out && rejects 'there is no tokenizer next to' train --data foreign &&
  rejects 'give --tokenizer' train --data text --resume foreign.ckpt &&
  ! "$gpt" sample --checkpoint foreign.ckpt >out 2>err && grep -q 'give --tokenizer' err &&
  rejects 'is beyond the vocabulary' train --data foreign --vocabulary 280
ok "shards of another program can be trained on without a tokenizer"
echo '{' >foreign/tokenizer.json
rejects 'foreign/tokenizer.json' train --data foreign --vocabulary 300 --out damaged.ckpt &&
  [ ! -e damaged.ckpt ]
ok "a damaged tokenizer next to shards is an error"

rejects 'cannot read the tokenizer no.json' train --data text --tokenizer no.json &&
  rejects 'the tokenizer has 320 tokens, but the model only 300' train --data text \
    --tokenizer t.json --vocabulary 300
ok "a tokenizer with another vocabulary"

# ---- logs and curves

train 2 --steps 12 --evals 3 --log run.jsonl --tensorboard runs/a --curve run.svg --out log.ckpt &&
  python3 - run.jsonl 2>err <<'END'
import json, sys
records = [json.loads(line) for line in open(sys.argv[1])]
kinds = [record["record"] for record in records]
steps = [record for record in records if record["record"] == "step"]
assert kinds[0] == "setup" and kinds[-1] == "summary" and kinds.count("evaluation") == 3, kinds
assert [record["step"] for record in steps] == list(range(1, 13))
assert steps[-1]["loss"] < steps[0]["loss"]
setup = records[0]
assert setup["ranks"] == 2 and setup["options"]["steps"] == 12
rate = setup["gemm_flops_per_s"]
for record in steps + records[-1:]:
    reached = setup["flops_per_token"] * record["tokens_per_s"]
    rate = max(rate, reached)  # of a machine that was busy while the rate was measured
    assert abs(record["flops_fraction"] - reached / rate) <= 1e-6 * reached / rate
    assert record["flops_fraction"] <= 1
assert records[-1]["gemm_flops_per_s"] >= rate * (1 - 1e-6)
model = setup["model"]
positions = 32 * 32
assert setup["flops_per_token"] == 6 * (model["parameters"] - positions) + 12 * 1 * 32 * 32
END
ok "--log writes a record of every step, evaluation and run"

python3 "$libtrain/read_events.py" runs/a/* >out 2>err &&
  [ "$(grep -c '^loss/training ' out)" = 12 ] &&
  [ "$(grep -c '^traffic/data_bytes ' out)" = 12 ] &&
  [ "$(grep -c '^loss/held_out ' out)" = 3 ] && [ "$(tail -n 1 out | cut -d ' ' -f 2)" = 12 ]
ok "--tensorboard writes valid event files"

python3 -c 'import sys, xml.dom.minidom as x
lines = x.parse(sys.argv[1]).getElementsByTagName("polyline")
assert len(lines) == 3, lines
assert len(lines[1].getAttribute("points").split()) == 12' run.svg 2>err &&
  grep -q '1 layers, 2 heads, width 32, context 32; batch 8 on 2 ranks' run.svg
ok "--curve draws the losses"

train 2 --steps 14 --resume log.ckpt --log run.jsonl --curve run.svg --out log.ckpt &&
  [ "$(grep -c '"record":"step"' run.jsonl)" = 14 ] &&
  python3 -c 'import sys, xml.dom.minidom as x
lines = x.parse(sys.argv[1]).getElementsByTagName("polyline")
assert len(lines[1].getAttribute("points").split()) == 14' run.svg 2>err
ok "a resumed run continues the log and the curve of the first one"

mkfifo pipe
head -n 3 pipe >lines &
(trap '' PIPE && exec timeout 300 "$gpt" train --data text --steps 30 --log pipe --out piped.ckpt \
  >out 2>err)
[ $? -eq 1 ] && [ "$(grep -c 'cannot write --log pipe' err)" = 2 ] && [ "$(wc -l <lines)" = 3 ] &&
  gpt_on 1 eval --checkpoint piped.ckpt --data text
ok "a log that cannot be written fails the run at its end, after saving"

# ---- configurations

train 1 --preset mini --width 64 --heads 2 --lr 1e-3 --steps 3 --print-config --out c.ckpt &&
  cp out config.json && [ ! -e c.ckpt ] && gpt_on 1 train --config config.json --print-config &&
  cmp -s out config.json && gpt_on 1 train --config config.json && grep -q 'width 64' out &&
  grep -q 'context 32' out && grep -q 'c.ckpt after step 3' out
ok "a printed configuration gives the same run"

gpt_on 1 train --config config.json --steps 2 --preset tiny --print-config &&
  grep -q '"steps": 2' out && grep -q '"width": 128' out && grep -q '"lr": 0.001' out
ok "the command line takes precedence over the file"

# config WORDS JSON: checks that two ranks reject that file with an error that contains WORDS.
config() {
  echo "$2" >bad.json
  rejects "$1" train --config bad.json
}
config 'unknown key "layer"; did you mean "layers"' '{"layer": 3}' &&
  config '--layers 0: give a whole number' '{"layers": 0}' &&
  config '"layers" needs a number or a text' '{"layers": true}' &&
  config '"layers" needs a number or a text' '{"layers": [3]}' &&
  config 'is not JSON: line 1' '{"layers": ,}' && config 'give an object' '[]' &&
  config 'unknown model' '{"preset": "gpt3"}' && rejects 'No such file' train --config missing.json
ok "an invalid configuration"

# A flag of the checkpoint is false in the file, which takes precedence over it.
# kind FLAGS CONFIG WORDS: two ranks refuse to resume a run with FLAGS under CONFIG.
kind() {
  echo "$2" >kind.json
  rm -f kind.ckpt
  train 1 --steps 1 --out kind.ckpt $1 && before=$(cksum <kind.ckpt) &&
    rejects "$3" train --data text --steps 2 --resume kind.ckpt --out kind.ckpt \
      --config kind.json && [ "$(cksum <kind.ckpt)" = "$before" ]
}
kind --untied '{"untied": false}' 'was trained with --untied' &&
  kind '--experts 4' '{"experts": 0}' 'was trained with --experts 4, this run has none' &&
  kind '--experts 4' '{"experts": 2}' 'with experts 4, this run has 2' &&
  kind '--experts 4 --shared-expert' '{"shared-expert": false}' 'with shared-expert 1, this run' &&
  kind '--experts 4' '{"shared-expert": true}' 'with shared-expert 0, this run has 1' &&
  kind '--experts 4' '{"top-k": 2}' 'with top-k 1, this run has 2' &&
  kind '' '{"experts": 4}' 'was trained without experts' &&
  kind '' '{"untied": true}' 'was trained without --untied'
ok "a checkpoint of a model of another kind is refused, and stays"

# ---- plans

gpt_on 1 plan --layers 3 --width 64 --batch 12 --accumulate 2 --ranks 1,2,3 --json plan.json &&
  [ "$(grep -c '^ *[123]  *[0-3] ' out)" = 12 ] && python3 - plan.json 2>err <<'END'
import json, sys
plan = json.load(open(sys.argv[1]))
P, A, padding = plan["parameters"], plan["options"]["accumulate"], 4096
close = lambda bytes, exact: 0 <= bytes - exact <= padding
for row in plan["rows"]:
    N, stage = row["ranks"], row["stage"]
    assert close(row["parameter_bytes"], 4 * P // (N if stage == 3 else 1)), row
    assert close(row["gradient_bytes"], 4 * P // (N if stage >= 2 else 1)), row
    assert close(row["moment_bytes"], 8 * P // (N if stage >= 1 else 1)), row
    sent = [8 * P, 8 * P, 4 * P * (A + 1), 12 * P * A][stage]
    assert row["bytes_sent"] == (sent if N > 1 else 0), row
    kinds = ["parameter", "gradient", "moment", "workspace", "activation"]
    assert row["total_bytes"] == sum(row[kind + "_bytes"] for kind in kinds), row
END
ok "a plan predicts memory and bytes sent of each stage"

# rejects_plan WORDS ARGUMENTS...: succeeds if one process fails with one line that contains WORDS.
rejects_plan() {
  words=$1
  shift
  ! "$gpt" plan "$@" >out 2>err && [ "$(grep -c '^gpt' err)" = 1 ] && grep -qF -- "$words" err
}
rejects_plan 'does not split evenly over 5 ranks' --batch 12 --ranks 3,5 &&
  rejects_plan '--ranks 2,x' --ranks 2,x && rejects_plan 'do not divide width' --heads 3 &&
  rejects_plan 'cannot write --json' --json no/plan.json &&
  rejects_plan 'did you mean --ranks' --rank 3 &&
  rejects_plan '--bucket 0: give a size' --bucket 0
ok "invalid options of a plan"

# The prediction does not include a sanitizer's own memory.
slack=0.05
grep -q __asan_init "$gpt" && slack=1
big() {
  gpt_on 2 "$@" --data text --vocabulary 50257 --layers 1 --heads 2 --width 128 --context 32 \
    --batch 2 --threads 1
}
as_planned() {
  big train --zero $1 --steps 2 --evals 1 --eval-tokens 1024 --out big.ckpt --log stage$1.jsonl &&
    python3 - $1 $slack 2>err <<'END'
import json, sys
stage, slack = int(sys.argv[1]), float(sys.argv[2])
row = json.load(open("plan.json"))["rows"][stage]
run = [json.loads(line) for line in open("stage%d.jsonl" % stage)]
steps, summary = run[1:3], run[-1]
assert summary["memory_bytes_predicted"] == row["total_bytes"], (row, summary)
assert all(step["bytes_sent"] == row["bytes_sent"] for step in steps), (row, steps)
assert all(step["data_bytes_sent"] == row["bytes_sent"] for step in steps), (row, steps)
assert all(step["data_waited_ms"] >= 0 for step in steps), steps
fixed = 14e6  # communicators, files and libraries of products, whatever the model
assert abs(summary["memory_bytes"] - row["total_bytes"]) <= slack * row["total_bytes"] + fixed
assert steps[1]["ms"] >= steps[1]["exposed_comm_ms"] > 0 and steps[1]["comm_ms"] > 0, steps
END
}
all_as_planned() {
  for stage in $planned_stages; do as_planned "$stage" || return 1; done
}
big plan --ranks 2 --json plan.json && all_as_planned
ok "a run uses and sends what the plan predicts"
rm -f big.ckpt

# ---- samples

"$gpt" sample --checkpoint more.ckpt --prompt 'static ' --tokens 50 --seed 4 >sample1 2>err &&
  "$gpt" sample --checkpoint more.ckpt --prompt 'static ' --tokens 50 --seed 4 >sample2 2>err &&
  cmp sample1 sample2 && [ "$(head -c 7 sample1)" = 'static ' ] &&
  [ "$(wc -c <sample1)" -le 58 ] && [ "$(wc -c <sample1)" -gt 20 ]
ok "a sample starts with its prompt and is reproducible"

# ---- invalid input

rejects 'contains no text' train --data empty
ok "an empty folder"
rejects 'cannot read --data missing' train --data missing
ok "a missing folder"
rejects 'context 4000 is longer than the data' train --data text/file1.c --context 4000
ok "a context longer than the data"
rejects 'do not divide width' train --data text --heads 3 --width 32
ok "heads that do not divide the width"
rejects 'does not split evenly over 2 ranks' train --data text --batch 3
ok "a batch that the ranks cannot divide"
rejects 'cannot write nowhere/gpt.ckpt' train --data text --out nowhere/gpt.ckpt
ok "a checkpoint that cannot be written"
rejects 'cannot write --log nowhere/run.jsonl' train --data text --log nowhere/run.jsonl &&
  rejects '/dev/full: No space left' train --data text --log /dev/full &&
  rejects '/dev/full: No space left' train --data text --curve /dev/full &&
  rejects 'cannot create the folder' train --data text --tensorboard text/file1.c
ok "a log or curve that cannot be written"
# 5 MB are enough for the ranks' shared memory, but not for a checkpoint.
(trap '' XFSZ && ulimit -f 10000 && rejects 'cannot write big.ckpt: File too large' \
  train --data text --layers 3 --steps 2 --out big.ckpt)
ok "a checkpoint that does not fit on the disk"
rejects 'the loss is not finite at step 4' train --data text --lr 1e30 --steps 200 \
  --log nan.jsonl &&
  [ "$(grep -c '^step [23]: skipped, loss is nan' err)" = 2 ] &&
  [ "$(grep -c '"loss":null.*"skipped":true' nan.jsonl)" = 2 ]
ok "a loss that is not a number: two steps are skipped, the third ends the run"
cp one.ckpt nan.ckpt
rejects 'the held-out loss is not finite after step 1' train --data text --lr 1e30 \
  --steps 1 --evals 1 --warmup 0 --clip 1 --log nan.jsonl --out nan.ckpt && cmp one.ckpt nan.ckpt
ok "a held-out loss that is not a number leaves the old checkpoint"
(exec 9>busy.ckpt.part && flock 9 &&
  rejects 'cannot write busy.ckpt: another program is writing it' \
    train --data text --steps 1 --out busy.ckpt) && rm busy.ckpt.part
ok "a checkpoint that another run is writing"
# differ WORDS SHELL-WORD ARGUMENTS...: runs two ranks with different arguments; checks for an error
# that contains WORDS.
differ() {
  words=$1 own=$2
  shift 2
  ! timeout 300 "$collrun" -n 2 sh -c "exec \"\$@\" $own" sh "$gpt" train --layers 1 --heads 2 \
    --width 32 --context 32 --batch 8 --threads 1 --steps 1 --out differ.ckpt "$@" \
    >out 2>err </dev/null && [ ! -e differ.ckpt ] && grep '^gpt' err | grep -qF -- "$words"
}
differ 'options or data' '--accumulate $((RANK + 1))' --data text --zero 2
ok "ranks with different micro-batches"
differ 'different shards at --data' '--data $(test $RANK = 1 && echo text || echo shards)' \
  --tokenizer t.json
ok "ranks of which only one finds shards"
rejects 'did you mean --layers' train --layer 3
ok "an unknown option"

rejects 'cannot read missing.ckpt' eval --checkpoint missing.ckpt --data text
ok "a missing checkpoint"
head -c 1000 one.ckpt >cut.ckpt
rejects 'truncated' eval --checkpoint cut.ckpt --data text
ok "a truncated checkpoint"
cp one.ckpt damaged.ckpt && printf x | dd of=damaged.ckpt bs=1 seek=5000 conv=notrunc 2>err &&
  rejects 'is damaged' eval --checkpoint damaged.ckpt --data text
ok "a damaged checkpoint"
rejects 'is not a checkpoint' eval --checkpoint text/file1.c --data text
ok "a file that is not a checkpoint"

! "$gpt" tarin >out 2>err && grep -q "did you mean 'train'" err
ok "an unknown command"

[ -z "$(find . -name '*.part')" ] && [ ! -e gpt.ckpt ]
ok "no partial files are left"

# ---- a killed rank

# The run would last ten minutes.
timeout 900 "$collrun" -n 2 sh -c 'echo $$ >pid$RANK; exec "$@"' sh "$gpt" train --data text \
  --seconds 600 --out dead.ckpt >out 2>err </dev/null &
job=$!
eventually grep -q 'step 1 ' err
start=$(date +%s)
kill -9 "$(cat pid1)"
! wait $job && took=$(($(date +%s) - start)) && [ "$took" -le 300 ] &&
  ! kill -0 "$(cat pid0)" 2>/dev/null && echo "# figure: $took s of 2 s" &&
  grep -q "^gpt train: rank 0: rank 1 (pid $(cat pid1)) died while" err && [ ! -e dead.ckpt ]
ok "a killed rank ends the others, which name it"

tap_end

#!/bin/sh
# Tests gpt convert as a command: an independent program checks the files it writes, and invalid
# input gives one clear error line. Usage: convert.sh PATH-TO-GPT. Prints TAP.
gpt=$1
models=$(cd "$(dirname "$0")" && pwd)/models.py
. "$(dirname "$0")/../../harness/tap.sh"
cd "$dir" || exit 1

convert() { timeout 300 "$gpt" convert "$@" >out 2>err </dev/null; }

# rejects WORDS ARGUMENTS...: succeeds if the command fails with exactly one line that contains
# WORDS.
rejects() {
  words=$1
  shift
  ! convert "$@" && [ "$(wc -l <err)" = 1 ] && grep -qF -- "$words" err
}

seq 1 9000 >text
timeout 300 "$gpt" train --data text --steps 3 --layers 2 --heads 4 --width 32 --context 16 \
  --batch 2 --threads 1 --out run.ckpt >out 2>err </dev/null
ok "a model to convert"

convert run.ckpt hf/ && grep -q 'step 3' out && grep -q 'cannot store the training state' out &&
  convert run.ckpt model.bin && python3 "$models" same run.ckpt hf model.bin >out 2>err
ok "checkpoint, safetensors and llm.c hold the same parameters"

convert hf model.ckpt && convert hf/model.safetensors other.ckpt && cmp model.ckpt other.ckpt &&
  convert model.bin third.ckpt && convert third.ckpt third.bin && cmp model.bin third.bin &&
  convert model.ckpt again.bin && cmp model.bin again.bin &&
  convert model.ckpt again.safetensors && cmp hf/model.safetensors again.safetensors
ok "round trips preserve all bytes"

for dtype in bfloat16 float16; do
  convert run.ckpt $dtype/ --dtype $dtype && grep -q "safetensors model in $dtype" out &&
    python3 "$models" rounded run.ckpt $dtype $dtype >out 2>err &&
    convert $dtype $dtype.ckpt && convert --dtype $dtype $dtype.ckpt again.safetensors &&
    cmp $dtype/model.safetensors again.safetensors
  ok "a model in $dtype has the nearest values, and they survive a round trip"
done
convert --dtype bfloat16 run.ckpt narrow.bin && convert narrow.bin wide.bin &&
  convert bfloat16.ckpt same.bin && cmp wide.bin same.bin
ok "a model of llm.c in bfloat16 holds the same values"

convert run.ckpt copy.ckpt && cmp run.ckpt copy.ckpt
ok "a checkpoint copy is identical"

python3 "$models" make theirs && convert theirs theirs.ckpt &&
  python3 "$models" made theirs.ckpt >out 2>err
ok "a float16 model of another program can be read"

"$gpt" sample --checkpoint hf --tokens 20 --seed 3 >one 2>err &&
  "$gpt" sample --checkpoint run.ckpt --tokens 20 --seed 3 >two 2>err && cmp one two
ok "a model gives the same sample in every format"

timeout 300 "$gpt" train --resume hf --data text --steps 2 --batch 2 --threads 1 \
  --out resumed.ckpt >out 2>err </dev/null && convert resumed.ckpt resumed.bin &&
  grep -q 'step 2' out && ! cmp -s resumed.bin model.bin
ok "training can start from a model of any format"

printf '{"added_tokens": [{"id": 7, "content": "<|endoftext|>"}]}' >tok.json
convert --tokenizer tok.json run.ckpt with.ckpt && convert with.ckpt with/ &&
  cmp tok.json with/tokenizer.json && grep -q '"eos_token_id": 7' with/config.json &&
  convert with back.ckpt && grep -q 'with its tokenizer' out && convert back.ckpt lost.bin &&
  grep -q 'cannot store the tokenizer' out
ok "the tokenizer is converted too"

cp hf/config.json with/ && printf '{"added_tokens": []}' >with/tokenizer.json &&
  cp with/tokenizer.json mine.json &&
  rejects 'with/tokenizer.json exists and is not the model' with.ckpt with/ &&
  cmp mine.json with/tokenizer.json
ok "a different existing tokenizer is not replaced"

convert --help && grep -q 'from_pretrained' out
ok "--help"

rejects 'give an input model and an output path' run.ckpt
ok "a missing output path"
rejects "unexpected argument 'c.ckpt'" run.ckpt b.ckpt c.ckpt
ok "two output paths"
rejects 'the name model does not say which format to write' run.ckpt model
ok "a name without a known format"
rejects 'cannot write b.ckpt in float16: a checkpoint stores float32' --dtype float16 run.ckpt \
  b.ckpt && rejects "did you mean 'float16'" --dtype float6 run.ckpt b/
ok "a type that the format does not store"
rejects 'cannot read missing: No such file' missing b.ckpt
ok "a missing model"
rejects 'text is not a checkpoint' text b.ckpt
ok "a file that is not a model"
head -c 5000 hf/model.safetensors >cut.safetensors
cp hf/config.json .
rejects 'cut.safetensors: tensor' cut.safetensors b.ckpt
ok "a file that is truncated"
rejects 'cannot write nowhere/b.ckpt: No such file' run.ckpt nowhere/b.ckpt
ok "an output folder that does not exist"
(trap '' XFSZ && ulimit -f 40 && rejects 'cannot write hf/model.safetensors: File too large' \
  run.ckpt hf) && python3 "$models" same run.ckpt hf model.bin >out 2>err
ok "a full disk leaves the old model"

[ -z "$(find . -name '*.part')" ] && [ ! -e b.ckpt ]
ok "no partial files are left"

tap_end

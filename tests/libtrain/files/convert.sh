#!/bin/sh
# gpt convert from outside: what it writes, read by a program that shares nothing with it, what it
# says, and what it refuses.
# Usage: convert.sh PATH-TO-GPT. Speaks TAP.
gpt=$1
models=$(cd "$(dirname "$0")" && pwd)/models.py
. "$(dirname "$0")/../../harness/tap.sh"
cd "$dir" || exit 1

convert() { timeout 60 "$gpt" convert "$@" >out 2>err </dev/null; }

# refuses WORDS ARGUMENTS...: it fails, with exactly one line that has WORDS in it.
refuses() {
  words=$1
  shift
  ! convert "$@" && [ "$(wc -l <err)" = 1 ] && grep -qF -- "$words" err
}

seq 1 9000 >text
timeout 60 "$gpt" train --data text --steps 3 --layers 2 --heads 4 --width 32 --context 16 \
  --batch 2 --threads 1 --out run.ckpt >out 2>err </dev/null
ok "a model to convert"

convert run.ckpt hf/ && grep -q 'step 3' out && grep -q 'no room for the state of training' out &&
  convert run.ckpt model.bin && python3 "$models" same run.ckpt hf model.bin >out 2>err
ok "checkpoint, safetensors and llm.c hold the same parameters"

convert hf model.ckpt && convert hf/model.safetensors other.ckpt && cmp model.ckpt other.ckpt &&
  convert model.bin third.ckpt && convert third.ckpt third.bin && cmp model.bin third.bin &&
  convert model.ckpt again.bin && cmp model.bin again.bin &&
  convert model.ckpt again.safetensors && cmp hf/model.safetensors again.safetensors
ok "there and back nothing changes"

convert run.ckpt copy.ckpt && cmp run.ckpt copy.ckpt
ok "a checkpoint keeps everything"

python3 "$models" make theirs && convert theirs theirs.ckpt &&
  python3 "$models" made theirs.ckpt >out 2>err
ok "a float16 model of another program's is read"

"$gpt" sample --checkpoint hf --tokens 20 --seed 3 >one 2>err &&
  "$gpt" sample --checkpoint run.ckpt --tokens 20 --seed 3 >two 2>err && cmp one two
ok "a model samples alike in every format"

timeout 60 "$gpt" train --resume hf --data text --steps 2 --batch 2 --threads 1 \
  --out resumed.ckpt >out 2>err </dev/null && convert resumed.ckpt resumed.bin &&
  grep -q 'step 2' out && ! cmp -s resumed.bin model.bin
ok "training goes on from a model of any format"

printf '{"added_tokens": [{"id": 7, "content": "<|endoftext|>"}]}' >tok.json
convert --tokenizer tok.json run.ckpt with.ckpt && convert with.ckpt with/ &&
  cmp tok.json with/tokenizer.json && grep -q '"eos_token_id": 7' with/config.json &&
  convert with back.ckpt && grep -q 'with its tokenizer' out && convert back.ckpt lost.bin &&
  grep -q 'no room for the tokenizer' out
ok "the tokenizer goes along"

cp hf/config.json with/ && printf '{"added_tokens": []}' >with/tokenizer.json &&
  cp with/tokenizer.json mine.json &&
  refuses 'with/tokenizer.json is there and not the model' with.ckpt with/ &&
  cmp mine.json with/tokenizer.json
ok "another tokenizer that is there stays"

convert --help && grep -q 'from_pretrained' out
ok "--help teaches"

refuses 'name the model and where it shall go' run.ckpt
ok "no place"
refuses "what is 'c.ckpt'?" run.ckpt b.ckpt c.ckpt
ok "two places"
refuses 'cannot tell from the name model what to write' run.ckpt model
ok "a name that says nothing"
refuses 'cannot read missing: No such file' missing b.ckpt
ok "a missing model"
refuses 'text is not a checkpoint' text b.ckpt
ok "a file that is no model"
head -c 5000 hf/model.safetensors >cut.safetensors
cp hf/config.json .
refuses 'cut.safetensors: tensor' cut.safetensors b.ckpt
ok "a file that is truncated"
refuses 'cannot write nowhere/b.ckpt: No such file' run.ckpt nowhere/b.ckpt
ok "a place that is not there"
(trap '' XFSZ && ulimit -f 40 && refuses 'cannot write hf/model.safetensors: File too large' \
  run.ckpt hf) && python3 "$models" same run.ckpt hf model.bin >out 2>err
ok "a full disk leaves the old model"

[ -z "$(find . -name '*.part')" ] && [ ! -e b.ckpt ]
ok "nothing was left half-written"

tap_end

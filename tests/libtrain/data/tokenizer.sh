#!/bin/sh
# Tests gpt tokenizer as a command: decoding restores the text, output files are complete or absent,
# and each kind of invalid input gives one clear error line. Usage: tokenizer.sh PATH-TO-GPT.
# Prints TAP.
gpt=$1
tests=$(cd "$(dirname "$0")" && pwd)
. "$tests/../../harness/tap.sh"
cd "$dir" || exit 1

# tokenizer ARGUMENTS...: runs gpt tokenizer; output goes to the files out and err.
tokenizer() {
  timeout 300 "$gpt" tokenizer "$@" >out 2>err </dev/null
}

# rejects WORDS ARGUMENTS...: succeeds if the command fails with exactly one line that contains
# WORDS.
rejects() {
  words=$1
  shift
  ! tokenizer "$@" && [ "$(grep -vc '^\(words\|merge\|encode\) ' err)" = 1 ] &&
    grep -qF -- "$words" err
}

mkdir text empty
i=0
while [ $i -lt 30 ]; do
  seq $i 7 900 | sed 's/.*/static int value_& = &; \/* grün, 日本 *\//' >text/file$i.c
  i=$((i + 1))
done
printf '\377\376 is no UTF-8\r\n' >text/raw.c

# ---- valid input

tokenizer train --data text --vocabulary 500 --out t.json --json train.json &&
  grep -q '500 tokens' out && grep -q '"merges": 243' train.json
ok "train learns the requested number of tokens"

tokenizer train --data text --vocabulary 500 --out again.json && cmp t.json again.json
ok "the same text gives the same tokenizer"

tokenizer train --data text --vocabulary 500 --out pair && [ -s pair/vocab.json ] &&
  [ "$(wc -l <pair/merges.txt)" = 244 ]
ok "a folder gets vocab.json and merges.txt"

tokenizer encode --tokenizer t.json --text 'static int 日本' --json ids.json && cp out shown &&
  grep -q '"static"' shown && tokenizer encode --tokenizer pair --text 'static int 日本' &&
  cmp shown out && tokenizer decode --tokenizer t.json $(awk '{ print $1 }' shown) &&
  [ "$(cat out)" = 'static int 日本' ]
ok "encode prints tokens, and decode reads them"

tokenizer encode --tokenizer t.json --data text --out tokens --json encode.json &&
  ls tokens | tr '\n' ' ' | grep -qx 'tokenizer.json train_000000.bin val_000000.bin ' &&
  grep -q '"held_out"' encode.json
ok "encode writes shards and the tokenizer"

cat $(ls text/* | sort) | wc -c >bytes
for split in train val; do
  tokenizer decode --data tokens/${split}_000000.bin --tokens 1000000000 && cat out
done | sed 's/<|endoftext|>//g' | wc -c >decoded
cmp bytes decoded
ok "the shards contain all text"

tokenizer encode --tokenizer bytes --data text --out small --shard-tokens 1000 &&
  [ "$(ls small | wc -l)" -gt 50 ] &&
  [ "$(wc -c <small/train_000000.bin)" = 3024 ]
ok "shards have the requested length"

tokenizer train --data text/file1.c --vocabulary 60000 --out most.json && grep -q 'has no more' out
ok "a text with too few pairs is reported"

tokenizer --help && grep -q 'gpt tokenizer COMMAND' out && tokenizer train --help &&
  grep -q 'Examples' out && tokenizer encode --help && tokenizer decode --help
ok "help"

# ---- invalid input

rejects 'contains no text' train --data empty --out no.json
ok "an empty folder"
rejects 'cannot read --data missing' encode --tokenizer bytes --data missing --out no
ok "a missing folder"
rejects 'a whole number from 257 to 65536' train --data text --vocabulary 65537 --out no.json
ok "too many tokens"
rejects 'cannot write nowhere/no.json' train --data text --out nowhere/no.json
ok "a tokenizer that cannot be written"
rejects 'cannot write nowhere/no.json' train --data text --out no.json --json nowhere/no.json
ok "a report that cannot be written"
rejects 'tokens: it already exists' encode --tokenizer t.json --data text --out tokens
ok "shards that already exist"
rejects 'cannot create the folder nowhere/tokens.part' encode --tokenizer t.json --data text \
  --out nowhere/tokens
ok "a folder that cannot be created"
rejects 'is not a tokenizer' encode --tokenizer text/file1.c --text x
ok "a file that is not a tokenizer"
rejects 'cannot read the tokenizer missing.json' encode --tokenizer missing.json --text x
ok "a missing tokenizer"
rejects 'no tokenizer in the folder' encode --tokenizer text --text x
ok "a folder without a tokenizer"
rejects 'is not a token shard' decode --data text/file1.c --tokenizer t.json
ok "a file that is not a shard"
mkdir named
seq 1 500 >named/train_000000.bin
cp named/train_000000.bin named/val_000000.bin
rejects 'is not a token shard' decode --data named/val_000000.bin &&
  ! "$gpt" train --data named/val_000000.bin --steps 1 >out 2>err &&
  grep -q 'is not a token shard' err &&
  ! grep -q 'no tokenizer' err
ok "a file that is only named like a shard: that it is none comes before its tokenizer"
head -c 3000 tokens/train_000000.bin >tokens/cut.bin
rejects 'truncated' decode --data tokens/cut.bin
ok "a truncated shard"
rejects 'beyond the vocabulary of 257' decode --data tokens/val_000000.bin --tokenizer bytes
ok "a shard of another tokenizer"
rejects "'500' is not a token: give 0 to 499" decode --tokenizer t.json 500
ok "an invalid id"
rejects 'give ids, or a shard' decode --tokenizer t.json
ok "nothing to decode"
rejects 'val_000000.bin has' decode --data tokens/val_000000.bin --offset 1000000000
ok "an offset beyond the shard"
rejects "did you mean 'train'" trian
ok "an unknown command"
rejects 'did you mean --vocabulary' train --vocabular 300
ok "an unknown option"

[ -z "$(find . -name '*.part')" ] && [ ! -e no.json ] && [ ! -e no ] && [ ! -e tokenizer.json ]
ok "no partial files are left"

tap_end

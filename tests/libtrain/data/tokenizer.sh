#!/bin/sh
# What gpt tokenizer promises, checked from outside: text comes back from its tokens, files appear
# whole, and one clear line for each kind of bad input. Usage: tokenizer.sh PATH-TO-GPT. Speaks TAP.
gpt=$1
tests=$(cd "$(dirname "$0")" && pwd)
. "$tests/../../harness/tap.sh"
cd "$dir" || exit 1

# tokenizer ARGUMENTS...: runs gpt tokenizer; output lands in out and err.
tokenizer() {
  timeout 60 "$gpt" tokenizer "$@" >out 2>err </dev/null
}

# refuses WORDS ARGUMENTS...: it fails, with exactly one line that has WORDS in it.
refuses() {
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

# ---- it works

tokenizer train --data text --vocabulary 500 --out t.json --json train.json &&
  grep -q '500 tokens' out && grep -q '"merges": 243' train.json
ok "train learns as many tokens as were asked for"

tokenizer train --data text --vocabulary 500 --out again.json && cmp t.json again.json
ok "the same text gives the same tokenizer"

tokenizer train --data text --vocabulary 500 --out pair && [ -s pair/vocab.json ] &&
  [ "$(wc -l <pair/merges.txt)" = 244 ]
ok "a folder gets the files of GPT-2"

tokenizer encode --tokenizer t.json --text 'static int 日本' --json ids.json && cp out shown &&
  grep -q '"static"' shown && tokenizer encode --tokenizer pair --text 'static int 日本' &&
  cmp shown out && tokenizer decode --tokenizer t.json $(awk '{ print $1 }' shown) &&
  [ "$(cat out)" = 'static int 日本' ]
ok "encode shows tokens, and decode takes them back"

tokenizer encode --tokenizer t.json --data text --out tokens --json encode.json &&
  ls tokens | tr '\n' ' ' | grep -qx 'tokenizer.json train_000000.bin val_000000.bin ' &&
  grep -q '"held_out"' encode.json
ok "encode writes shards and their tokenizer"

cat $(ls text/* | sort) | wc -c >bytes
for side in train val; do
  tokenizer decode --data tokens/${side}_000000.bin --tokens 1000000000 && cat out
done | sed 's/<|endoftext|>//g' | wc -c >decoded
cmp bytes decoded
ok "all text is in the shards"

tokenizer encode --tokenizer bytes --data text --out small --shard-tokens 1000 &&
  [ "$(ls small | wc -l)" -gt 50 ] &&
  [ "$(wc -c <small/train_000000.bin)" = 3024 ]
ok "shards are as long as was asked for"

tokenizer train --data text/file1.c --vocabulary 60000 --out most.json && grep -q 'has no more' out
ok "a text that has no more tokens says so"

tokenizer --help && grep -q 'gpt tokenizer COMMAND' out && tokenizer train --help &&
  grep -q 'Examples' out && tokenizer encode --help && tokenizer decode --help
ok "help"

# ---- bad input

refuses 'no text in it' train --data empty --out no.json
ok "an empty folder"
refuses 'cannot read --data missing' encode --tokenizer bytes --data missing --out no
ok "a missing folder"
refuses 'a whole number from 257 to 65536' train --data text --vocabulary 65537 --out no.json
ok "too many tokens"
refuses 'cannot write nowhere/no.json' train --data text --out nowhere/no.json
ok "a tokenizer that cannot be written"
refuses 'cannot write nowhere/no.json' train --data text --out no.json --json nowhere/no.json
ok "a record that cannot be written"
refuses 'tokens: it is there already' encode --tokenizer t.json --data text --out tokens
ok "shards that are there already"
refuses 'cannot make the folder nowhere/tokens.part' encode --tokenizer t.json --data text \
  --out nowhere/tokens
ok "a folder that cannot be made"
refuses 'is not a tokenizer' encode --tokenizer text/file1.c --text x
ok "a foreign file"
refuses 'cannot read the tokenizer missing.json' encode --tokenizer missing.json --text x
ok "a missing tokenizer"
refuses 'no tokenizer in the folder' encode --tokenizer text --text x
ok "a folder without a tokenizer"
refuses 'is not a token shard' decode --data text/file1.c --tokenizer t.json
ok "a foreign shard"
head -c 3000 tokens/train_000000.bin >tokens/cut.bin
refuses 'cut short' decode --data tokens/cut.bin
ok "a truncated shard"
refuses 'beyond the vocabulary of 257' decode --data tokens/val_000000.bin --tokenizer bytes
ok "a shard of another tokenizer"
refuses "'500' is no token: give 0 to 499" decode --tokenizer t.json 500
ok "an id that is none"
refuses 'give ids, or a shard' decode --tokenizer t.json
ok "nothing to decode"
refuses 'val_000000.bin has' decode --data tokens/val_000000.bin --offset 1000000000
ok "a place beyond the shard"
refuses "did you mean 'train'" trian
ok "an unknown command"
refuses 'did you mean --vocabulary' train --vocabular 300
ok "an unknown option"

[ -z "$(find . -name '*.part')" ] && [ ! -e no.json ] && [ ! -e no ] && [ ! -e tokenizer.json ]
ok "nothing was left half-written"

tap_end

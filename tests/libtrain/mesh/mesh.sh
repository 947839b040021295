#!/bin/sh
# Tests gpt mesh, and the options of the mesh in gpt train.
# Usage: mesh.sh PATH-TO-GPT PATH-TO-COLLRUN. Prints TAP.
libtrain=$(cd "$(dirname "$0")/.." && pwd)
. "$libtrain/training.sh"

# rejects WORDS ARGUMENTS...: succeeds if gpt mesh fails with one line that contains WORDS.
rejects() {
  words=$1
  shift
  ! "$gpt" mesh "$@" >out 2>err && [ "$(wc -l <err)" = 1 ] && grep -qF -- "$words" err
}

# train RANKS ARGUMENTS...: two steps of a small model.
train() {
  ranks=$1
  shift
  gpt_on "$ranks" train --data text --layers 1 --heads 2 --width 32 --context 32 --batch 8 \
    --threads 1 --steps 2 --evals 1 --eval-tokens 1024 "$@"
}

write_text

"$gpt" mesh --ranks 64 --tp 8 --pp 4 --draw-mesh mesh.svg >out 2>err &&
  grep -q '^64 ranks on 8 hosts: tp 8 x dp 2 x pp 4' out && [ "$(wc -l <out)" = 72 ] &&
  grep -q '^pp .* across 4 hosts' out && grep -q '</svg>' mesh.svg
ok "gpt mesh prints and draws 64 ranks"

cat >two.json <<'END'
{"nodes": [{"name": "left", "kind": "host"}, {"name": "right", "kind": "host"}],
 "links": [{"a": "left", "b": "right", "class": "ethernet", "gigabytes_per_s": 1, "latency_us": 9}]}
END
"$gpt" mesh --ranks 8 --tp 4 --topology two.json --map by-rail >out 2>err &&
  grep -q '^tp .* inside a host' out && grep -q '^ *1  right  ' out && grep -q '^ *2  left  ' out
ok "tensor groups are inside a host also where ranks are dealt out in turn"

rejects "the product 3 does not divide the job's 8 ranks" --tp 3 &&
  rejects "--ep 3 does not divide dp x cp = 8 x 1" --ep 3 &&
  rejects "'xp' is no axis" --order tp-xp &&
  rejects "--etp 3: give 1 or 2" --tp 2 --etp 3 &&
  rejects "it needs the hosts of a --topology" --map by-rail &&
  rejects "did you mean 'by-rail'" --topology two.json --map by-rial &&
  rejects "cannot open none.json" --topology none.json &&
  rejects "cannot write none/mesh.svg" --draw-mesh none/mesh.svg
ok "wrong options get one line that says what is wrong"

COLL_TOPO_FILE=two.json COLL_TOPO_MAP=by-rail train 4 --dp 4 --show-mesh --draw-mesh train.svg &&
  grep -q '^4 ranks on 2 hosts: dp 4' out && grep -q '^held-out loss' out &&
  grep -q '^ *1  right  ' out && grep -q '</svg>' train.svg
ok "gpt train shows its mesh on the hosts that libcoll takes the ranks to be on"

! train 2 --tp 3 &&
  refused "the product 3 is more than the job's 2 ranks; the nearest that fits is --tp 2" &&
  ! train 2 --draw-mesh none/mesh.svg && refused "cannot write none/mesh.svg"
ok "what gpt train refuses is said once"

tap_end

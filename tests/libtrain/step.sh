#!/bin/sh
# Tests bench/step and bench/scaling with a tiny model.
# Usage: step.sh PATH-TO-BUILD. Prints TAP.
build=$1
tests=$(cd "$(dirname "$0")" && pwd)
. "$tests/../harness/tap.sh"
step=$build/bench/step
collrun=$build/tools/collrun
scaling=$tests/../../bench/scaling
tiny="--preset tiny --batch 4 --length 16"

# loss FILE: prints the loss of the last step in the file.
loss() { sed -n 's/^loss .* then //p' "$1"; }

"$step" $tiny --threads 1 >"$dir/one" && [ -n "$(loss "$dir/one")" ] && same=yes
for how in "" "--zero 1" "--zero 2" "--zero 3" "--no-overlap --recompute block"; do
  "$collrun" -n 2 "$step" $tiny --threads 1 $how >"$dir/two" &&
    [ "$(loss "$dir/two")" = "$(loss "$dir/one")" ] || same=no
done
[ "$same" = yes ]
ok "one and two ranks compute the same steps at every stage"

! "$collrun" -n 3 "$step" $tiny >"$dir/out" 2>"$dir/err" &&
  [ "$(grep -c '^step: .* cannot divide a batch of 4' "$dir/err")" = 1 ]
ok "a batch that the ranks cannot divide"

"$step" $tiny --threads 1 --limit >"$dir/out" &&
  [ "$(grep -c '^ *.*gradient  ' "$dir/out")" = 10 ] && grep -q '^total' "$dir/out"
ok "the limit names every product"

"$step" --preset mini --batch 2 --length 16 --precision float32 --steps 2 --json --text "$0" \
  --save "$dir/weights/" >"$dir/out" &&
  grep -q '"precision":"float32"' "$dir/out" && grep -q '"losses":\[[0-9.]*,[0-9.]*,[0-9.]*\]' \
  "$dir/out" && [ -s "$dir/weights/model.safetensors" ] &&
  ! "$step" $tiny --precision float31 2>"$dir/err" && grep -q "did you mean 'float32'" "$dir/err"
ok "precision, losses on a text, and the weights they started from"

printf 'steps 2\nsteps 1\nlimit\n' | "$step" $tiny --threads 1 --serve >"$dir/out" &&
  grep -q '^{"ms":\[[0-9.]*,[0-9.]*\]}$' "$dir/out" &&
  grep -q '^{"ms":\[[0-9.]*\]}$' "$dir/out" && grep -q '^{"limit_ms":[0-9.]*}$' "$dir/out" &&
  ! echo stop | "$step" $tiny --threads 1 --serve >"$dir/out" 2>"$dir/err" &&
  grep -q 'unknown request' "$dir/err"
ok "steps and limits on request"

! "$step" $tiny --threads 1 --limit --json >"$dir/out" 2>"$dir/err" && [ ! -s "$dir/out" ] &&
  grep -q -e '--limit needs a single rank and no --json' "$dir/err" &&
  ! "$collrun" -n 2 "$step" $tiny --limit >"$dir/out" 2>"$dir/err" && [ ! -s "$dir/out" ] &&
  [ "$(grep -c 'needs a single rank' "$dir/err")" = 1 ]
ok "--limit is rejected on two ranks and with --json"

"$scaling" --build "$build" $tiny --steps 1 --rounds 2 --rows 1x1 "2x1 --zero 3" \
  --beside "echo 9.5 ms; echo 7.5 ms" >"$dir/out" &&
  awk '$1 == "1x1" && $NF == "1.000" { one = 1 } $1 == "2x1" && NF == 8 { two = 1 }
       /^the other program +7.5 / { other = 1 } END { exit !(one && two && other) }' "$dir/out"
ok "rows and another program are compared with the first row"

! "$scaling" --build "$build" $tiny --rows 2 2>"$dir/err" &&
  grep -q "invalid row '2'" "$dir/err" &&
  ! "$scaling" --build "$build" $tiny --rows 3x1 2>"$dir/err" && grep -q 'cannot divide' "$dir/err"
ok "invalid rows"

tap_end

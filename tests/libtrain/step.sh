#!/bin/sh
# bench/step and bench/scaling on a model that takes no time.
# Usage: step.sh PATH-TO-BUILD. Speaks TAP.
build=$1
tests=$(cd "$(dirname "$0")" && pwd)
. "$tests/../harness/tap.sh"
step=$build/bench/step
collrun=$build/tools/collrun
scaling=$tests/../../bench/scaling
tiny="--preset tiny --batch 4 --length 16"

# loss FILE: the loss of the last step that was printed there.
loss() { sed -n 's/^loss .* then //p' "$1"; }

"$step" $tiny --threads 1 >"$dir/one" && [ -n "$(loss "$dir/one")" ] && alike=yes
for how in "" "--zero 1" "--zero 2" "--zero 3" "--no-overlap --recompute block"; do
  "$collrun" -n 2 "$step" $tiny --threads 1 $how >"$dir/two" &&
    [ "$(loss "$dir/two")" = "$(loss "$dir/one")" ] || alike=no
done
[ "$alike" = yes ]
ok "the steps that are timed are the same on one rank and on two, at every stage"

! "$collrun" -n 3 "$step" $tiny >"$dir/out" 2>"$dir/err" &&
  [ "$(grep -c '^step: .* cannot share a batch of 4' "$dir/err")" = 1 ]
ok "ranks that cannot share the batch"

"$step" $tiny --threads 1 --limit >"$dir/out" &&
  [ "$(grep -c '^ *.*gradient  ' "$dir/out")" = 10 ] && grep -q '^all of these' "$dir/out"
ok "the limit names every product"

! "$step" $tiny --threads 1 --limit --json >"$dir/out" 2>"$dir/err" && [ ! -s "$dir/out" ] &&
  grep -q -e '--limit: the limit is told of one rank, without --json' "$dir/err" &&
  ! "$collrun" -n 2 "$step" $tiny --limit >"$dir/out" 2>"$dir/err" && [ ! -s "$dir/out" ] &&
  [ "$(grep -c 'the limit is told of one rank' "$dir/err")" = 1 ]
ok "a limit that would be told of no one rank, or amid JSON, is refused"

"$scaling" --build "$build" $tiny --steps 1 --rounds 2 --rows 1x1 "2x1 --zero 3" \
  --beside "echo 9.5 ms; echo 7.5 ms" >"$dir/out" &&
  awk '$1 == "1x1" && $NF == "1.000" { one = 1 } $1 == "2x1" && NF == 8 { two = 1 }
       /^the other program +7.5 / { other = 1 } END { exit !(one && two && other) }' "$dir/out"
ok "rows are compared with the first, and another program beside them"

! "$scaling" --build "$build" $tiny --rows 2 2>"$dir/err" &&
  grep -q "the row '2' is not" "$dir/err" &&
  ! "$scaling" --build "$build" $tiny --rows 3x1 2>"$dir/err" && grep -q 'cannot share' "$dir/err"
ok "rows that make no sense"

tap_end

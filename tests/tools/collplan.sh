#!/bin/sh
# Tests the collplan executable: output that can be loaded again, verdicts, exit codes, and a clear
# sentence for every wrong argument. Usage: collplan.sh PATH-TO-COLLPLAN. Prints TAP.
collplan=$1
. "$(dirname "$0")/../harness/tap.sh"
cd "$dir" || exit 1

# run CODE COLLPLAN-ARGUMENTS...: true if collplan exits with CODE. Output is written to out, err.
run() {
  wanted=$1
  shift
  "$collplan" "$@" >out 2>err </dev/null
  got=$?
  [ "$got" -eq "$wanted" ] || { echo "# exit code $got, wanted $wanted"; return 1; }
}

# ends CODE SENTENCE COLLPLAN-ARGUMENTS...: true if collplan exits with CODE, prints nothing but
# that one sentence, and names itself.
ends() {
  code=$1 sentence=$2
  shift 2
  run "$code" "$@" && [ "$(wc -l <err)" = 1 ] && grep -qF "collplan: $sentence" err
}
refused() { ends 2 "$@"; } # a wrong command line
failed() { ends 1 "$@"; }  # a wrong file, or one that cannot be read or written

is_xml() { python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$1"; }

# ---- list

run 0 list && grep -q '^allreduce  *ring  *own  *.*2009' out && grep -q '^barrier ' out
ok "list shows algorithm, reach and paper"

run 0 list && [ "$(awk '{ print $1 }' out | sort -u | wc -l)" = 16 ]
ok "list knows the fifteen collectives"

run 0 list && [ "$(awk '{ print index($0, $4) }' out | sort -u | wc -l)" = 1 ]
ok "list is aligned"

run 0 list allreduce --json && python3 -c '
import json
rows = json.load(open("out"))
assert any(row["algorithm"] == "ring" and row["reach"] == "own" and row["paper"] for row in rows)
assert all(row["collective"] == "allreduce" for row in rows)'
ok "list --json"

# ---- show

run 0 show allreduce --algo ring -n 8 && cp out ring.plan &&
  head -1 out | grep -qx 'plan allreduce ring' &&
  grep -qx 'ranks 8' out && tail -1 out | grep -qx end && [ "$(grep -c '^rank ' out)" = 8 ]
ok "show prints every rank"

run 0 show ring.plan && cmp -s out ring.plan
ok "what show prints loads back and prints the same"

run 0 show broadcast --root 2 -n 4 --in-place --rank 2 && grep -qx 'root 2' out &&
  grep -qx 'rank 2 in-place' out && [ "$(grep -c '^rank ' out)" = 1 ]
ok "show --root, --in-place and --rank"

run 0 show allreduce --algo ring -n 8 --svg ring.svg && [ ! -s out ] && is_xml ring.svg &&
  [ "$(grep -c '<title>rank ' ring.svg)" = "$(grep -c '^  ' ring.plan)" ] &&
  [ "$(grep -c 'arrow message" d="M[0-9. ]*C' ring.svg)" = "$(grep -c '^  send ' ring.plan)" ]
ok "the picture has a box per step and an arrow per message"

run 0 show allreduce --algo twophase_pull -n 4 --svg - && is_xml out &&
  grep -q 'arrow memory' out && grep -q 'arrow signal' out
ok "a picture of a mapped plan shows memory and signals"

run 0 show reduce -n 1 --svg one.svg && is_xml one.svg &&
  run 0 show alltoall -n 16 --svg many.svg && is_xml many.svg
ok "pictures of one rank and of many"

# ---- verify

run 0 verify all -n 1-5,8 && [ "$(grep -c ' proved$' out)" -ge 30 ] && ! grep -q REJECTED out
ok "verify proves every algorithm"

run 0 verify reduce --algo binomial -n 2,4,8 --root 1 &&
  grep -q '^reduce  *binomial  *2,4,8  *6 ' out
ok "verify of one algorithm counts its plans"

led="--algo mapped_by_two"
run 0 verify allreduce $led -n 2,5 && grep -q '^allreduce  *mapped_by_two  *2,5  *10 ' out &&
  run 0 verify allreduce -n 4 --root 3 && grep -q '^allreduce  *mapped_by_two  *4  *2 ' out &&
  run 0 show allreduce $led -n 4 --root 3 && grep -qx 'root 3' out && cp out led.plan &&
  run 0 show allreduce $led -n 4 && ! cmp -s out led.plan
ok "plans that any rank may lead are proved and shown for several that do"

"$collplan" show allreduce -n 4 | "$collplan" verify - >out 2>err && grep -q ' proved$' out
ok "verify reads standard input"

sed 's/  recv 0 -> scratch\[0+1\]/  recv 0 -> scratch[0+2]/; s/^message 1/message 2/' \
  ring.plan >size.plan
run 1 verify size.plan && grep -q '1 REJECTED' out &&
  grep -q 'in size.plan: size: rank 1 lane 0 step 1 (recv): receives 2 chunks' err
ok "a wrong size is rejected with 1, naming rank, lane, step and why"

sed '/^rank 3/,/^rank 4/{/  send /{x;s/^/x/;/^x$/{x;d};x}}' ring.plan >dropped.plan
run 1 verify dropped.plan ring.plan && grep -q 'dropped.plan: ' err && grep -q ' proved$' out
ok "one wrong file of two is rejected, the other proved"

# ---- errors

refused "no command 'shwo'; did you mean 'show'?" shwo &&
  refused "no collective is called 'allredcue'; did you mean 'allreduce'?" show allredcue &&
  refused "allreduce has no algorithm 'rnig'; did you mean 'ring'?" show allreduce --algo rnig
ok "unknown names are met with the nearest"

refused "--root 4: with 4 ranks the root is at most 3" show broadcast -n 4 --root 4 &&
  refused "--root 1: allreduce/ring has no root or executor" show allreduce --root 1 &&
  refused "--root 1: allreduce/ring has no root" verify allreduce --algo ring --root 1 -n 4 &&
  refused "--root 1: alltoall has no root" verify alltoall --root 1 -n 4
ok "a root that is no rank"

refused "-n 0: give a whole number from 1 to 4096" show allreduce -n 0 &&
  refused "-n 0: give rank counts from 1" verify allreduce -n 0 &&
  refused "-n 4-2: give rank counts" verify allreduce -n 4-2 &&
  refused "-n 1,,2: give rank counts" verify allreduce -n 1,,2 &&
  refused "--rank 4: the plan has ranks 0 to 3" show allreduce --rank 4
ok "rank counts out of range"

failed "cannot open no.plan: No such file" show no.plan &&
  failed "cannot read .: Is a directory" verify . &&
  failed "cannot write no/x.svg: No such file" show allreduce --svg no/x.svg
ok "files that are not there"

echo original >old.svg
refused "a picture of " show alltoall -n 300 --svg old.svg && [ "$(cat old.svg)" = original ]
ok "a picture too large to read leaves the file alone"

"$collplan" list >/dev/full 2>err
[ $? -eq 1 ] && grep -q 'cannot write to standard output' err &&
  { "$collplan" show allreduce >/dev/full 2>err; [ $? -eq 1 ]; }
ok "a full disk is a failure"

cat >typo.plan <<END
plan allreduce x
ranks 2
root 0
parts 1
scratch 0
lanes 1
depth 1
message 1
reach own
rank 0
  sned 1 <- input[0+1]
end
END
sed 's/sned 1/send 5/' typo.plan >peer.plan
printf '\177ELF\0\0' >binary.plan
: >empty.plan
failed "typo.plan:11: expected a step, 'rank', 'lane' or 'end', found 'sned'" show typo.plan &&
  failed "peer.plan:11: expected a rank from 0 to 1, found '5'" verify peer.plan &&
  failed "binary.plan:1: " show binary.plan &&
  failed "empty.plan:1: the file is empty" show empty.plan
ok "malformed files are named with the line"

cat >stuck.plan <<END
plan barrier stuck
ranks 2
root 0
parts 1
scratch 0
lanes 1
depth 0
message 0
reach scratch
rank 0
  wait 1
  signal 1
rank 1
  wait 0
  signal 0
end
END
run 1 verify stuck.plan && grep -q 'deadlock: rank 0 lane 0 step 0 (wait)' err &&
  failed "the plan deadlocks after 0 of its 4 steps" show stuck.plan --svg stuck.svg &&
  [ ! -e stuck.svg ]
ok "a plan that deadlocks is rejected, and not drawn"

# A truncated file must be rejected: never accepted as another plan, never a crash.
run 0 show allreduce --algo ring -n 2 && cp out whole.plan && bytes=$(wc -c <whole.plan) && bad=0
cut=0
while [ "$cut" -lt $((bytes - 1)) ]; do
  head -c "$cut" whole.plan >cut.plan
  run 1 show cut.plan || bad=$((bad + 1))
  cut=$((cut + 1))
done
[ "$bad" = 0 ]
ok "a file cut short anywhere is refused"

run 2 && grep -q Examples err && run 0 --help && grep -q 'collplan verify' out &&
  for command in list show verify stats; do
    run 0 $command --help && grep -q Examples out || break
  done && [ "$command" = stats ]
ok "help teaches by example"

# ---- layouts

run 0 verify all -n 8 --layout hosts:3+5 && ! grep -q REJECTED out &&
  grep -q '^allreduce  *hierarchical ' out && ! grep -q '^allreduce  *mapped_by_two ' out
ok "verify --layout proves what can run among hosts"

run 0 show allreduce --algo hierarchical -n 8 --layout hosts:3+5 && cp out placed.plan &&
  run 0 verify placed.plan && run 0 show allreduce --algo hierarchical -n 8 --layout hosts:4x2 &&
  ! cmp -s out placed.plan
ok "show --layout: plans follow the layout"

refused "plan allreduce/mapped_by_two: rank 0 lane 0 step 0: reads rank 2's input, which is not" \
  show allreduce --algo mapped_by_two -n 4 --layout hosts:2x2 &&
  refused "layout hosts:2x2: it has 4 ranks, but there are 5" stats allreduce -n 5 \
    --layout hosts:2x2 &&
  refused "layout hosts:2x: give hosts as 4x2 or 3+5" verify all -n 4 --layout hosts:2x &&
  refused "layout rows:2: it must begin with hosts:" verify all -n 4 --layout rows:2 &&
  refused "layout grid:2x2/numa:2: nothing may follow a grid" verify all -n 4 \
    --layout grid:2x2/numa:2 &&
  refused "layout hosts: a colon is missing" verify all -n 4 --layout hosts &&
  refused "layout hosts:4x1/core:2: the parts of a host are package: or numa:" verify all -n 4 \
    --layout hosts:4x1/core:2 &&
  refused "layout hosts:2+0+2: give hosts as" verify all -n 4 --layout hosts:2+0+2
ok "wrong layouts"

# ---- stats

run 0 stats allreduce -n 8 &&
  awk '$1 == "ring" && $3 == 14 && $5 == 14 && $7 == 1.75 { found = 1 } END { exit !found }' out
ok "stats: a ring of 8 takes 14 rounds and sends 7/4 of the vector"

run 0 stats allreduce -n 16 --layout grid:4x4 &&
  awk '$1 == "torus2d" && $3 == 12 && $7 == 1.875 { found = 1 } END { exit !found }' out
ok "stats: a torus of 4x4 takes 12 rounds and sends 15/8 of the vector"

tap_end

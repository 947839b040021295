#!/bin/sh
# collplan import and export: a small schedule comes back unchanged, wrong ones are refused with
# file and line; what is proved runs. TAP on standard output.
collplan=$1
collrun=$2
collbench=$3
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
number=0

check() { # name, whether it holds (0)
  number=$((number + 1))
  if [ "$2" -eq 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; fi
}

# Both ranks send half of their input, reduce the other half and pass the sum back.
schedule() {
  cat << XML
<algo name="halves" proto="Simple" nchannels="2" nchunksperloop="2" ngpus="2" coll="allreduce"
      inplace="1" outofplace="0">
  <gpu id="0" i_chunks="2" o_chunks="0" s_chunks="1">
    <tb id="0" send="1" recv="1" chan="1">
      <step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1"/>
      <step s="1" type="rrcs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1"/>
      <step s="2" type="r" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="2" o_chunks="0" s_chunks="1">
    <tb id="4" send="-1" recv="-1" chan="0">
      <step s="0" type="re" srcbuf="s" srcoff="0" dstbuf="i" dstoff="1" cnt="1" depid="7" deps="1"/>
    </tb>
    <tb id="7" send="0" recv="0" chan="1">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1"/>
      <step s="1" type="r" srcbuf="i" srcoff="1" dstbuf="s" dstoff="0" cnt="1" hasdep="1"/>
      <step s="2" type="r" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1"/>
      <step s="3" type="s" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="4" deps="0"/>
    </tb>
  </gpu>
</algo>
XML
}

# The schedule with one text replaced is refused with this error.
refused() { # name, sed expression, pattern
  schedule | sed "$2" > "$folder/wrong.xml"
  "$collplan" import "$folder/wrong.xml" > "$folder/out" 2> "$folder/error"
  code=$?
  [ "$code" -ne 0 ] && [ ! -s "$folder/out" ] && grep -q "wrong.xml:$3" "$folder/error"
  result=$?
  check "$1" "$result"
  [ "$result" -eq 0 ] || sed 's/^/# /' "$folder/error"
}

# An exchange after which each rank adds its own operand first: their sums differ in bits.
any_order() {
  printf '<algo name="exchange" nchunksperloop="1" ngpus="2" coll="allreduce">\n'
  for gpu in 0 1; do
    peer=$((1 - gpu))
    printf '<gpu id="%s" i_chunks="1" o_chunks="1" s_chunks="0"><tb id="0" send="%s" ' $gpu $peer
    printf 'recv="%s" chan="0">\n' $peer
    printf '<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1"/>\n'
    printf '<step s="1" type="rrc" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1"/>\n'
    printf '</tb></gpu>\n'
  done
  printf '</algo>\n'
}

echo 1..30
schedule > "$folder/right.xml"
"$collplan" import "$folder/right.xml" > "$folder/first.plan"
check "imports a schedule" $?
"$collplan" verify "$folder/first.plan" > /dev/null
check "what it prints is proved" $?
grep -q 'send 1:1 <- output\[1+1\]' "$folder/first.plan"
check "thread blocks keep their channel, and INPUT in place is OUTPUT" $?
"$collplan" export --msccl "$folder/first.plan" > "$folder/again.xml" &&
  "$collplan" import "$folder/again.xml" | cmp -s - "$folder/first.plan"
check "import, export, import gives the same bytes" $?
"$collplan" export allreduce --algo ring -n 5 --msccl | "$collplan" import - > /dev/null
check "an exported ring is proved" $?
"$collplan" export broadcast --algo binomial -n 7 --msccl | "$collplan" import - > /dev/null
check "an exported tree, whose lanes have several peers, is proved" $?

"$collrun" -n 2 "$collbench" allreduce --plan "$folder/first.plan" --counts 0,1,1001,100003 -n 0 \
  > "$folder/out" 2> "$folder/error" && grep -q 'Wrong elements    : 0 OK' "$folder/out"
check "an imported schedule runs with exact results" $?
"$collrun" -n 2 "$collbench" allgather --plan "$folder/first.plan" 2> "$folder/error" > /dev/null
[ $? -ne 0 ] && grep -q 'first.plan is a plan of allreduce, not of allgather' "$folder/error"
check "collbench --plan refuses another collective" $?
"$collrun" -n 3 "$collbench" allreduce --plan "$folder/first.plan" 2> "$folder/error" > /dev/null
[ $? -ne 0 ] && grep -q 'the plan is for 2 ranks, but the communicator has 3' "$folder/error"
check "and another number of ranks" $?

any_order > "$folder/any.xml"
"$collplan" import "$folder/any.xml" > "$folder/out" 2> "$folder/error"
[ $? -ne 0 ] && [ ! -s "$folder/out" ] &&
  grep -q 'any.xml:[48]: not identical: .*; --any-order accepts' "$folder/error"
check "different orders are refused with the line of a step that makes the sum" $?
"$collplan" import --any-order "$folder/any.xml" > "$folder/any.plan" &&
  grep -q '^order any  # ranks may hold different bits$' "$folder/any.plan"
check "--any-order accepts them, and the plan states it" $?
"$collplan" show "$folder/any.plan" | cmp -s - "$folder/any.plan" &&
  "$collplan" show "$folder/any.plan" --svg - | grep -q 'ranks may hold different bits'
check "show says it" $?
"$collplan" list "$folder/any.plan" |
  grep -q '^allreduce .* any  *ranks may hold different bits$' &&
  "$collplan" list "$folder/any.plan" --json | grep -q '"order": "any"' &&
  "$collplan" verify "$folder/any.plan" | grep -q 'proved, order any$'
check "list and verify say it" $?
COLL_DEBUG=1 "$collrun" -n 2 "$collbench" allreduce --plan "$folder/any.plan" \
  --counts 0,1,1001 -n 0 > "$folder/out" 2> "$folder/error" &&
  grep -q 'Wrong elements    : 0 OK' "$folder/out" &&
  grep -q 'any.plan reduces in any order: ranks may hold different bits' "$folder/out" &&
  grep -q 'exchange of allreduce reduces in any order' "$folder/error"
check "collbench and COLL_DEBUG say it" $?
# states PLAN VALUE: what collbench writes of a plan.
states() {
  "$collrun" -n 2 "$collbench" allreduce --plan "$folder/$1" --counts 1001 -n 1 --print brief \
    --json "$folder/rows.json" > "$folder/out" 2> "$folder/error" &&
    grep -q "\"plan\": \"$folder/$1\"" "$folder/rows.json" &&
    grep -q "\"ranks_may_hold_different_bits\": $2" "$folder/rows.json"
}
states any.plan true && grep -q 'ranks may hold different bits' "$folder/out" &&
  states first.plan false && ! grep -q 'ranks may hold different bits' "$folder/out"
check "a brief table and JSON say it" $?
COLL_REPRODUCIBLE=1 "$collrun" -n 2 "$collbench" allreduce --plan "$folder/any.plan" \
  2> "$folder/error" > /dev/null
[ $? -ne 0 ] && grep -q 'in orders that differ between ranks' "$folder/error"
check "a reproducible communicator takes no such plan" $?
"$collplan" import --any-order "$folder/right.xml" | cmp -s - "$folder/first.plan"
check "--any-order changes nothing where the orders are equal" $?
any_order | sed '0,/type="rrc"/s//type="r"/' > "$folder/lacks.xml"
"$collplan" import --any-order "$folder/lacks.xml" > /dev/null 2> "$folder/error"
[ $? -ne 0 ] && grep -q "lacks.xml:4: contribution: .* lacks rank 0's input" "$folder/error"
check "a lost contribution is refused with its line" $?

schedule | sed '11s|^|<note of="tb"><tb id="0"/></note>|; 20s|^|<step s="0"/>|' > "$folder/odd.xml"
"$collplan" import "$folder/odd.xml" 2> "$folder/error" | cmp -s - "$folder/first.plan" &&
  [ "$(wc -l < "$folder/error")" = 2 ] &&
  grep -q '^warning: .*odd.xml:11: <note> in <gpu> is ignored: ' "$folder/error" &&
  grep -q '^warning: .*odd.xml:20: <step> in <gpu> is ignored: ' "$folder/error"
check "elements that MSCCL ignores are ignored, with a warning" $?
schedule | sed '5s|cnt="1"|cnt="1" by="R\&D" cnt="9"|; 8s|.*|&<!-- a -- b -->|' \
  > "$folder/odd.xml"
"$collplan" import "$folder/odd.xml" 2> "$folder/error" | cmp -s - "$folder/first.plan" &&
  [ "$(wc -l < "$folder/error")" = 2 ] &&
  grep -q '^warning: .*odd.xml:5: <step> has cnt="1" and then "9"; the first ' "$folder/error" &&
  grep -q "^warning: .*odd.xml:5: by=\"R&D\": '&' is read as it stands" "$folder/error"
check "attributes that MSCCL takes are taken, with a warning" $?
printf '<system version="1"/>' > "$folder/other.xml"
"$collplan" import "$folder/other.xml" 2>&1 | grep -q 'other.xml:1: <system> is not the beginning'
check "a file of another kind is named by its first element" $?

refused "a deadlock" 's/cnt="1" hasdep="1"/cnt="1" depid="4" deps="0"/' '[0-9]*: deadlock: '
refused "undefined data" '5s/srcbuf="i" srcoff="1"/srcbuf="s" srcoff="0"/' '5: unwritten: '
refused "a race" 's/ depid="7" deps="1"//' '[0-9]*: '
refused "a missing rank" 's/<gpu id="1"/<gpu id="0"/' '10: gpu 0 again'
refused "a chunk past the buffer" 's/dstoff="0" cnt="1" hasdep/dstoff="2" cnt="1" hasdep/' \
  '16: r of chunks 2 to 2 of buffer s of gpu 1'
refused "a dependency on no step" 's/deps="1"/deps="9"/' '12: waits for step 9 of tb 7'
refused "a send without a peer" 's/send="1"/send="-1"/' \
  '5: s in tb 0 of gpu 0, which sends to no rank'
refused "a cut-off file" '18,$d' '18: not well-formed XML'
"$collplan" export gather -n 4 --msccl > "$folder/out" 2> "$folder/error"
[ $? -ne 0 ] && grep -q 'schedules of MSCCL have no gather' "$folder/error"
check "a collective that MSCCL does not have" $?

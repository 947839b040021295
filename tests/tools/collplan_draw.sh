#!/bin/sh
# Tests collplan draw, and that docs/pictures are what it draws.
# Usage: collplan_draw.sh BUILD-FOLDER SOURCE-FOLDER. Prints TAP.
build=$1
source=$2
. "$(dirname "$0")/../harness/tap.sh"
cd "$dir" || exit 1

topo() { "$build/tools/colltopo" make "$@"; }

# run CODE ARGUMENTS...: true if collplan draw exits with CODE. Output is written to out, err.
run() {
  wanted=$1
  shift
  "$build/tools/collplan" draw "$@" >out 2>err </dev/null
  got=$?
  [ "$got" -eq "$wanted" ] || { echo "# exit code $got, wanted $wanted"; return 1; }
}

# ends CODE SENTENCE ARGUMENTS...: true if it exits with CODE, prints nothing but that one sentence.
ends() {
  code=$1 sentence=$2
  shift 2
  run "$code" "$@" && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -qF "$sentence" err
}
refused() { ends 2 "$@"; } # a wrong command line
failed() { ends 1 "$@"; }  # a wrong file

is_xml() { python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$1"; }

topo dgx-a100 --hosts 2 --fabric rail >dgx2.json
topo dgx-a100 --hosts 2 >apart.json
topo dgx-a100 >dgx1.json
topo laptop --hosts 16 --fabric torus:4x4 >torus.json
topo laptop --hosts 17 --fabric rail >many.json

# 2 hosts, 1 S / 2 each way in each half of allreduce, over two links each: NIC to rail to NIC
run 0 allreduce --algo hierarchical -n 16 --topology dgx2.json && is_xml out &&
  grep -q '10 steps. In all: nvlink 56 S, pcie 8 S, infiniband 4 S' out &&
  grep -q 'steps 1 to 3,</tspan> each nvlink 8 S' out && grep -q 'prefers-color-scheme:dark' out
ok "totals of hierarchical allreduce"

# 30 steps, 1 S / 16 each way between the hosts in each
run 0 allreduce --algo ring -n 16 --topology dgx2.json && is_xml out &&
  grep -q 'steps 1 to 30,</tspan>' out && grep -q 'infiniband 0.25 S<' out &&
  grep -q 'each step takes 75 ms per GB' out
ok "a ring has one frame, and takes 2(p-1)/p S over 25 GB/s"

# 16 hosts; rows: 4 links a step of S / 4 each; columns: of S / 16 each
run 0 allreduce --algo torus2d -n 16 --topology torus.json && is_xml out &&
  grep -q 'steps 1 to 3,</tspan>.*torus 4 S<' out && grep -q 'steps 4 to 9,</tspan>.*torus 1 S<' out
ok "a torus has the loads of its rows and columns"

run 0 allreduce --algo ring -n 4 --topology dgx1.json --animate && is_xml out &&
  [ "$(grep -c 'animation-delay' out)" = 6 ] && grep -q '@keyframes' out
ok "an animation has a frame for each step"

"$build/tools/collplan" show allreduce --algo ring -n 4 | sed 's/^reach .*/&\norder any/' >any.plan
run 0 any.plan --topology dgx1.json && is_xml out && grep -q 'Ranks may hold different bits' out &&
  run 0 allreduce --algo ring -n 4 --topology dgx1.json && ! grep -q 'different bits' out
ok "a plan whose ranks may hold different bits is drawn as one"

"$build/tools/colltopo" convert dgx1.json --to nccl --out dgx1.xml 2>/dev/null
run 0 allreduce --algo twophase_push -n 8 --topology dgx1.xml && is_xml out &&
  grep -q 'In all: nvlink 28 S' out
ok "a topology of NCCL is taken"

run 0 allreduce --algo twophase_push -n 8 --topology dgx1.json && is_xml out &&
  grep -q 'In all: nvlink 28 S' out
ok "loads and stores of peers' memory are drawn"

run 0 broadcast --algo binomial -n 8 --root 3 --topology dgx1.json && is_xml out
ok "a root"

"$build/tools/collplan" show allgather --algo ring -n 8 >ring.plan
run 0 ring.plan --topology dgx1.json && is_xml out && grep -q 'In all: nvlink 14 S' out
ok "a plan from a file"

refused '20 ranks do not fit dgx2.json: 10 of them would share the 8 GPUs of' allreduce -n 20 \
  --topology dgx2.json
ok "ranks that do not fit are refused"

refused 'maps memory of other ranks' allreduce --algo oneshot -n 16 --topology dgx2.json
ok "mapped plans are refused between hosts"

refused 'no links connect' allreduce -n 16 --topology apart.json
ok "hosts without a network are refused"

refused 'a picture of 17 hosts cannot be read' allreduce --algo tree -n 17 --topology many.json
ok "too many hosts are refused"

topo laptop --hosts 2 --fabric rail | sed 's/"host"/"hots"/' >bad.json
failed "did you mean 'host'?" allreduce -n 2 --topology bad.json &&
  failed 'cannot open' allreduce --topology none.json &&
  refused 'give the machines by --topology FILE' allreduce
ok "wrong files are named"

"$source/tools/pictures" "$build" made && diff -r made "$source/docs/pictures"
ok "docs/pictures are what tools/pictures draws"

[ "$(find "$source/docs/pictures" -size +64k | wc -l)" = 0 ] && for each in made/*.svg; do
  is_xml "$each" && cat "$source"/docs/*.md | grep -qF "pictures/${each#made/}" || break
done
ok "pictures are small, and all are shown"
tap_end

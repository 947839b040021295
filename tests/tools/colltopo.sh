#!/bin/sh
# Tests the colltopo executable. Usage: colltopo.sh PATH-TO-COLLTOPO. Prints TAP.
colltopo=$1
. "$(dirname "$0")/../harness/tap.sh"
cd "$dir" || exit 1

# run CODE ARGUMENTS...: true if colltopo exits with CODE. Output is written to out, err.
run() {
  wanted=$1
  shift
  "$colltopo" "$@" >out 2>err </dev/null
  got=$?
  [ "$got" -eq "$wanted" ] || { echo "# exit code $got, wanted $wanted"; return 1; }
}

for kind in dgx-a100 dgx-h100 gb200-nvl72 mi300x laptop; do
  for fabric in rail spine-leaf:2,2 fat-tree:8 dragonfly dragonfly:2,4,2 torus:2x2 mesh:4x1x1; do
    run 0 make $kind --hosts 4 --fabric $fabric && cp out made.json && run 0 check made.json &&
      grep -q '^made.json: host 4, ' out
    ok "$kind with $fabric is made and accepted"
  done
done

run 0 make dgx-h100 --hosts 4 --fabric rail && cp out dgx4.json && run 0 layout dgx4.json -n 16 &&
  [ "$(grep -c 'host2/gpu' out)" = 4 ] && grep -q '15 *host3 *host3/gpu3' out
ok "16 ranks on four hosts"

run 0 layout dgx4.json -n 16 --map by-rail && grep -q '5 *host1 *host1/gpu1' out &&
  run 0 layout dgx4.json -n 16 --map grid && grep -q '4 *host0 *host0/gpu2' out &&
  run 0 paths dgx4.json 4 8 -n 16 --map by-rail && grep -q '^host0/gpu1$' out &&
  grep -q '^ *host0/gpu2 ' out && run 2 paths dgx4.json 4 16 -n 16 && grep -q "no rank '16'" err &&
  run 2 layout dgx4.json -n 16 --map rail && grep -q 'by-rail' err
ok "ranks are mapped to hosts in turn or by tiles"

run 0 predict dgx4.json -n 16 --map by-rail --sizes 64M && grep -q multiring out
ok "rings over rails do not depend on the order of ranks"

run 0 record && cp out here.json && run 0 check here.json && grep -q '^here.json: host 1, ' out &&
  grep -q 'core [1-9]' out && run 0 record --out also.json && [ ! -s out ] &&
  cmp here.json also.json && run 0 layout here.json -n 2
ok "this machine is recorded, to standard output or a file"

run 1 record --out /nowhere/x.json && grep -q 'cannot write /nowhere/x.json: No such file' err &&
  run 2 record here.json && grep -q 'a word too many' err && run 0 record --help &&
  grep -q Examples out
ok "wrong usage of record"

run 0 predict dgx4.json --sizes 1K,64M && grep -q 'allreduce among 32 ranks on 4 hosts' out &&
  [ "$(grep -c 'host0/.* to .* %$' out)" = 2 ]
ok "the algorithm of each size is predicted, with the busiest link"

# sorted: the times of each size in out ascend.
sorted() {
  awk '/^ / { first = $1 ~ /^[0-9]+$/; us = first ? $3 : $2
    if (!first && us < last) exit 1; last = us }' out
}
run 0 predict dgx4.json --collective allgather -n 16 --sizes 1M --all &&
  sorted && run 0 predict dgx4.json --sizes 4,4K,64K,1M,16M,64M --all && sorted &&
  [ "$(grep -c '(chosen' out)" = 6 ]
ok "all algorithms are listed from fast to slow"

# A torus has algorithms that are nearly as fast as each other.
sizes=4,64,1K,4K,16K,64K,256K,1M,4M,16M,64M
"$colltopo" make laptop --hosts 16 --fabric torus:4x4 >torus16.json
run 0 predict torus16.json --sizes $sizes --all && sorted &&
  awk '/^ / { first = $1 ~ /^[0-9]+$/ } /\(chosen\)/ && !first { exit 1 }
    /about as fast/ && first { exit 1 }' out &&
  run 0 predict torus16.json --sizes $sizes && grep -q 'about as fast' out &&
  awk '/^ / { if (substr($6, 2) + 0 < 1 && !/about as fast/) exit 1 }' out
ok "what is chosen is the fastest, or says why not"

run 0 predict dgx4.json --sizes 1M --json && python3 -c '
import json
for row in json.load(open("out"))["rows"]:
    for algo in row["algorithms"]:
        assert abs(sum(algo["terms_us"].values()) - algo["time_us"]) < 1e-6 * algo["time_us"]
'
ok "the terms of a prediction add up"

"$colltopo" make dgx-h100 --hosts 8 --fabric rail >dgx8.json
"$colltopo" make dgx-h100 >dgx1.json

# traffic_is COLLECTIVE MAP CLASS TOTAL BUSIEST: the table in `out` has these bytes.
traffic_is() {
  python3 - "$@" <<'END'
import sys
collective, way, link_class, total, busiest = sys.argv[1:]
lines = [line.split() for line in open("out")]
column = lines[2].index(link_class) - 1
row = [line for line in lines if line[0] == collective and line[2] == way][0]
print("#", *row)
sys.exit(row[column:column + 2] != [str(eval(total)), str(eval(busiest))])
END
}

# A ring by-host leaves each of 8 hosts once, over a link to the switch and one from it; by-rail
# every message does. On a grid of 8 x 8, by-host puts a row on a host, so that the 7 x 8 pairs of
# one column are on different hosts.
ring='2 * 63 * (64 << 20) // 64'
run 0 traffic dgx8.json -n 64 --collective allreduce --algorithm ring &&
  traffic_is allreduce by-host infiniband "8 * 2 * $ring" "$ring" &&
  traffic_is allreduce by-rail infiniband "64 * 2 * $ring" "$ring" &&
  traffic_is allreduce by-rail nvlink 0 0 &&
  run 0 traffic dgx8.json --collective neighbours --bytes 1000 &&
  traffic_is neighbours by-host infiniband '7 * 8 * 2 * 2 * 1000' 2000 &&
  traffic_is neighbours grid infiniband '4 * 8 * 2 * 2 * 1000' 2000
ok "bytes over links are those of the formulas, for each map"

run 0 traffic dgx1.json -n 8 --collective allreduce --algorithm twophase_pull --bytes 8K &&
  traffic_is allreduce by-rail nvlink '2 * 2 * 7 * 8192' '2 * 7 * 8192 // 8' &&
  run 2 traffic dgx8.json --collective allreduce --algorithm twophase_pull &&
  grep -q 'maps memory of other ranks' err
ok "loads of peers' memory are traffic too"

run 0 traffic dgx8.json --collective barrier --svg none.svg && grep -q 'no bytes cross' out &&
  run 0 traffic dgx8.json -n 1 && grep -q 'no bytes cross' out
ok "signals and single ranks have no traffic"

run 2 traffic dgx8.json --collective sums && grep -q "sums" err &&
  run 2 traffic dgx8.json --algorithm ring && grep -q 'of which collective' err &&
  run 2 traffic dgx8.json --collective neighbours --algorithm ring && grep -q 'leave one' err &&
  run 1 traffic dgx8.json --svg /nowhere/x.svg && grep -q 'cannot write /nowhere/x.svg' err
ok "wrong usage of traffic"

"$colltopo" make laptop >laptop.json
run 1 traffic laptop.json -n 4 && grep -q 'one host without GPUs' err &&
  run 1 predict laptop.json -n 4 && grep -q 'one host without GPUs' err
ok "one host without GPUs is measured, not predicted"

run 2 predict dgx4.json --collective sums && grep -q "no collective 'sums'\|sums" err &&
  run 2 predict dgx4.json --sizes 1K,,2K && grep -q 'want up to' err
ok "a wrong collective and wrong sizes are refused"

run 0 show dgx4.json && grep -q '^host0 ... host3  (4 alike, each host' out &&
  grep -q '^    pci0 ... pci3  (4 alike, each pci-switch)' out &&
  grep -q '^      gpu0  (gpu: H100' out && grep -q 'nvlink' out
ok "show folds what is alike"

run 0 paths dgx4.json host0/gpu0 host2/gpu0 && grep -q 'nic0' out &&
  tail -1 out | grep -q 'GB/s, .* links' && run 0 paths dgx4.json host0/gpu0 host0/gpu0 &&
  run 2 paths dgx4.json host0/gpu0 host9/gpu0 && grep -q "no node 'host9/gpu0'; did you mean" err &&
  run 2 paths dgx4.json host0/gpu0 && grep -q 'usage: colltopo paths FILE A B' err
ok "paths between two nodes"

is_xml() { python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$1"; }

for made in 'dgx-a100' 'dgx-h100 --hosts 4 --fabric rail' \
  'mi300x --hosts 2 --fabric spine-leaf:2,2' \
  'gb200-nvl72 --hosts 16 --fabric fat-tree:8' 'dgx-a100 --hosts 16 --fabric dragonfly' \
  'laptop --hosts 12 --fabric torus:2x2x3' 'laptop --hosts 4 --fabric mesh:4' \
  'gb200-nvl72 --hosts 36 --fabric rail' 'dgx-h100 --hosts 64 --fabric spine-leaf:8,4'; do
  # shellcheck disable=SC2086
  "$colltopo" make $made >made.json && run 0 draw made.json && is_xml out &&
    grep -q 'prefers-color-scheme:dark' out && ! grep -qwE 'nan|inf' out
  ok "a picture of $made"
done

run 0 draw dgx4.json && [ "$(grep -c '<rect class="host"' out)" = 4 ] &&
  [ "$(grep -c '<rect class="gpu" .*<title>' out)" = 32 ] &&
  [ "$(grep -c '<rect class="nic" .*<title>' out)" = 32 ] &&
  [ "$(grep '<path class="infiniband" .* d="' out | grep -v 'h20"' | grep -o M | wc -l)" = 32 ] &&
  grep -q 'nvlink 18 x 25 GB/s' out
ok "a picture has all boxes and links, and a legend"

run 0 traffic dgx8.json --svg maps.svg && grep -q '^  neighbours  - *grid ' out &&
  is_xml maps.svg && grep -q '>infiniband<' maps.svg &&
  [ "$(grep -c '<rect x=.*<text' maps.svg)" = 75 ] &&
  ! grep -qwE 'nan|inf|script' maps.svg
ok "a picture of the traffic"

python3 - <<'END' && run 0 draw evil.json && is_xml out && grep -q 'a&lt;b&amp;&quot;' out
import json
json.dump({"nodes": [{"name": 'a<b&"', "kind": "host", "model": "<g/>"}], "links": []},
          open("evil.json", "w"))
END
ok "names cannot break a picture"

"$colltopo" make dgx-h100 --hosts 64 --fabric spine-leaf:8,4 >big.json && run 0 draw big.json &&
  [ "$(grep -c '<rect class="host"' out)" = 1 ] && grep -q '>8 x leaf<' out &&
  grep -q 'infiniband 512 x 50 GB/s' out
ok "of many hosts one is drawn, and switches are added up"

head -c 3000 dgx4.json >cut.json
run 1 check cut.json && grep -q 'cut.json:[0-9]*: the file ends in the middle' err
ok "a cut-off file is rejected"

# Bytes of a conversion and back are the same from the second time on; without switches beyond the
# NICs nothing is lost.
for made in 'dgx-a100 nccl' 'dgx-h100 nccl' 'gb200-nvl72 nccl' 'mi300x rccl'; do
  to=${made#* }
  "$colltopo" make "${made% *}" --fabric rail >one.json &&
    run 0 convert one.json --to "$to" --out one.xml && run 0 check one.xml &&
    cut -d: -f2 out >counts && run 0 check one.json && cut -d: -f2 out | cmp -s - counts &&
    run 0 convert one.xml --out back.json && run 0 convert back.json --to "$to" &&
    cmp -s out one.xml
  ok "$made: there and back"
  run 0 convert one.json --to hwloc --out one.xml && run 0 convert one.xml && cp out back.json &&
    run 0 check back.json && grep -q 'host 1, package 2, numa 2,' out
  ok "${made% *} to hwloc's XML and back"
done

run 1 convert dgx4.json --to nccl && grep -q 'has 4 hosts .* --host host0' err &&
  run 1 convert dgx4.json --to nccl --host host9 && grep -q "no host is called 'host9'" err &&
  run 0 convert dgx4.json --to nccl --host host2 && grep -q '<system version="1"' out &&
  grep -q '^warning: 8 links of class infiniband are left out' err &&
  run 1 convert dgx4.json --host host2 && grep -q 'is for formats of one host' err
ok "one of several hosts"

# As cloud images have it: an NVLink of a GPU to itself.
cat >cloud.xml <<'END'
<system version="1">
  <cpu numaid="0" affinity="3" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="0002:00:00.0" class="0x030200" link_speed="" link_width="0">
      <gpu dev="0" sm="80" rank="0" gdr="1">
        <nvlink target="0002:00:00.0" count="12" tclass="0x030200"/>
      </gpu>
    </pci>
    <pci busid="0003:00:00.0" class="0x030200"><gpu dev="1" sm="80" rank="1"/></pci>
  </cpu>
</system>
END
for command in 'check cloud.xml' 'convert cloud.xml' 'show cloud.xml' 'draw cloud.xml' \
  'layout cloud.xml' 'paths cloud.xml host0/gpu0 host0/gpu1' 'predict cloud.xml' \
  'traffic cloud.xml'; do
  # shellcheck disable=SC2086
  run 0 $command && [ -s out ] && [ "$(wc -l <err)" = 1 ] &&
    grep -q '^warning: cloud.xml:5: 12 links to target="0002:00:00.0" are left out' err
  ok "${command%% *} takes a file of NCCL"
done

run 0 show one.xml && grep -q '^host0' out && run 0 draw one.xml && is_xml out &&
  run 0 paths one.xml host0/gpu0 host0/gpu1
ok "commands take XML of hwloc"

printf '<?xml version="1.0"?>\n<topology version="9.2">\n</topology>\n' >new.xml &&
  run 1 check new.xml && grep -q 'new.xml:2: <topology version="9.2"> is newer than' err &&
  grep -q 'lstopo --of v[0-9]xml' err && printf 'GPU0 GPU1\n' >matrix && run 1 show matrix &&
  grep -q "matrix:1: a file that begins with 'GPU0 GPU1' is no topology" err
ok "files of newer formats and of no format"

head -c 3000 one.xml >cut.xml && printf '  <!-- x -->\n<system version="1">\n<cpu/>' >bad.xml
run 1 check bad.xml && grep -q 'bad.xml:3: <cpu> has no numaid; add' err &&
  run 1 convert bad.xml --to hwloc --out none.xml && [ ! -e none.xml ] &&
  run 1 check cut.xml && grep -q 'cut.xml' err && run 1 convert one.xml --from json &&
  grep -q 'one.xml:1: not JSON' err && run 2 convert one.xml --to xml && run 0 convert --help &&
  grep -q NCCL_TOPO_FILE out
ok "files and formats that are wrong"

run 2 make dgx-h200 && grep -q "did you mean 'dgx-[ah]100'" err &&
  run 2 make laptop --hosts 4 --fabric torus:3x2 && grep -q 'do not multiply to 4 hosts' err &&
  run 2 make laptop --fabric ring && grep -q "no fabric 'ring'" err &&
  run 2 shwo && grep -q 'no command' err
ok "wrong usage"

run 0 --help && grep -q Examples out && run 0 make --help && grep -q 'data sheet' out &&
  run 0 check --help && run 0 layout --help && run 0 traffic --help && grep -q Examples out
ok "help teaches by example"
tap_end

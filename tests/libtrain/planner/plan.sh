#!/bin/sh
# Tests gpt plan as a command: the ZeRO paper's tables, the list of layouts and its errors. The
# table of stages is tested in ../gpt.sh. Usage: plan.sh PATH-TO-GPT. Prints TAP.
gpt=$1
. "$(dirname "$0")/../../harness/tap.sh"
cd "$dir" || exit 1

# plan ARGUMENTS...: runs gpt plan; output goes to the files out and err.
plan() { "$gpt" plan "$@" >out 2>err </dev/null; }

# rejects WORDS ARGUMENTS...: succeeds if gpt plan fails with one line that contains WORDS.
rejects() {
  words=$1
  shift
  ! plan "$@" && [ "$(grep -c '^gpt' err)" = 1 ] && grep -qF -- "$words" err
}

# row WORDS...: succeeds if a line of out consists of these words.
row() { sed 's/|//g; s/  */ /g; s/^ //; s/ $//' out | grep -qxF -- "$*"; }

# ---- the ZeRO paper's tables, as printed there

plan --zero-table 1 && row 4 52.5 41.3 30 896 704 512 7000 5500 4000 &&
  row 64 31.4 16.6 1.88 536 284 32 4187 2218 250 &&
  row 1024 30.1 15.1 0.12 513 257 2 4011 2013 15.6
ok "table 1: memory per device"

plan --zero-table 2 && row 1 64 2B 7.6B 14.4B 128B && row 4 256 8B 30.4B 57.6B 0.5T &&
  row 16 1024 32B 121.6B 230.4B 2T
ok "table 2: largest models"

rejects '--zero-table 3' --zero-table 3
ok "a table that the paper does not have on this subject"
# ---- layouts

# Two hosts of four GPUs on one switch: 100 GB/s inside, 12.5 GB/s for each host's NIC.
python3 - >two.json <<'END'
import json
nodes, links = [{"name": "switch", "kind": "switch"}], []
for h in range(2):
    host = "host%d" % h
    nodes += [{"name": host, "kind": "host"},
              {"name": host + "/nvswitch", "kind": "nvswitch", "parent": host},
              {"name": host + "/nic0", "kind": "nic", "parent": host}]
    links.append({"a": host + "/nic0", "b": "switch", "class": "infiniband",
                  "gigabytes_per_s": 12.5, "latency_us": 1})
    for g in range(4):
        gpu = "%s/gpu%d" % (host, g)
        nodes.append({"name": gpu, "kind": "gpu", "parent": host, "model": "H100 SXM"})
        links += [{"a": gpu, "b": host + "/nvswitch", "class": "nvlink", "gigabytes_per_s": 100,
                   "latency_us": 1},
                  {"a": gpu, "b": host + "/nic0", "class": "pcie", "gigabytes_per_s": 50,
                   "latency_us": 1}]
print(json.dumps({"nodes": nodes, "links": links}))
END
wide="--layers 8 --heads 16 --width 2048 --context 256 --vocabulary 50257 --batch 64"

plan $wide --ranks 8 --topology two.json --precision bf16 --json wide.json &&
  grep -qF '8 ranks on 2 hosts: 100 GB/s inside and 3.125 GB/s between hosts, 494.5 TFLOP/s' out &&
  grep -qF '80 GB of memory' out && grep -q '^collrun -n 8 gpt train --layers 8 .*--batch 64' out &&
  python3 - 2>err <<'END'
import json
plan = json.load(open("wide.json"))
layouts, impossible = plan["layouts"], plan["impossible"]
assert len(layouts) + len(impossible) == 20  # 8 = 2^3 over four axes
times = [layout["time"]["step_s"] for layout in layouts]
assert times == sorted(times)
for layout in layouts:
    sizes, memory, time = layout["sizes"], layout["memory"], layout["time"]
    assert sizes["tp"] * sizes["cp"] * sizes["dp"] * sizes["pp"] == 8, layout
    assert memory["total_bytes"] == sum(
        memory[kind + "_bytes"] for kind in ["parameter", "weight", "gradient", "moment",
                                             "workspace", "activation", "buffer"]), layout
    parts = (time["compute_s"] + time["bubble_s"] + time["update_s"] +
             sum(time["exposed_s"].values()))
    assert 0 < time["elementwise_s"] < time["compute_s"] and time["update_s"] > 0, layout
    assert abs(parts - time["step_s"]) < 1e-9 * time["step_s"], layout
    assert ("--tp %d" % sizes["tp"] in layout["flags"]) == (sizes["tp"] > 1), layout
    # Neighbours on the tensor axis are on one host if there are no more than four.
    between = layout["sent_bytes"].get("tp", {"between": 0})["between"]
    assert (between > 0) == (sizes["tp"] > 4), layout
assert layouts[0]["sizes"]["tp"] <= 4, layouts[0]
END
ok "layouts for a topology, fastest first"

plan $wide --ranks 8 --memory 2G --tflops 100 --explain --host-ranks 4 &&
  grep -q '^1 (--.*)$' out && grep -q '^is [0-9.]* % faster than 2 (--.*):$' out &&
  grep -q ' instead of .* ms$' out &&
  grep -q '^ *[0-9]* *a rank of stage 0 needs .* of 2.15 GB: more --tp' out
ok "why the first layout is faster than the second, and what excludes others"

plan --model gpt2-xl --ranks 64 --batch 512 --memory 80G --explain --rows 3 &&
  grep -q '^64 ranks on 8 hosts' out && grep -q '^ *1  .*--dp ' out &&
  ! grep -q '^ *4  .*--dp' out &&
  grep -q -- '--tp 8 does not divide the 25 attention heads: the nearest .* is --tp 5' out &&
  grep -q '^collrun -n 64 gpt train --preset gpt2-xl ' out
ok "a preset whose heads are uneven"

plan $wide --ranks 8 --tp 2 --pp 2 --zero 1 --accumulate 4 --recompute block --tflops 100 &&
  [ "$(grep -c -- '--tp 2 .*--pp 2 .*--zero 1 --accumulate 4 .*--recompute block$' out)" = 3 ]
ok "options that are given are kept"

rejects 'layouts are listed for one number of ranks' --tp 2 --ranks 2,4 &&
  rejects 'layouts are listed for one number of ranks' --model gpt2 &&
  rejects "unknown model 'gpt3'" --model gpt3 --ranks 8 &&
  rejects 'no layout of 8 ranks is possible; the nearest is --dp' --ranks 8 --memory 1K &&
  rejects 'does not divide' --ranks 8 --tp 3 --memory 1G &&
  rejects '--tflops -1: give a positive number' --ranks 8 --memory 1G --tflops -1 &&
  rejects '--memory-bandwidth -1: give a' --ranks 8 --memory 1G --memory-bandwidth -1 &&
  rejects '--ranks 16: the topology has 8 GPUs' --ranks 16 --topology two.json &&
  rejects 'No such file' --ranks 8 --topology missing.json &&
  rejects 'cannot write --json' --ranks 8 --memory 1G --json no/plan.json
ok "invalid options of a list of layouts"

small="--layers 4 --heads 2 --width 32 --context 32 --vocabulary 257 --batch 16 --ranks 4"
plan $small --pp 4 --untied --schedule pipedream-2bw &&
  grep -q '^collrun .* --untied .* --schedule pipedream-2bw --clip-by stage' out &&
  plan $small --ep 2 --experts 4 --top-k 2 --shared-expert &&
  grep -q '^collrun .* --experts 4 --top-k 2 --moe-every 1 --shared-expert .* --ep 2' out &&
  rejects 'give --untied' $small --pp 4 --schedule pipedream &&
  rejects 'give --accumulate 1' $small --pp 4 --untied --schedule pipedream --accumulate 2 &&
  rejects 'give --precision bf16' $small --pp 4 --untied --schedule pipedream --precision fp16
ok "the command trains the model that was planned; PipeDream only if it can"

tap_end

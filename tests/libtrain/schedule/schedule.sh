#!/bin/sh
# Tests gpt schedule: what it prints for each kind, pictures, JSON, and one clear error line for
# each kind of invalid input. Usage: schedule.sh PATH-TO-GPT. Prints TAP.
gpt=$1
tests=$(cd "$(dirname "$0")" && pwd)
. "$tests/../../harness/tap.sh"
cd "$dir" || exit 1

# schedule ARGUMENTS...: output goes to the files out and err.
schedule() { timeout 300 "$gpt" schedule "$@" >out 2>err </dev/null; }

# shows WORDS: a line of the output has them.
shows() { grep -qF -- "$1" out; }

# rejects WORDS ARGUMENTS...: fails with exactly one line, which has them.
rejects() {
  words=$1
  shift
  ! schedule "$@" && [ "$(wc -l <err)" = 1 ] && grep '^gpt schedule: ' err | grep -qF -- "$words"
}

# ---- kinds

schedule --pp 4 --microbatches 8 --kind 1f1b && [ ! -s err ] &&
  shows 'schedule 1f1b: 4 stages, 8 micro-batches' &&
  shows 'stage 0    F0 F1 F2 F3 .  .  .  .  .  .  B0--- F4 B1--- F5' &&
  shows 'stage 3    .  .  .  F0 B0--- F1 B1--- F2' && shows 'valid: every pass runs once' &&
  shows '    1                   3      3      3         1   27.3 %' &&
  shows 'bubble 27.27 %, as the formula says: (p-1) / (m + p-1)' && shows 'staleness 0'
ok "1f1b is drawn, proved and compared with its formula"

# agrees KIND BUBBLE ARGUMENTS...
agrees() {
  kind=$1 bubble=$2
  shift 2
  schedule --kind "$kind" "$@" && shows 'valid: every pass' &&
    shows "bubble $bubble %, as the formula says"
}
agrees naive 75.00 && agrees gpipe 27.27 && agrees interleaved 15.79 && agrees zb-h1 11.11 &&
  agrees terapipe 8.57 && agrees interleaved 8.57 --virtual-stages 4
ok "the synchronous kinds have the bubbles of their formulas"

agrees pipedream 27.27 && shows '8 updates of 1 micro-batch' && shows 'staleness 3' &&
  agrees pipedream-2bw 11.11 && shows '3 updates of 8 micro-batches' && shows 'staleness 1'
ok "the asynchronous kinds say how old their weights are"

agrees 1f1b 75.00 --pp 4 --microbatches 1 && shows 'note: fewer micro-batches than stages' &&
  agrees 1f1b 0.00 --pp 1 && ! shows 'note:'
ok "fewer micro-batches than stages are legal, and said once"

schedule --kind interleaved && shows 'F0a F1a F2a F3a F0b' && schedule --kind terapipe &&
  shows 'F0.0 F0.1' && schedule --kind zb-h1 && shows 'B0 W0 F4'
ok "labels name chunk, slice and the parts of backward"

# ---- costs

schedule --kind 1f1b --latency 0.5 && shows '; with equal stages and no latency 27.27 %' &&
  schedule --kind gpipe --costs 1,2,3 --update 1 && shows '5 backward (input 2, weights 3), 1 to' &&
  shows 'U7'
ok "costs, latency and updates change the times"

schedule --kind terapipe --slices 2 && shows ' of 2 slices' && shows 'as the formula says' &&
  schedule --kind terapipe --slices 30,10 && shows ' of 2 slices' &&
  ! shows 'as the formula says' && shows 'F0.0---------- F0.1' &&
  schedule --kind terapipe --microbatches 1 && ! shows 'note:'
ok "slices of equal and of given lengths"

schedule --pp 3 --layer-costs 0.5,8*1,3 && shows '10 layers, the slowest stage' &&
  shows 'stage 2: layers 8 to 9, 34.8 % of the time' && shows 'bubble'
ok "layers are cut into stages"

# Every partition of few layers over few ranks, with all numbers of replicas, straight from
# PipeDream's definition: a stage of r ranks takes the larger of its computation and of an allreduce
# of its weights, divided by r; the slowest stage or transfer decides.
cat >brute.py <<'END'
import random, subprocess, sys

def best(times, weights, transfers, ranks, most):
    if not times: return 0 if ranks == 0 else float("inf")
    found = float("inf")
    for end in range(1, len(times) + 1):
        for r in range(1, min(ranks, most) + 1):
            stage = max(sum(times[:end]), 2 * (r - 1) / r * sum(weights[:end])) / r
            sent = transfers[end - 1] if end < len(times) else 0
            rest = best(times[end:], weights[end:], transfers[end:], ranks - r, most)
            found = min(found, max(stage, sent, rest))
    return found

def text(values): return ",".join("%g" % value for value in values)

random.seed(1)
for case in range(24):
    layers, ranks, most = random.randint(1, 5), random.randint(1, 5), random.randint(1, 5)
    if layers * most < ranks: continue
    times = [random.randint(1, 40) for _ in range(layers)]
    weights = [random.randint(0, 40) for _ in range(layers)]
    transfers = [random.randint(0, 20) for _ in range(layers - 1)]
    words = [sys.argv[1], "schedule", "--ranks", str(ranks), "--max-replicas", str(most),
             "--layer-costs", text(times), "--layer-weights", text(weights)]
    if transfers: words += ["--transfers", text(transfers)]
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in out.split("\n\n")[0].splitlines()[2:]]
    assert sum(int(row[-2]) for row in rows) == ranks, out
    assert all(1 <= int(row[-2]) <= most for row in rows), out
    assert rows[0][1] == "0" and int(rows[-1][-3]) == layers - 1, out
    wanted = best(times, weights, transfers, ranks, most)
    got = float(out.split("a micro-batch every ")[1].split(";")[0])
    assert abs(got - wanted) <= 1e-5 * wanted, (words, wanted, out)
END
python3 brute.py "$gpt" 2>err
ok "replicas of stages are the best of all partitions"

schedule --ranks 4 --layer-costs 3,1 --layer-weights 0.1,50 --transfers 0.2 &&
  shows '    0  0                   3  1' && shows '    1  1                   1  1' &&
  shows 'a micro-batch every 1; micro-batches in flight per replica of stage 0: 2' &&
  shows 'one stage of 4 replicas (data parallelism): every 18.7875' &&
  schedule --ranks 2 --layer-costs 3,1 && shows '2 stages of one rank (pipeline alone): every 3'
ok "replicas beside data parallelism and a pipeline alone"

rejects 'give their times with --layer-costs' --ranks 4 &&
  rejects '--layer-weights is of stages that have replicas: give --ranks' --layer-weights 1,2 &&
  rejects '--max-replicas is of stages' --max-replicas 2 &&
  rejects '--transfers 1,2: give 1 times of at least 0' --ranks 2 --layer-costs 1,1 \
    --transfers 1,2 &&
  rejects '--layer-weights 1,x: give 2 times' --ranks 2 --layer-costs 1,1 --layer-weights 1,x &&
  rejects 'not enough for 5 ranks' --ranks 5 --max-replicas 2 --layer-costs 1,1 &&
  rejects 'leave out --pp' --ranks 2 --pp 2 --layer-costs 1,1 &&
  rejects 'too many: give --max-replicas' --ranks 1024 --layer-costs 4096*1
ok "replicas that cannot be are refused"

schedule --microbatches 8 --columns 60 && [ "$(grep -c '^time' out)" -gt 1 ] &&
  awk '/^(time|stage [0-9]+   )/ && length($0) > 60 { wide = 1 } END { exit wide }' out
ok "long timelines are printed in blocks"

# ---- files

schedule --kind interleaved --svg picture.svg --json schedule.json &&
  [ "$(grep -c '<rect class="forward".*<title>' picture.svg)" = 64 ] &&
  grep -q '<title>backward of micro-batch 7, chunk 1, version 0' picture.svg &&
  [ "$(tail -n 1 picture.svg)" = '</svg>' ]
ok "the picture has a box for each action"

python3 - schedule.json >out 2>err <<'END'
import json, sys
schedule = json.load(open(sys.argv[1]))
assert schedule["kind"] == "interleaved" and schedule["virtual_stages"] == 2
assert abs(schedule["bubble"] - 3 / 19) < 1e-12 and schedule["window"] == 1
stages = schedule["stages"]
assert [len(stage["actions"]) for stage in stages] == [33] * 4
first = stages[0]["actions"][0]
assert first["kind"] == "forward" and first["receives"] is None
assert first["sends"] == {"payload": "activations", "stage": 1}
wraps = stages[3]["actions"][0]
assert wraps["sends"] == {"payload": "activations", "stage": 0}
assert all(stage["actions"][-1]["kind"] == "update" for stage in stages)
END
ok "the JSON has every action with its messages"

rejects 'cannot write --svg none/a.svg' --svg none/a.svg &&
  rejects 'cannot write --json none/a.json' --json none/a.json &&
  rejects 'a picture of' --pp 16 --microbatches 2000 --svg big.svg && [ ! -e big.svg ]
ok "files that cannot be written are errors"

# ---- invalid input

rejects '10 is no multiple of that; use 12 or 8' --kind interleaved --microbatches 10 &&
  rejects 'with 1 it is 1f1b' --kind interleaved --virtual-stages 1 &&
  rejects 'use interleaved' --kind 1f1b --virtual-stages 2 &&
  rejects 'use terapipe' --kind gpipe --slices 2 && rejects "'1f1b'" --kind 1f1 &&
  rejects '--pp' --pp 0 && rejects '--costs 1,1: give the times' --costs 1,1 &&
  rejects '--costs 1,-1,1' --costs 1,-1,1 && rejects '--costs 0,0,0' --costs 0,0,0 &&
  rejects '--layer-costs 1,x' --layer-costs 1,x && rejects 'not enough for 4 ranks' \
  --layer-costs 1,1 && rejects 'at least 0' --latency -1 && rejects "argument 'x'" x
ok "invalid options are refused with a sentence"

schedule --help && shows 'gpt schedule --pp 4 --microbatches 8 --kind 1f1b' && shows 'zb-h1'
ok "--help teaches by example"

tap_end

#!/bin/sh
# limit from outside: that it has figures, with a root and without, with a core for every rank and
# without, and that larger calls move for longer.
# Usage: limit.sh LIMIT. Speaks TAP.
limit=$(realpath "$1")
. "$(dirname "$0")/../harness/tap.sh"
cd "$dir" || exit 1

# has_figures EXPRESSION: it holds of the document, `found`, and nothing else was said.
has_figures() {
  python3 -c "import json, sys
found = json.load(open('out'))
sys.exit(not ($1))" 2>>err && [ ! -s err ]
}

for collective in allreduce broadcast alltoall; do
  "$limit" -n 2 --sizes 0,12,2M "$collective" >out 2>err
  has_figures "[m['bytes'] for m in found['moves']] == [0, 12, 2 << 20] and
    all(m['mapped_us'] > 0 and m['staged_us'] > 0 for m in found['moves']) and
    found['moves'][2]['mapped_us'] > 20 * found['moves'][1]['mapped_us'] and
    found['round_trip_us'] >= found['one_way_us'] > 0"
  ok "$collective among two ranks"
done

for collective in broadcast allgather; do
  "$limit" -n 2 --sizes 12,64K,2M "$collective" >out 2>err
  has_figures "found['moves'][2]['crossing_us'] > 3 * found['moves'][1]['crossing_us'] >
    9 * found['moves'][0]['crossing_us'] > 0"
  ok "what crosses in $collective"
done

# Which way is the faster is the machine's to say: staging costs little beside loads from memory.
"$limit" -n 2 --cpus 0 --sizes 12,2M allgather >out 2>err
has_figures "found['ranks'] == 2 and all('crossing_us' not in m for m in found['moves']) and
  all(found['moves'][1][way] > 20 * found['moves'][0][way] > 0
      for way in ['mapped_us', 'staged_us']) and
  found['one_way_us'] > 0"
ok "ranks that share a core"

"$limit" barrier >out 2>err
[ $? -eq 2 ] && grep -q 'no limit of barrier' err && [ ! -s out ]
ok "refuses what moves nothing"

tap_end

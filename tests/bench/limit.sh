#!/bin/sh
# Runs limit and checks its JSON: with and without a root, with and without a core for every rank.
# Usage: limit.sh LIMIT. Speaks TAP.
limit=$(realpath "$1")
. "$(dirname "$0")/../harness/tap.sh"
cd "$dir" || exit 1

# has_figures EXPRESSION: true of the document `found`, with empty standard error.
has_figures() {
  python3 -c "import json, sys
found = json.load(open('out'))
sys.exit(not ($1))" 2>>err && [ ! -s err ]
}

# show_times KIND: of each size.
show_times() {
  figure "$collective: $(python3 -c "import json
moves = json.load(open('out'))['moves']
print(', '.join('%d bytes %.3g us' % (move['bytes'], move['$1']) for move in moves))")"
}

for collective in allreduce broadcast alltoall; do
  "$limit" -n 2 --sizes 0,12,2M "$collective" >out 2>err
  has_figures "[m['bytes'] for m in found['moves']] == [0, 12, 2 << 20] and
    all(m['mapped_us'] > 0 and m['staged_us'] > 0 for m in found['moves']) and
    found['round_trip_us'] > 0 and found['one_way_us'] > 0"
  ok "$collective among two ranks"
  show_times mapped_us
done

for collective in broadcast allgather; do
  "$limit" -n 2 --sizes 12,64K,2M "$collective" >out 2>err
  has_figures "all(m['crossing_us'] > 0 for m in found['moves'])"
  ok "baseline message of $collective"
  show_times crossing_us
done

collective=allgather
"$limit" -n 2 --cpus 0 --sizes 12,2M $collective >out 2>err
has_figures "found['ranks'] == 2 and all('crossing_us' not in m for m in found['moves']) and
  all(m['mapped_us'] > 0 and m['staged_us'] > 0 for m in found['moves']) and
  found['one_way_us'] > 0"
ok "ranks that share a core"
show_times mapped_us

"$limit" barrier >out 2>err
[ $? -eq 2 ] && grep -q 'does not measure barrier' err && [ ! -s out ]
ok "rejects a collective without data"

tap_end

#!/bin/sh
# Makes docs/algorithms.md again and compares. The command itself fails if a plan and the formula of
# its paper differ by a byte. Usage: collplan_table.sh PATH-TO-COLLPLAN docs/algorithms.md. TAP.
collplan=$1
page=$2
. "$(dirname "$0")/../harness/tap.sh"

"$collplan" table >"$dir/out" 2>"$dir/err" || cat "$dir/err"
"$collplan" table >"$dir/out" 2>"$dir/err" && [ ! -s "$dir/err" ]
ok "every plan moves what its formula says"

cmp "$dir/out" "$page"
ok "docs/algorithms.md is what collplan table prints"

"$collplan" list | awk 'NR > 1 && $3 ~ /own|scratch|read|user/ { print "| `" $2 "` |" }' | sort -u |
  while read -r row; do grep -qF "$row" "$page" || echo "$row"; done >"$dir/missing"
[ "$("$collplan" list | wc -l)" -gt 90 ] && [ ! -s "$dir/missing" ]
ok "every algorithm has a row"
tap_end

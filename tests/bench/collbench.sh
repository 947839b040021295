#!/bin/sh
# Runs collbench: as threads and under launchers, with correct and with corrupted results, with a
# rank that is killed, and with wrong command lines.
# Usage: collbench.sh COLLBENCH COLLRUN [LIBRARY-THAT-CORRUPTS]. Speaks TAP.
collbench=$(realpath "$1")
collrun=$(realpath "$2")
corrupt=${3:+$(realpath "$3")}
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/../net/running.sh"
cd "$dir" || exit 1

# run CODE COMMAND...: true if the exit code is CODE. Writes the output to out and err.
run() {
  expected=$1
  shift
  "$@" >out 2>err </dev/null
  got=$?
  [ "$got" -eq "$expected" ] || { echo "# exit code $got, expected $expected"; return 1; }
}

# The last run found no wrong element and printed no error.
right() { grep -q '^# Wrong elements *: 0 OK$' out && [ ! -s err ]; }
one_line() { [ "$(wc -l <err)" = 1 ] && [ ! -s out ]; }
now_ms() { date +%s%3N; }

# ---- threads and launchers

run 0 "$collbench" allreduce -b 8 -e 4K -n 4 && right && [ "$(grep -c ' float32 ' out)" = 10 ]
ok "a process without a launcher is one rank"

run 0 "$collbench" all --algo all --threads 4 --counts 0,1,1001 -n 2 -w 1 && right
ok "threads: every collective and algorithm"

# In ranks that are processes of one thread ThreadSanitizer finds nothing.
if [ "$(sanitizer_of "$collbench")" != thread ]; then
  run 0 "$collrun" -n 3 "$collbench" all --algo all --counts 0,1,1001 -n 2 -w 1 --root all && right
  ok "processes: every collective, algorithm and root"

  run 0 "$collrun" -n 2 "$collbench" allreduce --sizes 0,4,1003,1M -d all -o all -n 1 -w 0 && right
  ok "every dtype and reduction"
fi

run 0 "$collrun" -n 3 "$collbench" all --counts 77 --mem coll --stream -u 1 -n 8 &&
  right
ok "memory from coll_mem_alloc, a host stream, misaligned buffers"

run 0 "$collrun" -n 2 "$collbench" allgather --sizes 64K -c 0 -n 2 && grep -q 'not checked' out
ok "-c 0 does not check"

run 0 "$collrun" -n 2 "$collbench" allgather --sizes 64K -n 0 && right && grep -q 'not timed' out
ok "-n 0 does not time"

if command -v mpirun >/dev/null 2>&1; then
  # Sanitizers would report what the launcher's library does.
  run 0 env LSAN_OPTIONS=detect_leaks=0 \
    TSAN_OPTIONS="${TSAN_OPTIONS-}:ignore_noninstrumented_modules=1" \
    mpirun --allow-run-as-root --oversubscribe -n 2 "$collbench" allreduce --sizes 4K -n 2 && right
  ok "mpirun"
fi

# forms EXPECTED: which forms every line has times for; 10: only out of place.
forms() {
  awk -v expected="$1" '$3 == "float32" && ($6 != "-") ($10 != "-") != expected { exit 1 }' out
}
run 0 "$collrun" -n 2 "$collbench" allreduce --sizes 8,64K -n 4 --place out && right && forms 10 &&
  run 0 "$collrun" -n 2 "$collbench" allreduce --sizes 8 -n 4 --place in && right && forms 01 &&
  run 0 "$collrun" -n 2 "$collbench" allreduce --sizes 8 -n 4 && right && forms 11
ok "--place measures one form or both"

begin=$(now_ms)
run 0 "$collrun" -n 2 "$collbench" allreduce --sizes 1M -n 1000000 --time-ms 50 && right &&
  [ $(($(now_ms) - begin)) -lt 60000 ]
ok "--time-ms limits the time of a large -n"

# ---- predicted times

run 0 "$collrun" -n 3 "$collbench" allreduce --sizes 4,64K --mem coll --explain --json why.json &&
  [ "$(grep -c '^ .*\*' out)" = 2 ] && [ ! -s err ] && grep -q 'among 3 ranks' out &&
  [ "$(grep -c '"chosen": true' why.json)" = 2 ] && grep -q '"shared"' why.json
ok "--explain marks the chosen algorithm of each size"

run 0 "$collrun" -n 3 sh -c 'COLL_HOST_ID=h$((RANK / 2)) exec "$@"' - "$collbench" barrier -n 1 \
  --show-routes &&
  grep -q '^#    0    self     shm     tcp$' out && grep -q '^#    2     tcp     tcp    self$' out
ok "--show-routes shows a matrix"

run 0 "$collbench" all --threads 4 --sizes 64K --explain &&
  [ "$(grep -c '^ .*\*' out)" = "$(grep -c ' among 4 ranks' out)" ] &&
  grep -q "reaches into users' memory.*: .*mapped" out
ok "--explain lists ruled-out algorithms, for every collective"

# ---- the JSON file

run 0 "$collrun" -n 2 "$collbench" reduce --algo all --sizes 0,4K --json rows.json -n 2 && right &&
  grep -q '"processor"' rows.json && grep -q '"busbw_gb_s"' rows.json &&
  [ "$(grep -c '"collective": "reduce"' rows.json)" = "$(grep -c ' float32 ' out)" ]
ok "--json holds the machine and every row"

if command -v python3 >/dev/null 2>&1; then
  python3 -m json.tool rows.json >/dev/null
  ok "--json is JSON"
fi

run 1 "$collbench" allreduce --sizes 8 --json no/such/folder/x && one_line
ok "--json with a file that cannot be written"

# ---- wrong results

if [ -n "$corrupt" ]; then
  run 1 env LD_PRELOAD="$corrupt" "$collrun" -n 3 "$collbench" allreduce --sizes 4K -n 2 &&
    grep -q '^# Wrong elements *: 2 FAILED$' out &&
    grep -q 'rank 1: wrong: allreduce float32 sum.*element 5 is .*, not ' err
  ok "one wrong bit is counted, reported and fails the run"
fi

# ---- a rank that is killed

# The others have as long as they need to say it.
rm -f out
# shellcheck disable=SC2046
"$collrun" -n 3 --grace-ms 100000 sh -c 'echo $$ >pid-$RANK; exec "$@"' sh \
  "$collbench" allreduce $(many_rows 262144) >out 2>err </dev/null &
job=$!
eventually calls_run
victim=$(cat pid-1)
before=$(now_ms)
kill -KILL "$victim"
wait $job
code=$?
took=$(($(now_ms) - before))
[ $code -eq 137 ] && [ $took -lt 30000 ] &&
  grep -q "collrun: rank 1 (pid $victim) .*signal 9" err &&
  [ "$(grep -c '^collbench: .*rank 1' err)" = 2 ]
ok "the other ranks name the killed rank and exit"

# ---- options of nccl-tests

run 0 "$collbench" allreduce -g 1 -t 2 -b8 -e1K -f 2 -n 4 -m 10 -a 1 -p 1 -z 0 -C 0 -T 60 &&
  grep -q '^# Wrong elements *: 0 OK$' out && [ "$(grep -c ' float32 ' out)" = 8 ] &&
  [ "$(grep -c 'change nothing here: -p$' err)" = 1 ] && [ "$(wc -l <err)" -le 2 ]
ok "all of them are accepted, and those without effect are said once"

run 0 "$collrun" -n 2 "$collbench" allreduce -b 8 -e 16 -N 3 -S 1 -n 2 -p 1 -J rows.json &&
  [ "$(grep -c '  20[0-9-]* [0-9:]*$' out)" = 6 ] && [ "$(wc -l <err)" = 1 ] &&
  python3 -c 'import json; assert len(json.load(open("rows.json"))["rows"]) == 6'
ok "cycles, timestamps and a file"

# A call in a group takes the time of a group by their number: no more than one alone, and noise.
time_of() { awk '$3 == "float32" { print $6 }' out; }
run 0 "$collbench" allreduce --threads 2 --sizes 4K --place out -n 200 -m 50 -c 1 &&
  [ -n "$(time_of)" ] && figure "allreduce of 4 KiB in a group of 50: $(time_of) us"
ok "calls in groups"

# The row takes more than an hour.
run 1 "$collbench" allreduce --threads 2 --sizes 4M -n 1000000 -w 0 -T 1 &&
  grep -q 'collbench: a row took longer than -T allows' err
ok "-T ends a row"

# ---- bad input

run 2 "$collrun" -n 3 "$collbench" allredcue && [ "$(grep -c '^collbench: ' err)" = 1 ] &&
  grep -q "did you mean 'allreduce'" err
ok "a wrong command line is reported once"

run 1 "$collrun" -n 2 "$collbench" reduce --sizes 8 --root 2 &&
  [ "$(grep -c '^collbench: ' err)" = 1 ] && grep -q 'ranks 0 to 1' err
ok "a root that is not a rank"

run 0 "$collbench" --help && grep -q busbw out
ok "--help"

run 0 "$collbench" --knobs && grep -q '^COLL_TIMEOUT_MS=60000 (default .60000.): ' out
ok "--knobs lists the environment variables with their values"

tap_end

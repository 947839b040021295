#!/bin/sh
# Runs collrun: environment, output, exit codes, signals, and that no process outlives it. Usage:
# collrun.sh PATH-TO-COLLRUN. Prints TAP.
collrun=$(realpath "$1")
. "$(dirname "$0")/../harness/tap.sh"
cd "$dir" || exit 1

# run CODE COLLRUN-ARGUMENTS...: true if the exit code is CODE. Writes the output to out and err.
run() {
  expected=$1
  shift
  "$collrun" "$@" >out 2>err </dev/null
  got=$?
  [ "$got" -eq "$expected" ] || { echo "# exit code $got, expected $expected"; return 1; }
}

lines_in() { [ "$(wc -l <"$1" 2>/dev/null)" = "$2" ]; }
now_ms() { date +%s%3N; }

# ---- where ranks are

export XDG_CACHE_HOME="$dir/cache"
mkdir "$XDG_CACHE_HOME"
run 0 -n 3 --show-layout && grep -q '^this machine (discovered): 1 host, .*core' out &&
  [ "$(grep -c '^[0-2] ' out)" = 3 ] && run 0 -n 3 --bind none --show-layout &&
  grep -q '^this machine (cached): 1 host, ' out
ok "--show-layout prints this machine, and caches it"
unset XDG_CACHE_HOME

# ---- environment and streams

run 0 -n 3 --prefix sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR' &&
  [ "$(sort out)" = "[0] 0/3 0/3 127.0.0.1
[1] 1/3 1/3 127.0.0.1
[2] 2/3 2/3 127.0.0.1" ]
ok "the environment of every rank"

run 0 -n 2 sh -c 'echo $MASTER_PORT' && [ "$(sort -u out | wc -l)" = 1 ] &&
  [ "$(head -1 out)" -gt 0 ]
ok "all ranks get the same port"

tap_ports 1
run 0 -n 1 --port "$port" sh -c 'echo $MASTER_PORT' && [ "$(cat out)" = "$port" ]
ok "--port is used"

run 0 -n 1 printf 'no newline' && [ "$(cat out)" = 'no newline' ] && [ ! -s err ]
ok "output is not changed by default"

run 0 -n 2 --prefix sh -c 'echo good; echo bad >&2; printf tail' &&
  [ "$(sort out)" = "[0] good
[0] tail
[1] good
[1] tail" ] && [ "$(sort err)" = "[0] bad
[1] bad" ]
ok "--prefix keeps the streams apart and ends a last line"

# Four ranks write lines that are longer than an atomic pipe write, each in two parts.
run 0 -n 4 --prefix sh -c 'i=0; while [ $i -lt 20 ]; do
    head -c 9000 /dev/zero | tr "\0" "$RANK"; head -c 9000 /dev/zero | tr "\0" "$RANK"; echo
    i=$((i + 1)); done' &&
  [ "$(sort out | uniq -c | awk '{ print $1, $2, length($3), substr($3, 1, 1) }')" = "20 [0] 18000 0
20 [1] 18000 1
20 [2] 18000 2
20 [3] 18000 3" ]
ok "lines of different ranks never mix"

run 0 -n 2 --output logs sh -c 'echo out $RANK; echo err $RANK >&2' &&
  [ "$(cat logs/rank-0.out)" = "out 0" ] && [ "$(cat logs/rank-1.err)" = "err 1" ] && [ ! -s out ]
ok "--output writes one file per rank"

echo typed | "$collrun" -n 2 --prefix cat >out 2>err && [ "$(cat out)" = "[0] typed" ]
ok "standard input goes to rank 0 only"

"$collrun" -n 2 --prefix sh -c 'yes' 2>/dev/null | head -2 >out
eventually lines_in out 2
ok "ranks end when their output is no longer read"

run 0 -n 1 --bind none sh -c 'grep Cpus_allowed_list /proc/self/status' && cp out unbound &&
  run 0 -n 1 sh -c 'grep Cpus_allowed_list /proc/self/status' && cmp -s out unbound
ok "one rank gets every core"

if [ "$(nproc)" -ge 2 ]; then
  run 0 -n 2 sh -c 'grep Cpus_allowed_list /proc/self/status' && [ "$(sort -u out | wc -l)" = 2 ]
  ok "two ranks get different cores"
fi

run 0 -n $(($(nproc) + 1)) sh -c 'grep Cpus_allowed_list /proc/self/status' &&
  [ "$(sort -u out)" = "$(cat unbound)" ]
ok "more ranks than cores are not bound"

# ---- exit

run 0 -n 3 true && [ ! -s out ] && [ ! -s err ]
ok "success is silent"

run 7 -n 3 sh -c '[ $RANK != 1 ] || exit 7' && grep -q 'rank 1 .*exited with code 7' err
ok "the exit code and the number of the failed rank"

run 139 -n 2 --grace-ms 100 sh -c '[ $RANK != 0 ] || kill -SEGV $$; exec sleep 200' &&
  grep -q 'rank 0 .*signal 11' err
ok "a signal is returned as 128 + its number"

before=$(now_ms)
run 3 -n 2 --grace-ms 300 sh -c '[ $RANK = 1 ] || exit 3; exec sleep 200'
result=$?
took=$(($(now_ms) - before))
[ $result -eq 0 ] && [ $took -ge 300 ] && [ $took -lt 60000 ] && grep -q 'still run: 1' err
ok "the other ranks are stopped after the grace period"

run 3 -n 2 --prefix --grace-ms 60000 sh -c '[ $RANK = 1 ] || exit 3
    until grep -q "rank 0 .*code 3" err; do sleep 0.05; done; echo my own error; exit 4' &&
  [ "$(cat out)" = "[1] my own error" ] && ! grep -q 'still run' err
ok "the other ranks may print during the grace period"

# Rank 0 waits until the other one ignores it.
run 3 -n 2 --grace-ms 200 sh -c '
  [ $RANK = 1 ] || { until [ -e deaf ]; do sleep 0.05; done; exit 3; }
    trap "" TERM; touch deaf; while :; do sleep 0.1; done'
ok "a rank that ignores SIGTERM is killed"

run 0 -n 1 sh -c 'sleep 200 & echo $! >left-behind' && eventually has_ended "$(cat left-behind)"
ok "the remaining processes of a rank's group are killed"

# ---- signals (a shell ignores SIGINT in background jobs, nohup ignores SIGHUP; env resets both)

for name in INT TERM HUP USR1; do
  rm -f ready-* got-*
  env --default-signal=INT,HUP "$collrun" -n 2 sh -c 'trap "touch got-$RANK; exit 0" '$name'
    touch ready-$RANK; while :; do sleep 0.05; done' >out 2>err </dev/null &
  pid=$!
  eventually [ -e ready-0 ] && eventually [ -e ready-1 ] && kill -$name $pid && wait $pid &&
    [ -e got-0 ] && [ -e got-1 ]
  ok "SIG$name reaches every rank"
done

rm -f ready-*
"$collrun" -n 2 sh -c 'touch ready-$RANK; exec sleep 200' >out 2>err </dev/null &
pid=$!
eventually [ -e ready-0 ] && eventually [ -e ready-1 ] && kill -TERM $pid
wait $pid
[ $? -eq 143 ] && [ ! -s err ]
ok "ranks ended by a forwarded signal: exit code 128 + its number, no message"

rm -f ready-*
"$collrun" -n 3 sh -c 'echo $$ >pid-$RANK; touch ready-$RANK; exec sleep 200' \
  >out 2>err </dev/null &
pid=$!
eventually [ -e ready-0 ] && eventually [ -e ready-1 ] && eventually [ -e ready-2 ] &&
  kill -KILL $pid
wait $pid 2>/dev/null
eventually has_ended "$(cat pid-0)" && eventually has_ended "$(cat pid-1)" &&
  eventually has_ended "$(cat pid-2)"
ok "ranks are killed when collrun is killed"

# ---- wrong command lines: one line each

one_line() { lines_in err 1 && [ ! -s out ]; }

# ---- options of mpirun

# shellcheck disable=SC2016
ranks='echo $RANK/$WORLD_SIZE'
two='0/2
1/2'
good=0
for options in '-n2' '-np 2' '--np 2' '-n=2' '-ppn 2' '-N 2' '-npernode 2' '--nproc-per-node=2' \
  '--nproc_per_node 2' '-n 2 --oversubscribe' '-np 2 --allow-run-as-root --report-bindings -q' \
  '-n 2 --bind-to none' '-n 2 -bind-to core' '--map-by ppr:2:node' '-n 2 --map-by slot' \
  '-n 2 --map-by core:OVERSUBSCRIBE'; do
  # shellcheck disable=SC2086
  if run 0 $options sh -c "$ranks" && [ "$(sort out)" = "$two" ] && [ ! -s err ]; then
    good=$((good + 1))
  else
    echo "# $options"
  fi
done
[ $good -eq 16 ]
ok "numbers, cores and places as for mpirun"

mkdir there
# shellcheck disable=SC2016
run 0 -np 2 -x SET=1 -x=ALSO=2 -genv THIRD 3 -wdir there sh -c 'echo $SET$ALSO$THIRD ${PWD##*/}' &&
  [ "$(sort -u out)" = '123 there' ] && [ ! -s err ] && run 0 -n1 -x NOT_SET_ANYWHERE true &&
  grep -q 'NOT_SET_ANYWHERE: there is no such variable' err
ok "variables and the folder as for mpirun"

run 0 -n 2 --tag-output echo x && [ "$(sort out)" = "[0] x
[1] x" ] && run 0 -n 2 --output-filename logs2 echo x && [ "$(cat logs2/rank-1.out)" = x ]
ok "output as for mpirun"

run 0 -n 1 --mca btl tcp --mca pml ob1 true && [ "$(grep -c 'no effect' err)" = 1 ] &&
  run 0 -n 2 --map-by node --bind-to socket true && [ "$(wc -l <err)" = 2 ]
ok "what has no effect is said once"

run 2 -n 2 --bind-to cores true && one_line && grep -q 'give core or none' err &&
  run 2 -n 2 --map-by nodes true && one_line && run 2 --map-by ppr:0:node true && one_line &&
  run 2 -n 3 -npernode 2 true && one_line && run 2 -n 2 -x =1 true && one_line &&
  run 2 -n 2 --hotsfile x true && grep -q 'did you mean --hostfile' err && run 2 -n2x true &&
  run 2 -n 2 --no-such-option true && ! grep -q 'did you mean' err
ok "wrong values of them"

run 2 -n 0 true && one_line
ok "-n 0"
run 2 true && one_line && grep -q 'number of ranks' err
ok "no -n"
run 2 -n 2 && one_line && grep -q 'no program' err
ok "no program"
run 2 -n x true && one_line
ok "-n x"
run 2 -n 2 --prefixx true && one_line && grep -q -- '--prefix' err
ok "an unknown option: the error suggests the nearest one"
run 127 -n 3 no-such-program-anywhere && one_line && grep -q no-such-program-anywhere err
ok "a program that does not exist"
run 127 -n 3 ./nowhere && one_line
ok "a path that does not exist"
touch plain && run 126 -n 2 ./plain && one_line
ok "a file that cannot be executed"
run 126 -n 2 "$dir" && one_line
ok "a folder instead of a program"
run 2 -n 1 --prefix --output logs true && one_line
ok "--prefix with --output"
run 1 -n 1 --output plain true && one_line
ok "--output names a file"
run 1 -n 1 --output no/such/folder true && one_line
ok "--output cannot be made"
run 0 --help && grep -q 'collrun -n' out && [ ! -s err ]
ok "--help"


cat >two.json <<'END'
{"nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}], "links": []}
END
COLL_TOPO_FILE=two.json run 0 -n 4 --show-layout &&
  [ "$(awk 'NR > 1 { printf "%s", $2 }' out)" = 0011 ] &&
  COLL_TOPO_FILE=two.json run 0 -n 4 --map by-rail --show-layout &&
  [ "$(awk 'NR > 1 { printf "%s", $2 }' out)" = 0101 ]
ok "--show-layout and --map"
run 0 -n 1 --map grid printenv COLL_TOPO_MAP && [ "$(cat out)" = grid ] &&
  COLL_TOPO_MAP=by-rail run 0 -n 1 printenv COLL_TOPO_MAP && [ "$(cat out)" = by-rail ]
ok "ranks get the map, by default that of the environment"
COLL_TOPO_MAP=rail run 2 -n 1 true && one_line && grep -q "did you mean 'by-rail'" err
ok "a wrong COLL_TOPO_MAP"

COLL_HANG_MS=17 run 0 --knobs && grep -q "^COLL_HANG_MS=17 (default '30000'): milliseconds" out
ok "--knobs lists the environment variables with their values"

if command -v python3 >/dev/null 2>&1; then
  python3 -c 'import socket, time
s = socket.socket(); s.bind(("", 0)); s.listen()
print(s.getsockname()[1], flush=True); time.sleep(200)' >port &
  holder=$!
  eventually lines_in port 1
  run 1 -n 1 --port "$(cat port)" true && one_line && grep -q 'in use' err
  ok "a port in use"
  kill $holder
fi

tap_end

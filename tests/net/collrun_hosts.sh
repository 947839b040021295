#!/bin/sh
# collrun --hosts, with agents that run on this machine: environment, output, failures, and that
# nothing is left behind; and with network namespaces as hosts, where the system has them.
# Usage: collrun_hosts.sh COLLRUN COLLBENCH. Prints TAP.
collrun=$(realpath "$1")
collbench=$(realpath "$2")
. "$(dirname "$0")/../harness/tap.sh"
. "$(dirname "$0")/hosts.sh"

tap_begin

# run CODE ARGUMENTS...: true if the exit code of collrun is CODE. Writes the output to out and err.
run() {
  expected=$1
  shift
  "$collrun" "$@" >out 2>err </dev/null
  got=$?
  [ "$got" -eq "$expected" ] || { echo "# exit code $got, expected $expected"; return 1; }
}

right() { grep -q '^# Wrong elements *: 0 OK$' out; }

here='env AGENT_OF={host}'

# shellcheck disable=SC2016
run 0 --hosts a:2,b --agent "$here" --prefix \
  sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $AGENT_OF $COLL_HOST_ID' &&
  [ "$(sort out)" = "[0] 0/3 0/2 a a
[1] 1/3 1/2 a a
[2] 2/3 0/1 b b" ]
ok "the environment of every rank"

COLL_DEBUG=1 run 0 --hosts a:2,b:2 --agent "$here" "$collbench" all --counts 1,1001 -n 1 -w 0 &&
  right && grep -q 'groups of the 4 ranks: 2 of host' err
ok "variables of the library reach the ranks, and collectives are right"

printf '# a comment\na slots=1\n\nb:2 # two\n' >hosts
run 0 --hostfile hosts --agent "$here" --output logs sh -c 'echo $RANK' &&
  [ "$(cat logs/rank-0.out logs/rank-1.out logs/rank-2.out | tr '\n' ' ')" = '0 1 2 ' ]
ok "hosts of a file, and a file for each rank"

# shellcheck disable=SC2016
run 7 --hosts a:1,b:1 --agent "$here" --grace-ms 300 sh -c '[ $RANK = 0 ] || exit 7; sleep 200' &&
  grep -q 'rank 1 (pid [0-9]*) exited with code 7' err &&
  grep -q 'the agent of host b (pid [0-9]*) exited with code 7' err
ok "a rank that fails ends those of the other hosts"

started() { [ -s pid.0 ] && [ -s pid.1 ]; }

# shellcheck disable=SC2016
"$collrun" --hosts a:1,b:1 --agent "$here" --grace-ms 300 \
  sh -c 'echo $$ >pid.$RANK; exec sleep 200' >out 2>err </dev/null &
pid=$!
eventually started && kill -9 $pid && eventually has_ended "$(cat pid.0)" &&
  eventually has_ended "$(cat pid.1)"
ok "nothing is left when collrun is killed"

mkdir bin
printf '#!/bin/sh\necho welcome\nshift 2\necho "$1" >>asked\nshift\nexec sh -c "$*"\n' >bin/ssh
chmod +x bin/ssh
# shellcheck disable=SC2016
PATH="$dir/bin:$PATH" run 0 --hosts a,b sh -c 'printf "%s\n" "$1" "it'"'"'s"' - \
  'two  words; $HOME' &&
  [ "$(grep -cx "it's" out)" = 2 ] && [ "$(grep -c welcome out)" = 2 ] &&
  [ "$(grep -cFx 'two  words; $HOME' out)" = 2 ] &&
  [ "$(sort -u asked | tr '\n' ' ')" = 'a b ' ]
ok "ssh is the default, and a remote shell gets the words as they are"

run 1 --hosts a,b --agent 'false' true && grep -q 'host a: its agent could not run collrun' err
ok "an agent that does not work"
run 1 --hosts a,b --agent 'no-such-agent {host}' true && grep -q 'no-such-agent: No such file' err
ok "an agent that does not exist"
run 2 --hosts a:x true && grep -q "host a has 'x' ranks" err &&
  run 2 --hosts a,-oX true && grep -q 'begins with -' err && run 2 --hosts , true &&
  grep -q "a host's name has" err
ok "hosts that are written wrong"
run 2 -n 2 --first-rank 2 true && grep -q 'but --world-size is not' err
ok "half of what an agent is told"
run 1 --hostfile missing true && grep -q 'missing: No such file' err
ok "a file of hosts that is not there"

# ---- files of hosts, as other programs write them

# placed COUNTS OPTIONS...: true if the hosts a, b ... have so many ranks, in this order.
# shellcheck disable=SC2016
placed() {
  counts=$1
  shift
  run 0 "$@" --agent "$here" --prefix sh -c '[ $LOCAL_RANK != 0 ] || echo $AGENT_OF $RANK \
    $LOCAL_WORLD_SIZE' && [ "$(sort -n -t '[' -k 2 out | cut -d ' ' -f 2-)" = "$counts" ]
}

# file COUNTS TEXT: true if a file with this text (of printf) has these hosts.
file() {
  # shellcheck disable=SC2059
  printf -- "$2" >hosts
  placed "$1" --hostfile hosts
}

two='a 0 2
b 2 1'
file "$two" 'a slots=2\nb\n' && file "$two" 'a slots = 2 max_slots=4\nb max-slots=1' &&
  file "$two" 'a  slots =2\tmax-slots= 2\nb slots=1' && file "$two" 'a max_slots=2\nb cpu=1\n' &&
  file "$two" 'a:2 slots=2\nb:1 slots=1\n'
ok "hosts as Open MPI writes them"
file "$two" 'a:2\nb:1\n' && file "$two" '# two\n\na:2 # first\nb'
ok "hosts as MPICH writes them"
file "$two" 'a\na\nb\n' && file "$two" 'a\nb\na\n' && file "$two" 'a,a,b\n' &&
  file "$two" 'a:2, b:1' && file "$two" 'a slots=2, b\n'
ok "a host once for each slot, and commas, as Slurm and PBS write them"
file "$two" '\357\273\277a slots=2\r\nb\r\n' && file "$two" 'a slots=2\r\n# b\r\nb'
ok "a byte order mark, and lines that end in CR LF"
comment=$(printf '%01500d' 0 | tr 0 x)
file "$two" "# $comment a:7\na:2 #$comment\n#$comment\nb" &&
  file "$two" "a %1500sslots=2 %1500s\nb"
ok "lines of any length"

# wrong SENTENCE TEXT: true if a file with this text is refused with the sentence.
wrong() {
  # shellcheck disable=SC2059
  printf -- "$2" >hosts
  run 1 --hostfile hosts true && [ "$(wc -l <err)" = 1 ] && grep -qF "hosts:$1" err
}
wrong "2: 'slot=3' is not understood" 'a\nb slot=3\n' &&
  wrong "1: 'slot = 3' is not understood" 'a slots=2 slot = 3\n' &&
  wrong "2: 'user=me' is not understood" 'a\nb slots=2 user=me max_slots=2\n' &&
  wrong "1: 'b' is not understood" 'a b\n' && wrong "1: 'slots' is not understood" 'a slots 2\n' &&
  wrong "1: host a has 'x' ranks" 'a slots=x max_slots=4\n' &&
  wrong "1: host a has '0' ranks" 'a:0\n' && wrong "1: host a has '' ranks" 'a slots=\n' &&
  wrong "1: host a has 4 slots, more than its max_slots 2" 'a slots=4 max_slots=2\n' &&
  wrong "1: 'slots=3': host a:2 has 2 slots already" 'a:2 slots=3\n' &&
  wrong "1: 'n[1-4]' is no host" 'n[1-4]\n' &&
  wrong "1: '-oX': no host's name begins with -" '-oX' &&
  wrong "1: '': a host's name has" 'a,\n' && wrong "1: a zero byte" 'a\0b\n' &&
  wrong "3: host a has '5000' ranks" '# one\n\na:5000\n'
ok "a file of hosts that is wrong: the line and the word"

placed 'a 0 2
b 2 1' -n 3 --hosts a:2,b:2 && placed 'a 0 2' -n 2 --hosts a:2,b:2 && placed 'a 0 2
b 2 1' --hosts a,b,a && placed 'a 0 3
b 3 2' -n 5 --oversubscribe --hosts a:2,b:1
ok "-n below the number of slots fills the hosts in order"
placed 'a 0 2
b 2 2' -H a,b -npernode 2 && placed 'a 0 2
b 2 2' -host a,b --map-by ppr:2:node && placed 'a 0 2
b 2 1' -np 3 -H a:2,b:2 && printf 'a\nb\n' >hosts && placed 'a 0 1
b 1 1' -machinefile hosts
ok "hosts as for mpirun"
# shellcheck disable=SC2016
KEPT=9 run 0 -H a,b --agent "env -i PATH=$PATH {host}=1" -x KEPT -x SET=1 --prefix \
  sh -c 'echo $KEPT$SET' && [ "$(sort out)" = '[0] 91
[1] 91' ]
ok "-x passes variables on to other hosts"
run 2 -n 3 --hosts a,b true && grep -q 'the hosts have 2 slots' err
ok "more ranks than the hosts have slots"

if why=$(hosts_may); then
  hosts_make 2
  run 0 --hosts h1:2,h2:2 --agent "ip netns exec $prefix{host}" "$collbench" all --algo all \
    --counts 1,1001 -n 0 -w 1 && right
  ok "two namespaces of two ranks: every collective and algorithm"
  COLL_TRANSPORTS=tcp run 0 --hosts h1:2,h2:2 --agent "ip netns exec $prefix{host}" "$collbench" \
    all --algo all --counts 1,1001 -n 0 -w 1 && right
  ok "the same over TCP alone"
else
  tap_skip "two namespaces of two ranks" "$why"
fi

tap_end

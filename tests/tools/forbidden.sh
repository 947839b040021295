#!/bin/sh
# Jobs where system calls are forbidden, as in containers: they run without what those are for, and
# say once what is not done. Usage: forbidden.sh FORBID COLLRUN COLLBENCH COLLTOPO. Prints TAP.
forbid=$(realpath "$1") collrun=$(realpath "$2") collbench=$(realpath "$3")
colltopo=$(realpath "$4")
. "$(dirname "$0")/../harness/tap.sh"
cd "$dir" || exit 1

"$forbid" EPERM kcmp true 2>out || { echo "1..0 # SKIP $(cat out)"; exit 0; }

# without ERROR CALLS COMMAND...: true if the command succeeds without these calls. The limit is for
# what never ends.
without() {
  error=$1 calls=$2
  shift 2
  timeout 60 "$forbid" "$error" "$calls" "$@" >out 2>err </dev/null
  got=$?
  [ "$got" -eq 0 ] || { echo "# $calls: $error: exit code $got"; return 1; }
}

bench() { without "$1" "$2" "$collrun" -n 2 "$collbench" allreduce -b 8 -e 64K -f 64 -n 1 -w 0; }
is_right() { grep -q 'Wrong elements    : 0 OK' out; }
said() { [ "$(grep -c "$1" err)" = 1 ]; }

for error in EPERM ENOSYS EINVAL; do
  bench $error sched_getaffinity && is_right &&
    said 'collrun: ranks are not bound to cores: cannot read which processors'
  ok "without sched_getaffinity ($error) ranks are not bound, which is said once"
done
bench EPERM sched_setaffinity && is_right &&
  said 'collrun: ranks are not bound to cores: cannot bind'
ok "without sched_setaffinity ranks are not bound, which is said once"

without EPERM sched_getaffinity "$collrun" -n 2 --show-layout && grep -q '^this machine' out &&
  without ENOSYS sched_getaffinity "$colltopo" record && grep -q '"host0"' out
ok "the machine is found without sched_getaffinity"

# COLL_TUNE=auto measures costs, which binds threads
export XDG_CACHE_HOME="$dir/cache"
COLL_TUNE=auto bench EPERM sched_getaffinity,sched_setaffinity && is_right
ok "costs are not measured for ever"

for call in getcpu get_mempolicy,set_mempolicy,mbind process_vm_readv,process_vm_writev \
  membarrier pidfd_open userfaultfd,io_uring_setup kcmp,ptrace,perf_event_open madvise,mlock \
  close_range statx,sysinfo prctl sched_yield,setpriority,sched_setscheduler prlimit64; do
  bench EPERM $call && is_right && bench ENOSYS $call && is_right
  ok "without $call"
done

# What a job cannot do without is named.
for reason in 'poll cannot wait for the ranks' 'waitid cannot wait for the ranks to end' \
  'accept4 cannot give ranks the job' \
  'memfd_create cannot create shared memory for a communicator: Operation not' \
  'getrandom cannot choose a port, for which getrandom is needed; give --port: Operation not'; do
  timeout 60 "$forbid" EPERM "${reason%% *}" "$collrun" -n 2 "$collbench" allreduce -n 1 >out 2>err
  got=$?
  [ $got -ne 124 ] && [ $got -ne 0 ] && grep -q "${reason#* }" err
  ok "the reason is said where ${reason%% *} is forbidden"
done

COLL_TRANSPORTS=tcp timeout 60 "$forbid" EPERM sendmsg "$collrun" -n 2 "$collbench" allreduce -n 1 \
  >out 2>err
got=$?
[ $got -ne 124 ] && [ $got -ne 0 ] && grep -q 'rank' err
ok "a connection that takes no data is lost"
tap_end

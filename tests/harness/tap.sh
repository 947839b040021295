# What the tests that look at a tool from outside have in common: a folder of their own to work in,
# and TAP. Sourced by sh before anything else; tap_end is the last command.
dir=$(mktemp -d) || exit 1
number=0
failures=0
finally=
# Marks the processes that the test starts: tap_left finds them, whoever their parent is by then.
export TAP_DIR="$dir"

# The shell runs no trap for EXIT when a signal ends it, and runs one for a signal only when the
# command in the foreground has ended: what may take long is started in the background and awaited.
trap 'tap_stop' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# tap_finally COMMAND: runs it, the last one first, when the test ends, however it ends. It stops
# what the test has started for all of its cases.
tap_finally() { finally="$1;$finally"; }

tap_clean_up() {
  eval "$finally"
  finally=
}

tap_stop() {
  trap '' HUP INT TERM
  tap_clean_up >/dev/null 2>&1
  tap_left
  # shellcheck disable=SC2086
  [ -z "$left" ] || kill -KILL $left 2>/dev/null
  rm -rf "$dir"
}

# has_ended PID: it runs no more; nobody may have waited for it.
has_ended() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:.[ZX]' "/proc/$1/status" 2>/dev/null; }

# tap_left: sets left to the ids of the processes that the test has started and that still run.
# Jobs that are this shell's own code do not have the mark. (A subshell would know no jobs.)
tap_left() {
  jobs -p >"$dir/tap_jobs"
  grep -lsxz "TAP_DIR=$dir" /proc/[0-9]*/environ | cut -d / -f 3 >"$dir/tap_marked"
  left=
  for tap_pid in $(sort -nu "$dir/tap_jobs" "$dir/tap_marked"); do
    [ "$tap_pid" = $$ ] || has_ended "$tap_pid" || left="$left $tap_pid"
  done
}

# eventually COMMAND...: waits until it succeeds. The limit is for what never happens.
eventually() {
  eventually_until=$(($(date +%s) + 60))
  until "$@"; do
    [ "$(date +%s)" -lt "$eventually_until" ] || return 1
    sleep 0.05
  done
}

# ok NAME: the outcome of the command before it; with a failure shows what was printed to the files
# out and err of the folder.
ok() {
  outcome=$?
  number=$((number + 1))
  if [ "$outcome" -eq 0 ]; then
    echo "ok $number - $1"
  else
    failures=$((failures + 1))
    echo "not ok $number - $1"
    for file in out err; do [ -f "$file" ] && head -n 50 "$file" | sed "s/^/# $file: /"; done
  fi
}

# tap_begin: from here on the test is in its folder, and costs are not measured, which takes half a
# second of both cores.
tap_begin() {
  cd "$dir" || exit 1
  export COLL_TUNE=builtin
}

# tap_skip NAME WHY: a case that this machine cannot run. WHY names what it lacks.
tap_skip() {
  number=$((number + 1))
  echo "ok $number - $1 # SKIP $2"
}

# tap_skip_all WHY: ends a test of which this machine can run no case.
tap_skip_all() {
  echo "1..0 # SKIP $1"
  exit 0
}

# tap_need COMMAND PACKAGE: skips the test if the command is not installed.
tap_need() { command -v "$1" >/dev/null || tap_skip_all "there is no $1 (Debian: $2)"; }

# figure TEXT: what was measured. No test fails for it.
figure() { echo "# figure: $1"; }

# figure_of_death: of the lines `lost after SECONDS s: SENTENCE` in the file out, the latest one.
figure_of_death() {
  figure "$(sed -n 's/^lost after \([0-9.]*\) s:.*/\1/p' out | sort -n | tail -n 1) s of 2 s"
}

# tap_ports COUNT: sets port to the first of so many TCP ports in a row that nobody else gets while
# the test runs: a socket is bound to each, which listens to nobody and lets others bind, too, who
# set SO_REUSEADDR.
tap_ports() {
  # Not a job of this shell, whose wait would wait for it.
  python3 -c '
import os, signal, socket, sys
def bind(port):
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("", port))
    return held
while True:
    try:
        row = [bind(0)]
        first = row[0].getsockname()[1]
        row += [bind(first + i) for i in range(1, int(sys.argv[1]))]
        break
    except (OSError, OverflowError):
        pass
holder = os.fork()
if holder == 0:
    signal.pause()
print(first, holder)' "$1" >"$dir/ports" || return 1
  read -r port port_holder <"$dir/ports"
  tap_finally "kill $port_holder"
}

# sanitizer_of PROGRAM: prints address, thread or none. What that means for a test: sample.h.
sanitizer_of() {
  if grep -q __asan_init "$1"; then
    echo address
  elif grep -q __tsan_init "$1"; then
    echo thread
  else
    echo none
  fi
}

# patience_of PROGRAM: what limits of time are multiplied by. A program with a sanitizer is slower,
# and more tests run beside it.
patience_of() { [ "$(sanitizer_of "$1")" = none ] && echo 1 || echo 3; }

tap_nothing_left() {
  tap_left
  [ -z "$left" ]
}

# tap_end: a test that leaves a process running fails.
tap_end() {
  tap_clean_up >/dev/null 2>&1
  eventually tap_nothing_left || {
    for tap_pid in $left; do
      echo "# still runs: $tap_pid $(tr '\0' ' ' <"/proc/$tap_pid/cmdline" | cut -c1-100)"
    done
    rm -f out err
    false
    ok "no process is left"
  }
  echo "1..$number"
  [ "$failures" -eq 0 ]
}

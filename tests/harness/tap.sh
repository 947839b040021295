# What the tests that look at a tool from outside have in common: a folder of their own to work in,
# and TAP. Sourced by sh before anything else; tap_end is the last command.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
number=0
failures=0

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

# tap_skip NAME WHY: a test that this machine cannot run.
tap_skip() {
  number=$((number + 1))
  echo "ok $number - $1 # SKIP $2"
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

tap_end() {
  echo "1..$number"
  [ "$failures" -eq 0 ]
}

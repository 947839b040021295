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

tap_end() {
  echo "1..$number"
  [ "$failures" -eq 0 ]
}

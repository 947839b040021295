#!/bin/sh
# Links archives into one relocatable object, makes its hidden symbols local and puts it into an
# archive: archive.sh OUTPUT WHOLE ARCHIVE... takes all of the first WHOLE archives, and from the
# rest what those need.
set -eu
output=$1
whole=$2
shift 2
wholes=""
while [ "$whole" -gt 0 ]; do
  wholes="$wholes $1"
  shift
  whole=$((whole - 1))
done
object="$output.o"
trap 'rm -f "$object"' EXIT
# shellcheck disable=SC2086 # a list of archive names made by the build
ld -r -o "$object" --whole-archive $wholes --no-whole-archive --start-group "$@" --end-group
objcopy --localize-hidden "$object"
rm -f "$output"
ar rcs "$output" "$object"

#!/bin/sh
# That what `meson install` puts down is enough to build a program with, shared and static, by what
# pkg-config says; and the man pages. Usage: install.sh SOURCE-FOLDER BUILD-FOLDER PREFIX LIBDIR
# PROGRAM, with the options of the build. Speaks TAP.
source=$(realpath "$1")
build=$(realpath "$2")
prefix=$3
libdir=$4
program=$(realpath "$5")
. "$(dirname "$0")/../harness/tap.sh"
cd "$dir" || exit 1

meson install -C "$build" --no-rebuild --destdir "$dir/root" >out 2>err
ok "meson install"

# option NAME: its default, which is the same on all machines.
option() {
  meson introspect --buildoptions "$source/meson.build" 2>err | python3 -c '
import json, sys
print(*(option["value"] for option in json.load(sys.stdin) if option["name"] == sys.argv[1]))' "$1"
}

[ "$(option prefix)/$(option libdir)" = /usr/local/lib ]
ok "the default is a folder in which ldconfig and pkg-config look"

libraries=$dir/root$prefix/$libdir
folder=$libraries/pkgconfig
[ -f "$folder/libcoll.pc" ] && [ -f "$libraries/libcoll.a" ] && [ -f "$libraries/libcoll.so" ]
ok "libraries and libcoll.pc are in the folder of the build's options"

# words OPTION: what pkg-config says, with the prefix where it is installed here.
words() {
  PKG_CONFIG_PATH=$folder pkg-config "--define-variable=prefix=$dir/root$prefix" "$@" libcoll
}

# shellcheck disable=SC2046 # words, to be split
cc "$program" $(words --cflags --libs) -o shared >out 2>err && LD_LIBRARY_PATH=$libraries ./shared
ok "a program with libcoll.so"

# shellcheck disable=SC2046
cc "$program" $(words --cflags) "$libraries/libcoll.a" \
  $(words --static --libs | sed 's/-lcoll//') -o static >out 2>err && ./static
ok "a program with libcoll.a"

# A page that groff understands, with the words of --help and of the headers.
is_page() {
  page=$(find "$dir/root" -name "$1")
  [ -n "$page" ] && grep -q "$2" "$page" || return 1
  ! command -v groff >/dev/null || [ -z "$(groff -man -ww -Tutf8 -z "$page" 2>&1)" ]
}

is_page collrun.1 grace && is_page collbench.1 'EXAMPLES' && is_page collplan.1 SHOW &&
  is_page colltopo.1 RECORD && is_page gpt.1 'GPT SAMPLE' && is_page coll.3 coll_comm_set_progress
ok "man pages of programs and of the interface"

tap_end

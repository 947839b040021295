#!/bin/sh
# That what `meson install` puts down is enough to build a program with, shared and static, by what
# pkg-config says; and the man pages. Usage: install.sh BUILD-FOLDER PROGRAM. Speaks TAP.
build=$(realpath "$1")
program=$(realpath "$2")
. "$(dirname "$0")/../harness/tap.sh"
cd "$dir" || exit 1

meson install -C "$build" --no-rebuild --destdir "$dir/root" >out 2>err
ok "meson install"

folder=$(dirname "$(find "$dir/root" -name libcoll.pc)")
prefix=$dir/root$(sed -n 's/^prefix=//p' "$folder/libcoll.pc")
libraries=$(dirname "$folder")

# words OPTION: what pkg-config says, with the prefix where it is installed here.
words() {
  PKG_CONFIG_PATH=$folder pkg-config "--define-variable=prefix=$prefix" "$@" libcoll
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

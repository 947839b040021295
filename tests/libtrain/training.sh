# What tests of gpt train under collrun have in common. Sourced first, by sh, with the folder of
# this file in `libtrain` and the arguments PATH-TO-GPT PATH-TO-COLLRUN. Prints TAP.
gpt=$1
collrun=$2
. "$libtrain/../harness/tap.sh"
cd "$dir" || exit 1
patience=$(patience_of "$gpt")

# gpt_on RANKS ARGUMENTS...: runs gpt on that many ranks; output goes to the files out and err.
gpt_on() {
  ranks=$1
  shift
  timeout $((300 * patience)) "$collrun" -n "$ranks" "$gpt" "$@" >out 2>err </dev/null
}

# refused WORDS: succeeds if the previous run printed exactly one line of gpt, which contains WORDS.
refused() { [ "$(grep -c '^gpt' err)" = 1 ] && grep '^gpt' err | grep -qF -- "$1"; }

# write_text: source code to train on, in the folder text.
write_text() {
  mkdir text
  i=0
  while [ $i -lt 30 ]; do
    seq $i 7 900 | sed 's/.*/static int value_& = &;/' >text/file$i.c
    i=$((i + 1))
  done
}

held_out() { sed -n 's/^held-out loss \([0-9.]*\) nats.*/\1/p' out; }

# same_loss TOLERANCE: succeeds if the previous run gave the held-out loss $one.
same_loss() {
  awk "BEGIN { d = $(held_out) - $one; t = $1 * $one; exit !(d * d <= t * t) }"
}

# What the tests of launchers have in common. Sourced after tap.sh and hosts.sh; `again` is the
# program that the launchers start. Sanitizers would report what libraries of launchers do, of which
# they see only a part.
export COLL_TUNE=builtin
export LSAN_OPTIONS=detect_leaks=0
export TSAN_OPTIONS="${TSAN_OPTIONS-}:ignore_noninstrumented_modules=1"

# launch COMMAND...: true if it ends well. Writes the output to out and err.
launch() { timeout 100 "$@" >out 2>err </dev/null; }

# made RANKS: whether that many ranks have made their communicators, and knew where to meet from $2.
made() { grep -qx "$1 ranks, 3 communicators" out && grep -q "know from $2" err; }

# missing VARIABLE RANK: a shell command for all ranks, whose arguments are a program: all run it
# but the rank that has this number in the variable. That one stays until another has given up.
missing() {
  rm -f gave_up
  echo "[ \$$1 != $2 ] || { until [ -e gave_up ]; do sleep 0.05; done; exit 0; }
    \"\$@\" && exit
    touch gave_up
    exit 1"
}

# launch_on HOST COMMAND...: the same on one of these hosts.
launch_on() {
  launch_host=$1
  shift
  on "$launch_host" timeout 100 "$@" >out 2>err </dev/null
}

# Writes a program that launchers call like ssh: options, the host, and words for its shell.
write_agent() {
  cat >agent <<END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
exec ip netns exec "$prefix\$host" unshare --uts \\
  sh -c 'hostname "\$1"; shift; exec sh -c "\$*"' - "\$host" "\$@"
END
  chmod +x agent
}

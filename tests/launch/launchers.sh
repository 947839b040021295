# What the tests of launchers have in common. Sourced after tap.sh and hosts.sh; `again` is the
# program that the launchers start. Sanitizers would report what libraries of launchers do, of which
# they see only a part.
export COLL_TUNE=builtin
export LSAN_OPTIONS=detect_leaks=0
export TSAN_OPTIONS="${TSAN_OPTIONS-}:ignore_noninstrumented_modules=1"

# need COMMAND PACKAGE: ends the test if the command is not installed.
need() {
  command -v "$1" >/dev/null && return
  echo "1..0 # SKIP there is no $1 (Debian: $2)"
  exit 0
}

# launch COMMAND...: true if it ends well. Writes the output to out and err.
launch() { timeout 60 "$@" >out 2>err </dev/null; }

# made RANKS: whether that many ranks have made their communicators, and knew where to meet from $2.
made() { grep -qx "$1 ranks, 3 communicators" out && grep -q "know from $2" err; }

# launch_on HOST COMMAND...: the same on one of these hosts.
launch_on() {
  launch_host=$1
  shift
  on "$launch_host" timeout 60 "$@" >out 2>err </dev/null
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

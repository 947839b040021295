#!/bin/sh
# NCCL's configuration files: which are read, in which order, and that the environment comes first
# and is not changed. Usage: config_files.sh PROGRAM. Speaks TAP.
program=$(realpath "$1")
. "$(dirname "$0")/../harness/tap.sh"
cd "$dir" || exit 1
mkdir home

# params VARIABLE=VALUE...: runs the program with these alone.
params() {
  env -i PATH="$PATH" TAP_DIR="$TAP_DIR" COLL_TUNE=builtin HOME="$dir/home" "$@" "$program" \
    >out 2>err </dev/null
}
is() { grep -qx "$1=$2" out || { grep "^$1=" out | sed 's/^/# /'; return 1; }; }

cat >home/.nccl.conf <<'END'
# NCCL_HOSTID=comment
NCCL_HOSTID=home
NCCL_HOSTID=again
NCCL_ALGO = spaces
 NCCL_PROTO=indented
no variable
=nothing
NCCL_IB_TC=
NCCL_IB_SL=3=4
END
printf 'NCCL_NET=Socket\r\nNCCL_IB_TIMEOUT=20' >>home/.nccl.conf
printf 'NCCL_HOSTID=named\nCOLL_TRANSPORTS=tcp\n' >named.conf

params && is NCCL_HOSTID home && is NCCL_ALGO '' && is NCCL_PROTO '' && is NCCL_IB_TC '' &&
  is NCCL_IB_SL 3=4 && is NCCL_NET Socket && is NCCL_IB_TIMEOUT 20
ok "~/.nccl.conf: the first line of a name, spaces belong to it, CR LF, no last newline"

! grep '^environment' out | grep -v COLL_TUNE
ok "nothing is put into the environment"

params NCCL_CONF_FILE=named.conf && is NCCL_HOSTID named && is NCCL_NET ''
ok "NCCL_CONF_FILE is read instead of it"

params NCCL_CONF_FILE= && is NCCL_HOSTID home &&
  params NCCL_CONF_FILE=nowhere.conf NCCL_DEBUG=WARN && is NCCL_HOSTID '' &&
  grep -q 'WARN NCCL_CONF_FILE=nowhere.conf cannot be read' err &&
  params NCCL_CONF_FILE=home NCCL_DEBUG=WARN && grep -q 'NCCL_CONF_FILE=home cannot be read' err
ok "an empty NCCL_CONF_FILE names none, one that is missing is said"

params NCCL_HOSTID=first && is NCCL_HOSTID first && params NCCL_HOSTID= && is NCCL_HOSTID ''
ok "variables of the environment come first, also empty ones"

echo 'NCCL_DEBUG=INFO' >>named.conf
params NCCL_CONF_FILE=named.conf &&
  grep -q 'NCCL_HOSTID of named.conf, line 1=named: COLL_HOST_ID=named' err &&
  grep -q 'COLL_TRANSPORTS of named.conf, line 2=tcp: COLL_TRANSPORTS=tcp' err &&
  params NCCL_DEBUG=INFO &&
  grep -q "'NCCL_ALGO ' of .*/.nccl.conf, line 4 is ignored: the space belongs to the name" err
ok "NCCL_DEBUG of a file is obeyed, and shows where values are from"

# NCCL_SHM_DISABLE of the environment and NCCL_IB_DISABLE of the file; COLL_* of the file is below
echo 'NCCL_IB_DISABLE=1' >>named.conf
params NCCL_CONF_FILE=named.conf NCCL_SHM_DISABLE=0 NCCL_NET=IB &&
  grep -q 'NCCL_NET=IB: COLL_TRANSPORTS=shm,tcp' err &&
  params NCCL_CONF_FILE=named.conf COLL_TRANSPORTS=shm,tcp NCCL_NET=IB &&
  grep -q 'NCCL_NET=IB: COLL_TRANSPORTS=shm,tcp is set, too, and is used' err
ok "the environment's NCCL_* come before COLL_* of a file, and its COLL_* before both"

printf 'NCCL_DEBUG=WARN\nCOLL_GET=maybe\nCOLL_NOTHING=1\n' >wrong.conf
! params NCCL_CONF_FILE=wrong.conf &&
  grep -q 'COLL_GET=maybe (COLL_GET of wrong.conf, line 2) is not a valid value' err &&
  grep -q 'COLL_NOTHING of wrong.conf, line 3: .*no variable COLL_NOTHING' err &&
  echo COLL_GET= >wrong.conf && ! params NCCL_CONF_FILE=wrong.conf NCCL_DEBUG=WARN &&
  grep -q 'COLL_GET (COLL_GET of wrong.conf, line 1) is set but empty' err
ok "a wrong value is refused by the name and line that it has"

{
  printf 'NCCL_HOSTID=%05000d\n' 7
  echo NCCL_IB_SL=2
} >long.conf
params NCCL_CONF_FILE=long.conf && is NCCL_IB_SL 2 &&
  [ "$(grep '^NCCL_HOSTID=' out | wc -c)" = 5013 ]
ok "lines may be longer than any buffer"

# /etc/nccl.conf comes after the others
mkdir etc
printf 'NCCL_HOSTID=etc\nNCCL_IB_TC=5\n' >etc/nccl.conf
cat >in_etc <<END
mount --bind '$dir/etc' /etc && HOME='$dir/nowhere' '$program' >alone 2>err &&
  exec env HOME='$dir/home' '$program' >out 2>>err
END
if unshare -rm true 2>/dev/null; then
  env -u NCCL_HOSTID COLL_TUNE=builtin unshare -rm sh in_etc && is NCCL_HOSTID home &&
    grep -qx NCCL_HOSTID=etc alone && grep -qx NCCL_IB_TC=5 alone
  ok "/etc/nccl.conf is read after the user's file"
else
  tap_skip "/etc/nccl.conf is read after the user's file" "no mount namespace can be made"
fi
tap_end

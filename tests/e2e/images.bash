# Images without a registry: each is put together from files of this machine, as an archive, and imported under the name that the
# chart renders. Sourced by `cluster` and `run`.

. deploy/image/registry.bash

# image NAME DIRECTORY USER PROGRAM [ARGUMENT...]: one layer with what is in the directory. A container's own arguments take the place of these.
image() {
  local name=$1 directory=$2 user=$3 archive=$images/image.tar
  shift 3
  packed "$directory" | gzip -n1 >"$directory.tar.gz"
  registry_up "$images/registry"
  image_in_registry e2e:image "$(jq -cn --arg user "$user" --arg architecture "$(go_architecture)" \
    '{created: "1970-01-01T00:00:00Z", architecture: $architecture, os: "linux",
      config: {Entrypoint: $ARGS.positional[:1], Cmd: $ARGS.positional[1:], User: $user, Env: ["PATH=/bin:/sbin:/usr/bin:/usr/sbin"]}}' --args -- "$@")" \
    "$directory.tar.gz"
  archive e2e:image "$archive" "$name"
  registry_down
  containers images import "$archive" >/dev/null
  rm -rf "$archive" "$directory" "$directory.tar.gz"
}

go_architecture() {
  case $(uname -m) in x86_64) echo amd64 ;; aarch64) echo arm64 ;; *) uname -m ;; esac
}

# A directory for the files of an image.
empty_root() {
  mkdir -p "$images"
  local root
  root=$(mktemp -d "$images/root.XXXXXX")
  chmod 755 "$root"
  mkdir -p "$root"/{bin,etc,tmp,proc,sys,dev,run,var}
  chmod 1777 "$root/tmp"
  printf 'root:x:0:0:root:/:/bin/sh\n' >"$root/etc/passwd"
  printf 'root:x:0:\n' >"$root/etc/group"
  echo "$root"
}

busybox_files() { # ROOT
  local applet
  cp "$(command -v busybox)" "$1/bin/busybox"
  for applet in $(busybox --list); do [ -e "$1/bin/$applet" ] || ln -s busybox "$1/bin/$applet"; done
  ln -s bin "$1/sbin"
  mkdir -p "$1"/{root,home,mnt,opt,usr}
}

busybox_in() { # NAME
  local root
  root=$(empty_root)
  busybox_files "$root"
  image "$1" "$root" "" /bin/sh
}

# The image that users get (docs/image.md), with the driver of $bin. Its archive has the name that the chart renders.
driver_in() {
  local archive=$images/driver.tar
  mkdir -p "$images"
  strip -o "$images/driver" "$bin/aws-ebs-csi-driver"
  SOURCE_DATE_EPOCH=0 deploy/image/pack --newer --plain "$archive" "$(go_architecture)=$images/driver" >/dev/null
  containers images import "$archive" >/dev/null
  containers images list -q | grep -xF "docker.io/library/$1" >/dev/null || die "the image $1 was not imported"
  rm -f "$images/driver" "$archive"
}

# The image and the chart of a release, in a registry of the node.
release_in() {
  mkdir -p "$data/registry"
  start registry "$EBS_CRANE" registry serve --address "$node_registry" --disk "$data/registry"
  within 60 "the registry serves" in_node curl -sf "http://$node_registry/v2/"
  in_node env REGISTRY="$node_registry" EBS_HELM="$EBS_E2E_HELM" deploy/release/publish --unsigned "$RELEASE" >"$log/publish.log" 2>&1 || die "$(tail -n 1 "$log/publish.log")"
}

# A sidecar under the name that the chart renders for it. Of another version than that it is not.
sidecar_in() {
  local program=${1##*/} tag=${1##*:} root
  program=${program%:*}
  grep -q "^$program $tag:" "$EBS_E2E_SIDECARS/which" || die "the chart requires $1, but the build has $(grep "^$program " "$EBS_E2E_SIDECARS/which")"
  root=$(empty_root)
  cp "$EBS_E2E_SIDECARS/$program" "$root/$program"
  image "$1" "$root" 65532:65532 "/$program"
}

# Our own registrar under the name that the chart renders for the official one (REGISTRAR=ours), with the libraries that it is linked to.
registrar_in() {
  local root library
  root=$(empty_root)
  strip -o "$root/csi-node-driver-registrar" "$bin/csi-node-driver-registrar"
  for library in $(ldd "$bin/csi-node-driver-registrar" | grep -o '/[^ ]*'); do
    mkdir -p "$root${library%/*}"
    cp -L "$library" "$root$library"
  done
  image "$1" "$root" 65532:65532 /csi-node-driver-registrar
}

# All images that a cluster with the chart needs.
images_in() {
  local root name
  root=$(empty_root)
  cp "$EBS_E2E_SIDECARS/pause" "$root/pause"
  image e2e.local/pause:1 "$root" 65535:65535 /pause
  # What the pods of examples/ run.
  busybox_in "$(sed -n 's/^ *image: //p' "$repository/examples/dynamic/claim-and-pod.yaml")"
  for name in $(rendered_images); do
    case $name in
    aws-ebs-csi-driver:*) driver_in "$name" ;;
    "${node_registry:-}"/aws-ebs-csi-driver:*) release_in ;;
    */csi-node-driver-registrar:*) if [ "${REGISTRAR:-official}" = ours ]; then registrar_in "$name"; else sidecar_in "$name"; fi ;;
    *) sidecar_in "$name" ;;
    esac
  done
}

rendered_images() {
  helm template aws-ebs-csi-driver "$chart" "${values[@]}" --kube-version "$EBS_E2E_VERSION" --api-versions snapshot.storage.k8s.io/v1 |
    sed -n 's/^ *image: "\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' | sort -u
}

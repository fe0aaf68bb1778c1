# Images by crane and a registry of its own, which crane also is: put together there, and saved as archives in OCI's layout. Sourced, with
# `die` defined by the caller. EBS_CRANE is the program crane.

crane() { "${EBS_CRANE:-crane}" "$@" 2>>"$registry_directory/log"; }

# registry_up DIRECTORY: starts a registry on this machine, which ends with this process.
registry_up() {
  registry_directory=$1
  mkdir -p "$1"
  : >"$1/log"
  setpriv --pdeathsig KILL "${EBS_CRANE:-crane}" registry serve --address 127.0.0.1:0 --disk "$1" >/dev/null 2>>"$1/log" </dev/null &
  registry_process=$!
  local port='' try
  for try in {1..100}; do
    port=$(sed -n 's/.*serving on port \([0-9]*\)$/\1/p' "$1/log")
    [ -z "$port" ] || break
    sleep 0.1
  done
  [ -n "$port" ] || die "crane's registry did not start in $((try / 10)) s: $(cat "$1/log")"
  registry=127.0.0.1:$port
}

registry_down() {
  kill "$registry_process"
  wait "$registry_process" || true
  rm -rf "$registry_directory"
}

# image_in_registry NAME:TAG CONFIGURATION LAYER...: the configuration is JSON that is added to the one of the layers.
image_in_registry() {
  local image=$registry/$1 configuration=$2
  shift 2
  crane append --oci-empty-base "${@/#/--new_layer=}" --new_tag "$image" >/dev/null || die "assemble $image: $(tail -n 1 "$registry_directory/log")"
  edited "$image" ". * $configuration"
}

# labels NAME DESCRIPTION: prints the labels of an image. The caller sets `version` and `created`.
labels() {
  jq -cn --arg title "$1" --arg description "$2" --arg version "${version:?}" --arg revision "${GIT_COMMIT:-}" --arg created "${created:?}" \
    '{$title, $description, licenses: "Apache-2.0", $version, $revision, $created} | with_entries(.key |= "org.opencontainers.image.\(.)")'
}

# edited IMAGE FILTER: replaces the image by one whose configuration is what jq's filter makes of it.
edited() {
  local configuration
  configuration=$(crane config "$1" | jq -c "$2")
  crane edit config "$1" --tag "$1" <<<"$configuration" >/dev/null || die "configure $1: $(tail -n 1 "$registry_directory/log")"
}

# archive NAME:TAG FILE AS: saves an image or an index under the name AS:TAG, which containerd gives it, in an archive of the same bytes each time.
archive() {
  local layout=$registry_directory/layout full=$3
  rm -rf "$layout"
  crane pull --format oci "$registry/$1" "$layout" || die "save $1: $(tail -n 1 "$registry_directory/log")"
  [[ $full == */* ]] || full=docker.io/library/$full
  jq -c --arg name "$full" '.manifests[0].annotations = {"io.containerd.image.name": $name, "org.opencontainers.image.ref.name": ($name | split(":") | last)}' \
    "$layout/index.json" >"$layout/edited"
  mv "$layout/edited" "$layout/index.json"
  # `docker load` reads this file, which has no form for several architectures.
  jq -r '.manifests[0] | select(.mediaType | endswith("image.manifest.v1+json")) | .digest | sub(":"; "/")' "$layout/index.json" | while read -r manifest; do
    jq -c --arg name "$3" '[{Config: .config.digest, RepoTags: [$name], Layers: [.layers[].digest]}]
      | walk(if type == "string" then sub("^sha256:"; "blobs/sha256/") else . end)' "$layout/blobs/$manifest" >"$layout/manifest.json"
  done
  chmod -R u=rwX,go=rX "$layout"
  packed "$layout" >"$2"
}

# packed DIRECTORY [ARGUMENT...]: prints the tar archive of a directory, or what further arguments of tar select. The same files give the same bytes.
packed() {
  local directory=$1 paths
  shift
  mapfile -t paths < <(ls -A "$directory")
  tar --sort=name --format=gnu --mtime="@${SOURCE_DATE_EPOCH:-0}" --owner=0 --group=0 --numeric-owner -C "$directory" -c "${@:-${paths[@]}}"
}

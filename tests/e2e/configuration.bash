# Certificates, kubeconfigs and configuration files of the cluster, below $etc. Sourced by `cluster` and `run`.

new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$etc/$1.key"; }

# certificate NAME SUBJECT [SUBJECT-ALT-NAMES]
certificate() {
  new_key "$1"
  openssl req -new -key "$etc/$1.key" -subj "$2" -out "$etc/$1.csr" 2>/dev/null
  printf 'extendedKeyUsage=clientAuth,serverAuth\n%s\n' "${3:+subjectAltName=$3}" >"$etc/$1.ext"
  openssl x509 -req -in "$etc/$1.csr" -CA "$etc/ca.crt" -CAkey "$etc/ca.key" -CAcreateserial -days 3650 -extfile "$etc/$1.ext" \
    -out "$etc/$1.crt" 2>/dev/null
}

# kubeconfig NAME: of who has NAME.crt and NAME.key
kubeconfig() {
  cat >"$etc/$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: e2e, cluster: {server: "https://127.0.0.1:443", certificate-authority: $etc/ca.crt}}]
users: [{name: $1, user: {client-certificate: $etc/$1.crt, client-key: $etc/$1.key}}]
contexts: [{name: e2e, context: {cluster: e2e, user: $1}}]
current-context: e2e
YAML
}

write_certificates() {
  new_key ca
  openssl req -x509 -new -key "$etc/ca.key" -subj /CN=e2e-ca -days 3650 -out "$etc/ca.crt" \
    -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature 2>/dev/null
  openssl genrsa -out "$etc/accounts.key" 2048 2>/dev/null
  openssl rsa -in "$etc/accounts.key" -pubout -out "$etc/accounts.pub" 2>/dev/null
  certificate apiserver /CN=kube-apiserver \
    "IP:127.0.0.1,IP:$node_ip,IP:$api_ip,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
  certificate admin /O=system:masters/CN=e2e-admin
  certificate kcm /CN=system:kube-controller-manager
  certificate scheduler /CN=system:kube-scheduler
  certificate kubelet "/O=system:nodes/CN=system:node:$node_name"
  local who
  for who in admin kcm scheduler kubelet; do kubeconfig $who; done
}

# The kubelet's own periods (10 s, 1 min) make every detach wait 10 s and every online expansion a minute: E2E_PERIODS=default
# keeps them.
write_kubelet() {
  local status=1s sync=5s
  [ "${E2E_PERIODS:-}" != default ] || status=10s sync=1m
  cat >"$etc/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $etc/ca.crt}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$cgroup
failSwapOn: false
failCgroupV1: false
makeIPTablesUtilChains: false
resolvConf: $etc/resolv.conf
volumePluginDir: $data/volume-plugins
# Images are on this node alone: none is ever removed, however full the disk is.
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
imageMinimumGCAge: 8760h
# By size, not by share: the disk is the whole machine's, and others fill it.
evictionHard: {memory.available: 100Mi, nodefs.available: 200Mi, imagefs.available: 200Mi, nodefs.inodesFree: "1000"}
nodeStatusUpdateFrequency: $status
syncFrequency: $sync
YAML
}

write_containerd() {
  cat >"$etc/containerd.toml" <<TOML
version = 2
root = "$data/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "e2e.local/pause:1"
  # Where CAP_SYS_RESOURCE is withheld nobody can lower oom_score_adj, and no pod would start.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$EBS_E2E_CNI"
    conf_dir = "$etc/cni"
TOML
  mkdir -p "$etc/cni"
  cat >"$etc/cni/10-e2e.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "e2e", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$pod_cidr"}]], "routes": [{"dst": "0.0.0.0/0"}]}}
]}
JSON
}

configure() {
  mkdir -p "$etc"
  write_certificates
  write_kubelet
  write_containerd
  printf '127.0.0.1 localhost\n%s %s\n' "$node_ip" "$node_name" >"$etc/hosts"
  printf 'nameserver %s\n' "$node_ip" >"$etc/resolv.conf"
}

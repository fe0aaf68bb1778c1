# Kubernetes itself: etcd, API server, controllers, scheduler, containerd and kubelet, as processes of the node. Sourced by
# `cluster` and `run`.

cluster_up() {
  [ "$(id -u)" = 0 ] || die "must run as root"
  ! node_pid >/dev/null || die "a cluster is already running: tests/e2e/cluster down"
  cluster_down
  mkdir -p "$log" "$run" "$etc" "$data"/{etcd,containerd} "$images"
  rm -f "$log"/*.log
  configure
  create_node

  start etcd "$EBS_E2E_CONTROL_PLANE/etcd" --name e2e --data-dir "$data/etcd" --unsafe-no-fsync \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster e2e=http://127.0.0.1:2380
  start containerd env PATH="$EBS_E2E_CONTAINERD:$PATH" "$EBS_E2E_CONTAINERD/containerd" --config "$etc/containerd.toml"
  start kube-apiserver "${EBS_E2E_APISERVER:-$EBS_E2E_CONTROL_PLANE/kube-apiserver}" --etcd-servers=http://127.0.0.1:2379 \
    --bind-address=0.0.0.0 --secure-port=443 --advertise-address="$node_ip" --allow-privileged=true \
    --service-cluster-ip-range="$service_cidr" --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --client-ca-file="$etc/ca.crt" --tls-cert-file="$etc/apiserver.crt" --tls-private-key-file="$etc/apiserver.key" \
    --kubelet-client-certificate="$etc/admin.crt" --kubelet-client-key="$etc/admin.key" \
    --service-account-key-file="$etc/accounts.pub" --service-account-signing-key-file="$etc/accounts.key" \
    --service-account-issuer=https://kubernetes.default.svc
  within 300 "the API server is ready" kc get --raw=/readyz
  start kube-controller-manager "$EBS_E2E_KUBERNETES/kube-controller-manager" --kubeconfig="$etc/kcm.kubeconfig" --leader-elect=false \
    --service-account-private-key-file="$etc/accounts.key" --root-ca-file="$etc/ca.crt" --use-service-account-credentials \
    --cluster-signing-cert-file="$etc/ca.crt" --cluster-signing-key-file="$etc/ca.key" --bind-address=127.0.0.1 \
    --flex-volume-plugin-dir="$data/volume-plugins"
  start kube-scheduler "$EBS_E2E_KUBERNETES/kube-scheduler" --kubeconfig="$etc/scheduler.kubeconfig" --leader-elect=false --bind-address=127.0.0.1
  within 240 "containerd serves" containers version
  start kubelet "$EBS_E2E_KUBERNETES/kubelet" --config="$etc/kubelet.yaml" --kubeconfig="$etc/kubelet.kubeconfig" \
    --hostname-override="$node_name" --node-ip="$node_ip" --root-dir=/var/lib/kubelet --cert-dir="$data/kubelet-pki"
  within 300 "the node is Ready" node_is_ready
  within 180 "the default service account" kc get serviceaccount default
  # As the cloud's controllers label it: the zone of the simulator's own instance.
  kc label node "$node_name" topology.kubernetes.io/region=us-west-2 topology.kubernetes.io/zone=us-west-2a >/dev/null
}

cluster_down() {
  destroy_node
  rm -rf "$data" "$images" "$work/sim" "$work/sim.env" "${work:?}/home"
}

node_is_ready() { [ "$(kc get node "$node_name" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]; }
containers() { in_node "$EBS_E2E_CONTAINERD/ctr" -n k8s.io "$@"; }

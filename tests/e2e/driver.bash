# The simulator, and the chart's release. Sourced by `cluster` and `run`.

bin=${BIN:-$target/debug} # aws-ebs-csi-driver, ebs-sim
chart=$repository/charts/aws-ebs-csi-driver
installed=("$chart")
values=(--namespace kube-system --values "$repository/tests/e2e/values.yaml")
# Helm pulls the chart of a release, and the node its image, from a registry of the node.
if [ -n "${RELEASE:-}" ]; then
  node_registry=127.0.0.1:5000
  chart=$(realpath "$RELEASE"/aws-ebs-csi-driver-*.tgz)
  installed=("oci://$node_registry/charts/aws-ebs-csi-driver" --version "$(basename "$chart" .tgz | sed 's/^aws-ebs-csi-driver-//')" --plain-http)
  values+=(--set "image.repository=$node_registry/aws-ebs-csi-driver")
fi
control=http://127.0.0.1:8002

helm() { HOME=$work/home "$EBS_E2E_HELM" "$@"; }
helm_in_node() { in_node env HOME="$work/home" KUBECONFIG="$admin" "$EBS_E2E_HELM" "$@"; }

# EC2 and the metadata service at the node's address, where pods reach them; in the node, so that its disks are the node's.
simulator_up() {
  rm -rf "$work/sim" "$work/sim.env"
  local timing=(--timing realistic --max-lag 2000)
  [ -z "${E2E_SIMULATOR:-}" ] || read -ra timing <<<"$E2E_SIMULATOR"
  start ebs-sim "$bin/ebs-sim" --state-dir "$work/sim" --env-file "$work/sim.env" --ec2-listen "$node_ip:8000" --imds-listen "$node_ip:8001" \
    --control-listen "${control#http://}" --second-zone us-west-2b "${timing[@]}"
  within 120 "the simulator is ready" test -e "$work/sim.env"
}

# It takes its disks with it. The ledger stays, with the logs.
simulator_down() {
  stop ebs-sim 60
  cp "$work/sim/ledger.jsonl" "$log/" 2>/dev/null || true
}

ec2_state() { in_node curl -sf --max-time 30 "$control/state"; }
# ec2 ACTION [NAME=VALUE...]: a call by hand.
ec2() {
  local action=$1 parameter data=()
  shift
  for parameter; do data+=(--data-urlencode "$parameter"); done
  (
    . "$work/sim.env"
    in_node curl -sf --max-time 30 --aws-sigv4 "aws:amz:us-west-2:ec2" --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
      --data-urlencode "Action=$action" --data-urlencode Version=2016-11-15 "${data[@]}" "$AWS_EC2_ENDPOINT/"
  )
}

# What a cluster with snapshots has before any driver comes: the API of snapshots, and its controller.
snapshots_up() {
  kc apply -f "$EBS_E2E_SIDECARS/crd" >/dev/null
  kc wait --for=condition=Established --timeout=180s crd/volumesnapshots.snapshot.storage.k8s.io \
    crd/volumesnapshotcontents.snapshot.storage.k8s.io crd/volumesnapshotclasses.snapshot.storage.k8s.io >/dev/null
  start snapshot-controller "$EBS_E2E_SIDECARS/snapshot-controller" --kubeconfig="$admin" --leader-election=false --v=2
}

# The chart with the means it has for other endpoints and keys: a ConfigMap, a Secret, and the node's environment.
chart_in() {
  snapshots_up
  (
    . "$work/sim.env"
    kc -n kube-system create configmap aws-meta --from-literal=endpoint="$AWS_EC2_ENDPOINT" >/dev/null
    kc -n kube-system create secret generic aws-secret --from-literal=key_id="$AWS_ACCESS_KEY_ID" --from-literal=access_key="$AWS_SECRET_ACCESS_KEY" >/dev/null
    cat >"$etc/values.yaml" <<YAML
node:
  env:
    - {name: AWS_EC2_METADATA_SERVICE_ENDPOINT, value: "$AWS_EC2_METADATA_SERVICE_ENDPOINT"}
    - {name: EBS_SIM_DEVICES_DIR, value: "$EBS_SIM_DEVICES_DIR"}
  volumes:
    - {name: simulated-disks, hostPath: {path: "$EBS_SIM_DEVICES_DIR", type: Directory}}
  volumeMounts:
    - {name: simulated-disks, mountPath: "$EBS_SIM_DEVICES_DIR", readOnly: true}
YAML
  )
  helm_in_node install aws-ebs-csi-driver "${installed[@]}" "${values[@]}" --values "$etc/values.yaml" --wait --timeout 10m >"$log/helm-install.log" 2>&1 ||
    { tail -5 "$log/helm-install.log" && kc -n kube-system get pods -o wide && die "the chart's pods do not become ready"; }
  within 300 "the kubelet knows the driver" registered
}

registered() { kc get csinode "$node_name" -o 'jsonpath={.spec.drivers[*].name}' | grep -qw ebs.csi.aws.com; }

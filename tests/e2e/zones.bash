# Two availability zones: where volumes are created, and where their pods run. Sourced by `run`.
#
# Zone a has the node. Zone b has a Node object without a kubelet, which this test keeps ready, and the simulator's second
# instance. So a pod in zone b is scheduled, and its volume is attached in EC2, but the pod does not start.

zone_a=us-west-2a zone_b=us-west-2b
node_b=e2e-zone-b
zone_key=topology.kubernetes.io/zone

# The chart's DaemonSet avoids nodes of this compute type.
create_node_b() {
  local instance node
  instance=$(. "$work/sim.env" && echo "$EBS_SIM_SECOND_INSTANCE_ID")
  node=$(kc get node "$node_name" -o json)
  jq --arg name "$node_b" --arg a "$zone_a" --arg b "$zone_b" --arg id "$instance" '{apiVersion, kind, metadata: {
      name: $name,
      annotations: {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
      labels: (.metadata.labels | map_values(if . == $a then $b else . end)
        + {"kubernetes.io/hostname": $name, "eks.amazonaws.com/compute-type": "fargate"})},
    spec: {providerID: "aws:///\($b)/\($id)"}}' <<<"$node" | kc create -f - >/dev/null
  jq '{status: {capacity: .status.capacity, allocatable: .status.allocatable}}' <<<"$node" >"$etc/$node_b.json"
  kc patch node "$node_b" --subresource=status --patch-file "$etc/$node_b.json" >/dev/null
  kc get csinode "$node_name" -o json | jq --arg name "$node_b" --arg id "$instance" --arg uid "$(kc get node "$node_b" -o 'jsonpath={.metadata.uid}')" \
    '{apiVersion, kind, metadata: {name: $name, ownerReferences: [{apiVersion: "v1", kind: "Node", name: $name, uid: $uid}]},
      spec: {drivers: [.spec.drivers[] | .nodeID = $id]}}' | kc create -f - >/dev/null
  keep_ready &
  keeper=$!
  within "$patience" "the Node of zone $zone_b is Ready" kc wait --for=condition=Ready "node/$node_b" --timeout=1s
}

# The heartbeat of a kubelet. Kubernetes detaches volumes when it sees a Node that uses none.
keep_ready() {
  local now
  while :; do
    now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    kc patch node "$node_b" --subresource=status -p \
      "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"KubeletReady\",\"message\":\"\",\"lastHeartbeatTime\":\"$now\",\"lastTransitionTime\":\"$now\"}]}}"
    sleep 3
  done >/dev/null 2>&1
}

stop_keeping() {
  [ -n "${keeper:-}" ] || return 0
  stop_loop "$keeper"
  keeper=
}

zone_class() { # NAME MODE [ZONE]
  local allowed=
  [ -z "${3:-}" ] || allowed="allowedTopologies: [{matchLabelExpressions: [{key: $zone_key, values: [$3]}]}]"
  kc apply -f - >/dev/null <<YAML
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: $namespace-$1}
provisioner: $driver
parameters: {type: gp3}
volumeBindingMode: $2
$allowed
YAML
}

zone_claim() { # CLASS NAME
  apply <<YAML
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $2}
spec: {accessModes: [ReadWriteOnce], storageClassName: $namespace-$1, resources: {requests: {storage: 1Gi}}}
YAML
}

zone_pod() { # CLAIM
  apply <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $1, labels: {role: in-zone}}
spec:
$(uses ext4 "$1" | sed 's/^/  /')
YAML
}

bound() { on wait --for=jsonpath='{.status.phase}'=Bound "pvc/$1" --timeout="${patience}s" >/dev/null || die "the claim $1 is not bound"; }
volume_of() { kc get pv "$(on get pvc "$1" -o 'jsonpath={.spec.volumeName}')" -o json; }

# zone_of CLAIM: of its volume in EC2. The PV's affinity must be exactly this zone.
zone_of() {
  local pv id zone
  pv=$(volume_of "$1")
  id=$(jq -r .spec.csi.volumeHandle <<<"$pv")
  zone=$(ec2_state | jq -r --arg id "$id" '.volumes[] | select(.id == $id) | .zone')
  jq -e --arg key "$zone_key" --arg zone "$zone" \
    '.spec.nodeAffinity == {required: {nodeSelectorTerms: [{matchExpressions: [{key: $key, operator: "In", values: [$zone]}]}]}}' <<<"$pv" >/dev/null ||
    die "$1: EC2 has $id in $zone, but the PV has $(jq -c .spec.nodeAffinity <<<"$pv")"
  echo "$zone"
}

scheduled_to() { [ "$(on get pod "$1" -o 'jsonpath={.spec.nodeName}')" = "$2" ]; }
attached_in_zone_b() {
  local id instance
  id=$(volume_of "$1" | jq -r .spec.csi.volumeHandle)
  instance=$(. "$work/sim.env" && echo "$EBS_SIM_SECOND_INSTANCE_ID")
  ec2_state | jq -e --arg id "$id" --arg instance "$instance" \
    '.volumes[] | select(.id == $id) | [.attachments[] | [.instance, .state]] == [[$instance, "attached"]]' >/dev/null
}

# follows CLAIM: the pod runs, or is scheduled and has its volume attached, in the zone of the volume.
follows() {
  local zone
  zone=$(zone_of "$1")
  if [ "$zone" = "$zone_a" ]; then
    on wait --for=condition=Ready "pod/$1" --timeout="${patience}s" >/dev/null || die "the pod $1 is not running"
    scheduled_to "$1" "$node_name" || die "the pod $1 is not in $zone"
    inside "$1" "echo $1 >/data/name && sync"
  else
    within "$patience" "the pod $1 is scheduled to $zone" scheduled_to "$1" "$node_b"
    within "$patience" "the volume of $1 is attached in $zone" attached_in_zone_b "$1"
  fi
}

remove_node_b() {
  on delete pod --all --grace-period=0 --force --timeout="${patience}s" >/dev/null 2>&1
  on delete pvc --all --timeout="${patience}s" >/dev/null
  within "$patience" "nothing is left in Kubernetes and EC2" none_left
  stop_keeping
  kc delete node "$node_b" --timeout="${patience}s" >/dev/null
  within "$patience" "the CSINode of zone $zone_b is deleted" csinode_b_is_gone
  kc delete storageclass "$namespace"-{immediate,allowed,first-consumer} >/dev/null
  kc delete namespace "$namespace" --timeout="${patience}s" >/dev/null
}
csinode_b_is_gone() { [ -z "$(kc get csinode "$node_b" --ignore-not-found -o name)" ]; }

zones() { # NAMESPACE PATIENCE
  local name found
  namespace=$1 patience=$2
  kc create namespace "$namespace" >/dev/null
  within 180 "the namespace's service account" on get serviceaccount default
  create_node_b
  zone_class immediate Immediate
  zone_class allowed Immediate "$zone_b"
  zone_class first-consumer WaitForFirstConsumer "$zone_b"
  for name in data-{0..3}; do zone_claim immediate "$name"; done
  for name in allowed-{0,1}; do zone_claim allowed "$name"; done
  zone_claim first-consumer chosen-0
  for name in data-{0..3} allowed-{0,1}; do bound "$name"; done
  found=$(for name in data-{0..3}; do zone_of "$name"; done | sort | uniq -c | awk '{print $1 " in " $2}' | paste -sd, | sed 's/,/, /')
  [ "$found" = "2 in $zone_a, 2 in $zone_b" ] || die "volumes with Immediate binding: $found"
  pass "Immediate binding: volumes are $found; each PV has the affinity of its volume's zone"
  for name in allowed-{0,1}; do [ "$(zone_of "$name")" = "$zone_b" ] || die "$name is not in $zone_b, the only allowed zone"; done
  pass "allowedTopologies: volumes are in $zone_b, the allowed zone"
  for name in data-{0..3} chosen-0; do zone_pod "$name"; done
  for name in data-{0..3}; do follows "$name"; done
  pass "pods follow their volumes to both zones"
  bound chosen-0
  [ "$(zone_of chosen-0)" = "$zone_b" ] || die "chosen-0 is not in $zone_b, the only allowed zone"
  follows chosen-0
  pass "allowedTopologies with WaitForFirstConsumer: the pod and its volume are in $zone_b"
  remove_node_b
  pass "deleted: pods, volumes and the Node of $zone_b"
}

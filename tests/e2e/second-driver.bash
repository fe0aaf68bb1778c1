# A second CSI driver in the cluster: Kubernetes' own mock driver, with the official sidecars. Sourced by `run`.
#
# Neither driver changes the other's registration, attach limit, taint, or volumes, and each can be uninstalled alone.

second=second.csi.example.com
second_limit=3

second_image() {
  local root
  root=$(empty_root)
  cp "$EBS_E2E_SECOND_DRIVER" "$root/second-driver"
  image e2e.local/second-driver:1 "$root" "" /second-driver
}

second_manifest() {
  local name script="s/NAMESPACE/$namespace/"
  for name in $(rendered_images); do script+=";s|IMAGE-$(basename "${name%:*}")\$|$name|"; done
  sed "$script" "$repository/tests/e2e/second-driver.yaml"
}

# csinode_entry DRIVER: empty when the kubelet does not have the driver
csinode_entry() { kc get csinode "$node_name" -o json | jq -cS --arg name "$1" '.spec.drivers[] | select(.name == $name)'; }
second_is_registered() { [ -n "$(csinode_entry "$second")" ]; }
second_is_gone() { ! second_is_registered; }
attachments_of() { kc get volumeattachments -o json | jq --arg attacher "$1" '[.items[] | select(.spec.attacher == $attacher)] | length'; }
none_attached_by() { [ "$(attachments_of "$1")" = 0 ]; }

second_up() {
  second_manifest | on apply -f - >/dev/null
  on rollout status deployment/second-driver --timeout="${patience}s" >/dev/null || die "the second driver is not running"
  within "$patience" "the kubelet registers the second driver" second_is_registered
}
second_down() {
  second_manifest | on delete --timeout="${patience}s" -f - >/dev/null 2>"$log/second-driver.log"
  within "$patience" "the kubelet removes the second driver" second_is_gone
}

# two_claims_pod NAME EBS SECOND: claims of each driver, and a pod that uses them all
two_claims_pod() {
  local name=$1 at claims=()
  for at in $(seq "$2"); do claims+=("$name-ebs-$at $namespace"); done
  for at in $(seq "$3"); do claims+=("$name-second-$at second"); done
  {
    for at in "${claims[@]}"; do
      cat <<YAML
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ${at% *}}
spec: {accessModes: [ReadWriteOnce], storageClassName: ${at#* }, resources: {requests: {storage: 1Gi}}}
---
YAML
    done
    cat <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $name}
spec:
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists, effect: NoSchedule}]
  containers:
    - name: main
      image: "$pod_image"
      command: [sleep, "1000000"]
      volumeMounts: [$(for at in "${claims[@]}"; do printf '{name: %s, mountPath: /data/%s}, ' "${at% *}" "${at% *}"; done)]
  volumes: [$(for at in "${claims[@]}"; do printf '{name: %s, persistentVolumeClaim: {claimName: %s}}, ' "${at% *}" "${at% *}"; done)]
YAML
  } | apply
}
runs() { on wait --for=condition=Ready "pod/$1" --timeout="${patience}s" >/dev/null || die "the pod $1 is not running"; }
writes() { inside "$1" "for each in /data/*; do echo $1 >\$each/name; done; sync"; }
remembers() { [ "$(inside "$1" 'cat /data/*/name' | sort -u)" = "$1" ] || die "the pod $1 does not find its files"; }
remove_pod() {
  local claim
  on delete pod "$1" --timeout="${patience}s" >/dev/null
  for claim in $(on get pvc -o name | grep "/$1-"); do on delete "$claim" --timeout="${patience}s" >/dev/null; done
}
exceeds_the_limit() { on get pod "$1" -o json | jq -e '.status.conditions[]? | select(.type == "PodScheduled") | .message | test("max volume count|exceed")' >/dev/null; }

# The scheduler counts the volumes of each driver separately.
attach_limits() { # ENTRY-OF-EBS-BEFORE
  [ "$(csinode_entry "$driver")" = "$1" ] || die "the second driver changed the entry of $driver: $1, now $(csinode_entry "$driver")"
  [ "$(csinode_entry "$second" | jq .allocatable.count)" = "$second_limit" ] || die "the second driver has another limit: $(csinode_entry "$second")"
  two_claims_pod both 1 $second_limit
  runs both
  writes both
  two_claims_pod full 0 1
  within "$patience" "the second driver's limit is reached" exceeds_the_limit full
  two_claims_pod only-ebs 2 0
  runs only-ebs
  writes only-ebs
  remove_pod full
  pass "two drivers: $driver has its attach limit ($(jq .allocatable.count <<<"$1")), the second its own ($second_limit)"
}

taints_now() { kc get node "$node_name" -o json | jq -cS '[.spec.taints[]?.key | select(endswith("agent-not-ready"))]'; }
only_the_taint_of_the_second() { [ "$(taints_now)" = "[\"$second/agent-not-ready\"]" ]; }
startup_taints() {
  kc taint node "$node_name" "$second/agent-not-ready=:NoSchedule" >/dev/null
  kc taint node "$node_name" "$driver/agent-not-ready=:NoSchedule" >/dev/null
  within "$patience" "$driver removes its own start-up taint" only_the_taint_of_the_second
  kc -n kube-system rollout restart daemonset/ebs-csi-node >/dev/null
  kc -n kube-system rollout status daemonset/ebs-csi-node --timeout="${patience}s" >/dev/null || die "the node pod does not start with the taint of another driver"
  only_the_taint_of_the_second || die "the taints are $(taints_now)"
  kc taint node "$node_name" "$second/agent-not-ready-" >/dev/null
  pass "two drivers: $driver removes its start-up taint and leaves the second's"
}

# On a drained node, the hook waits for the attachments of its own driver only. If it waited for the second's, the kubelet
# would kill it at the end of the grace period.
pre_stop_hook() {
  local began_at grace took
  remove_pod both
  two_claims_pod stays 0 1
  runs stays
  writes stays
  kc cordon "$node_name" >/dev/null
  on delete pod only-ebs --timeout="${patience}s" >/dev/null
  within "$patience" "the volumes of $driver are detached" none_attached_by "$driver"
  grace=$(kc -n kube-system get daemonset ebs-csi-node -o 'jsonpath={.spec.template.spec.terminationGracePeriodSeconds}')
  began_at=$(date +%s)
  kc -n kube-system delete pod -l app=ebs-csi-node --timeout="${patience}s" >/dev/null
  took=$(($(date +%s) - began_at))
  [ "$took" -lt "$grace" ] || die "the node pod took $took s to end; its grace period is $grace s"
  ! none_attached_by "$second" || die "the second driver's volume was detached"
  kc uncordon "$node_name" >/dev/null
  kc -n kube-system rollout status daemonset/ebs-csi-node --timeout="${patience}s" >/dev/null
  remembers stays
  two_claims_pod only-ebs 2 0
  runs only-ebs
  remembers only-ebs
  pass "two drivers: on a drained node, the pre-stop hook ends (the pod: $took of $grace s) while a volume of the second is attached"
}

second_driver() { # NAMESPACE PATIENCE
  local before
  namespace=$1 patience=$2
  kc create namespace "$namespace" >/dev/null
  within 180 "the namespace's service account" on get serviceaccount default
  kc apply -f - >/dev/null <<YAML
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: $namespace}
provisioner: $driver
volumeBindingMode: WaitForFirstConsumer
YAML
  second_image
  before=$(csinode_entry "$driver")
  second_up
  pass "a second driver is registered with the kubelet: $(kc get csinode "$node_name" -o 'jsonpath={.spec.drivers[*].name}')"
  attach_limits "$before"
  startup_taints
  pre_stop_hook
  remove_pod stays
  within "$patience" "the volumes of the second driver are detached" none_attached_by "$second"
  second_down
  [ "$(csinode_entry "$driver")" = "$before" ] || die "the entry of $driver changed with the removal of the second driver"
  remembers only-ebs
  two_claims_pod new-ebs 1 0
  runs new-ebs
  remove_pod new-ebs
  remove_pod only-ebs
  within "$patience" "nothing is left in Kubernetes and EC2" none_left
  pass "two drivers: the second is uninstalled, and $driver serves its volumes and new ones"
}

# Before and after the chart is uninstalled.
second_stays() {
  second_up
  two_claims_pod stays 0 1
  runs stays
  writes stays
  second_before=$(csinode_entry "$second")
}
ebs_is_gone() { [ -z "$(csinode_entry "$driver")" ]; }
second_outlives() {
  within "$patience" "the kubelet removes $driver" ebs_is_gone
  [ "$(csinode_entry "$second")" = "$second_before" ] || die "the entry of the second driver changed with the removal of the chart"
  remembers stays
  two_claims_pod new 0 1
  runs new
  remove_pod new
  remove_pod stays
  within "$patience" "the volumes of the second driver are detached" none_attached_by "$second"
  second_down
  kc delete namespace "$namespace" --timeout="${patience}s" >/dev/null
  kc delete storageclass "$namespace" >/dev/null
  pass "two drivers: $driver is uninstalled, and the second serves its volumes and new ones"
}

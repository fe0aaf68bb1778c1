# The life of volumes, all kinds at once: ext4, xfs, and raw blocks. Sourced by `run`.
#
# PVC, pod writes, snapshot, restore, pod reads, expansion, modification by a VolumeAttributesClass, drain of the node, deletion.

kinds=(ext4 xfs block)
driver=ebs.csi.aws.com
mib=32 # what each pod writes

pass() { say "PASS  $*"; }
on() { kc -n "$namespace" "$@"; }
apply() { on apply -f - >/dev/null; }
inside() { # POD COMMAND
  on exec "$1" -- sh -c "$2"
}

no_pods() { [ -z "$(on get pods "$@" -o name)" ]; }

# What went wrong, from whoever knows.
diagnose() {
  {
    kc get pods -A -o wide
    kc -n "${namespace:-default}" get pvc,volumesnapshots -o wide
    kc get pv,volumeattachments,volumesnapshotcontents
    kc -n "${namespace:-default}" get events --sort-by=.lastTimestamp | tail -60
    for pod in $(kc -n kube-system get pods -o name); do
      kc -n kube-system logs --all-containers --prefix --tail=200 "$pod"
      kc -n kube-system logs --previous -c ebs-plugin --tail=100 "$pod"
    done
    ec2_state | jq -c '.volumes[]'
  } >"$log/diagnosis.log" 2>&1 || true
  say "state of Kubernetes, the driver and EC2: $log/diagnosis.log"
}

# The kernel lets only CAP_SYS_RESOURCE grow a mounted ext4.
grows_online() { [ "$1" != ext4 ] || [ $((0x$(awk '/^CapEff/ {print $2}' /proc/self/status) >> 24 & 1)) = 1 ]; }

# mode KIND: of its claim
mode() { if [ "$1" = block ]; then echo Block; else echo Filesystem; fi; }
# uses KIND CLAIM: the part of a container and of a pod that use it
uses() {
  local at="volumeMounts: [{name: data, mountPath: /data}]"
  [ "$1" != block ] || at="volumeDevices: [{name: data, devicePath: /dev/xvda}]"
  cat <<YAML
terminationGracePeriodSeconds: 1
containers:
  - {name: main, image: "$pod_image", command: [sleep, "1000000"], $at}
volumes: [{name: data, persistentVolumeClaim: {claimName: $2}}]
YAML
}

claim() { # KIND NAME SIZE [SOURCE]
  apply <<YAML
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $2}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: $namespace-$1
  volumeMode: $(mode "$1")
  resources: {requests: {storage: $3}}
  ${4:-}
YAML
}

classes() {
  local kind parameters
  for kind in "${kinds[@]}"; do
    parameters="type: gp3"
    [ "$kind" = block ] || parameters="type: gp3, csi.storage.k8s.io/fstype: $kind"
    kc apply -f - >/dev/null <<YAML
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: $namespace-$kind}
provisioner: $driver
parameters: {$parameters}
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
YAML
  done
  kc apply -f - >/dev/null <<YAML
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: $namespace}
driver: $driver
deletionPolicy: Delete
YAML
  ! serves_attributes_classes || kc apply -f - >/dev/null <<YAML
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: $namespace}
driverName: $driver
parameters: {type: gp3, iops: "4000", throughput: "200"}
YAML
}

# Kubernetes has served VolumeAttributesClass since 1.34.
serves_attributes_classes() { kc get --raw /apis/storage.k8s.io/v1 | jq -e '.resources[] | select(.name == "volumeattributesclasses")' >/dev/null; }

# A StatefulSet a volume: its pod comes back after a drain.
writer() {
  on apply -f - >/dev/null <<YAML
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: writer-$1}
spec:
  replicas: 1
  serviceName: writer
  selector: {matchLabels: {app: writer-$1}}
  template:
    metadata: {labels: {app: writer-$1, role: writer}}
    spec:
$(uses "$1" "data-$1" | sed 's/^/      /')
YAML
}
writers_run() {
  local kind
  for kind in "${kinds[@]}"; do on rollout status "statefulset/writer-$kind" --timeout="${patience}s" >/dev/null || die "the pod on $kind is not running"; done
}

reader() {
  on apply -f - >/dev/null <<YAML
apiVersion: v1
kind: Pod
metadata: {name: reader-$1, labels: {role: reader}}
spec:
$(uses "$1" "restored-$1" | sed 's/^/  /')
YAML
}

# write POD KIND, sum POD KIND: what is on the volume
write() {
  if [ "$2" = block ]; then
    inside "$1" "dd if=/dev/urandom of=/dev/xvda bs=1M count=$mib 2>/dev/null && sync"
  else
    inside "$1" "dd if=/dev/urandom of=/data/file bs=1M count=$mib 2>/dev/null && sync"
  fi
}
sum() {
  local from=/data/file
  [ "$2" != block ] || from=/dev/xvda
  inside "$1" "dd if=$from bs=1M count=$mib 2>/dev/null | sha256sum" | cut -d' ' -f1
}
# KiB that the pod sees
size() {
  if [ "$2" = block ]; then inside "$1" 'echo $(($(blockdev --getsize64 /dev/xvda) / 1024))'; else inside "$1" "df -k /data | tail -1 | awk '{print \$2}'"; fi
}

same_content() { # POD-PREFIX POD-SUFFIX WHERE
  local kind found
  for kind in "${kinds[@]}"; do
    found=$(sum "$1-$kind$2" "$kind")
    [ "$found" = "${written[$kind]}" ] || die "$kind: $3 has $found, but ${written[$kind]} was written"
  done
}

# described KIND: its PV, as the provisioner writes it, and the tags of its volume in EC2.
described() {
  local pv name handle fs_type=$1
  [ "$1" != block ] || fs_type=
  name=$(on get pvc "data-$1" -o 'jsonpath={.spec.volumeName}')
  pv=$(kc get pv "$name" -o json)
  jq -e --arg driver "$driver" --arg fs_type "$fs_type" '
    .metadata.annotations["pv.kubernetes.io/provisioned-by"] == $driver and .spec.csi.driver == $driver
    and (.spec.csi.volumeAttributes["storage.kubernetes.io/csiProvisionerIdentity"] | endswith("-" + $driver))
    and (.spec.csi.fsType // "") == $fs_type and .spec.persistentVolumeReclaimPolicy == "Delete"' <<<"$pv" >/dev/null ||
    die "the PV of $1 lacks fields: $pv"
  handle=$(jq -r .spec.csi.volumeHandle <<<"$pv")
  ec2_state | jq -e --arg id "$handle" --arg pv "$name" --arg pvc "data-$1" --arg namespace "$namespace" '
    .volumes[] | select(.id == $id) | .tags == {
      CSIVolumeName: $pv, KubernetesCluster: "e2e", Name: "e2e-dynamic-\($pv)",
      "ebs.csi.aws.com/cluster": "true", "ebs.csi.aws.com/cluster-name": "e2e", "kubernetes.io/cluster/e2e": "owned",
      "kubernetes.io/created-for/pv/name": $pv, "kubernetes.io/created-for/pvc/name": $pvc,
      "kubernetes.io/created-for/pvc/namespace": $namespace}' >/dev/null ||
    die "the tags of $handle are $(ec2_state | jq -c --arg id "$handle" '.volumes[] | select(.id == $id) | .tags')"
}

provision() {
  local kind
  classes
  for kind in "${kinds[@]}"; do
    claim "$kind" "data-$kind" 1Gi
    writer "$kind"
  done
  writers_run
  pass "claims are provisioned, attached, formatted and mounted: ${kinds[*]}"
  for kind in "${kinds[@]}"; do described "$kind"; done
  pass "PVs have the provisioner, its identity, the file system and the reclaim policy; EC2 has the tags of claims and cluster"
  for kind in "${kinds[@]}"; do
    write "writer-$kind-0" "$kind"
    written[$kind]=$(sum "writer-$kind-0" "$kind")
    first_size[$kind]=$(size "writer-$kind-0" "$kind")
  done
  pass "pods have written $mib MiB each"
}

snapshot_and_restore() {
  local kind
  for kind in "${kinds[@]}"; do
    apply <<YAML
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: of-$kind}
spec: {volumeSnapshotClassName: $namespace, source: {persistentVolumeClaimName: data-$kind}}
YAML
  done
  on wait --for=jsonpath='{.status.readyToUse}'=true volumesnapshot --all --timeout="${patience}s" >/dev/null || die "no snapshot is ready"
  pass "snapshots are ready"
  for kind in "${kinds[@]}"; do
    claim "$kind" "restored-$kind" 2Gi "dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: of-$kind}"
    reader "$kind"
  done
  on wait --for=condition=Ready pod -l role=reader --timeout="${patience}s" >/dev/null || die "the pods on restored volumes are not running"
  same_content reader "" "the restored volume"
  for kind in "${kinds[@]}"; do
    [ "$(size "reader-$kind" "$kind")" -gt $((first_size[$kind] * 3 / 2)) ] || die "$kind: the restored volume is not larger"
  done
  pass "restored volumes of twice the size contain the written data"
  on delete pod -l role=reader --timeout="${patience}s" >/dev/null
  for kind in "${kinds[@]}"; do on delete --timeout="${patience}s" "pvc/restored-$kind" "volumesnapshot/of-$kind" >/dev/null; done
  pass "restored volumes and snapshots are deleted"
}

expanded() { [ "$(size "writer-$1-0" "$1")" -gt $((first_size[$1] * 3 / 2)) ]; }
claims_say() { # JSONPATH VALUE
  local kind
  for kind in "${kinds[@]}"; do [ "$(on get pvc "data-$kind" -o "jsonpath=$1")" = "$2" ] || return 1; done
}
pending() { on get pvc data-ext4 -o 'jsonpath={.status.conditions[*].type}' | grep -q FileSystemResizePending; }

# To 8 GiB, which gp3 needs for the 4000 IOPS of `modify`. Online; an ext4 that this machine cannot grow while it is mounted, with a restart of its pod.
expand() {
  local kind online=()
  for kind in "${kinds[@]}"; do
    ! grows_online "$kind" || online+=("$kind")
    grows_online "$kind" || on scale "statefulset/writer-$kind" --replicas=0 >/dev/null
  done
  grows_online ext4 || within "$patience" "the pod on ext4 ends" no_pods -l app=writer-ext4
  for kind in "${kinds[@]}"; do on patch pvc "data-$kind" -p '{"spec":{"resources":{"requests":{"storage":"8Gi"}}}}' >/dev/null; done
  for kind in "${online[@]}"; do within "$patience" "$kind grows online" expanded "$kind"; done
  pass "expanded while in use by a pod: ${online[*]}"
  if ! grows_online ext4; then
    within "$patience" "ext4 waits for its pod" pending
    on scale statefulset/writer-ext4 --replicas=1 >/dev/null
    writers_run
    within "$patience" "ext4 grows with its pod" expanded ext4
    pass "expanded with a restart of the pod: ext4 (this machine lacks CAP_SYS_RESOURCE, which grows it mounted)"
  fi
  within "$patience" "the claims report 8Gi" claims_say '{.status.capacity.storage}' 8Gi
  same_content writer -0 "the expanded volume"
  pass "claims report the new size, and pods find their data"
}

iops_in_ec2() {
  local kind handle
  for kind in "${kinds[@]}"; do
    handle=$(kc get pv "$(on get pvc "data-$kind" -o 'jsonpath={.spec.volumeName}')" -o 'jsonpath={.spec.csi.volumeHandle}')
    ec2_state | jq -e --arg id "$handle" '.volumes[] | select(.id == $id) | .iops == 4000 and .throughput == 200' >/dev/null || return 1
  done
}
modify() {
  local kind
  if ! serves_attributes_classes; then
    say "      not modified: $EBS_E2E_VERSION does not serve VolumeAttributesClass"
    return 0
  fi
  for kind in "${kinds[@]}"; do on patch pvc "data-$kind" -p "{\"spec\":{\"volumeAttributesClassName\":\"$namespace\"}}" >/dev/null; done
  within "$patience" "the claims have their VolumeAttributesClass" claims_say '{.status.currentVolumeAttributesClassName}' "$namespace"
  within "$patience" "EC2 has 4000 IOPS and 200 MiB/s" iops_in_ec2
  pass "modified by a VolumeAttributesClass, also in EC2"
}

attachments_of_life() { kc get volumeattachments -o 'jsonpath={range .items[*]}{.spec.attacher}{"\n"}{end}' | grep -c "$driver" || true; }
no_attachments() { [ "$(attachments_of_life)" = 0 ]; }
# As before a node is replaced. The controller stays: there is no other node for it, and its disruption budget would hold the drain up.
drain() {
  kc drain "$node_name" --ignore-daemonsets --delete-emptydir-data --pod-selector='app!=ebs-csi-controller' --timeout="${patience}s" \
    >"$log/drain.log" 2>&1 || die "the node does not drain: $(tail -2 "$log/drain.log")"
  # Its pre-stop hook holds it until the volumes are detached.
  kc -n kube-system delete pod -l app=ebs-csi-node --timeout="${patience}s" >/dev/null 2>&1 || true
  within "$patience" "the drained node has no volumes" no_attachments
  pass "the node is drained: pods evicted, volumes unmounted and detached"
  kc uncordon "$node_name" >/dev/null
  kc -n kube-system rollout status daemonset/ebs-csi-node --timeout="${patience}s" >/dev/null
  writers_run
  same_content writer -0 "the volume after the drain"
  pass "the node accepts pods again, which find their data"
}

none_left() {
  [ -z "$(kc get pv,volumeattachments,volumesnapshotcontents -o name)" ] &&
    ec2_state | jq -e '[(.volumes[], .snapshots[]) | select(.state != "deleted" and (.tags | has("CSIVolumeName") or has("CSIVolumeSnapshotName")))] == []' >/dev/null
}
remove() {
  local kind
  for kind in "${kinds[@]}"; do on delete statefulset "writer-$kind" --timeout="${patience}s" >/dev/null; done
  within "$patience" "the pods end" no_pods -l role=writer
  on delete pvc --all --timeout="${patience}s" >/dev/null
  within "$patience" "nothing is left in Kubernetes and EC2" none_left
  kc delete namespace "$namespace" --timeout="${patience}s" >/dev/null
  for kind in "${kinds[@]}"; do kc delete storageclass "$namespace-$kind" >/dev/null; done
  kc delete "volumesnapshotclass/$namespace" >/dev/null
  ! serves_attributes_classes || kc delete "volumeattributesclass/$namespace" >/dev/null
  pass "deleted: no PV, attachment or snapshot in Kubernetes, and no object in EC2"
}

# life NAMESPACE PATIENCE: a whole one, each step within so many seconds
life() {
  namespace=$1 patience=$2
  declare -gA written=() first_size=()
  kc create namespace "$namespace" >/dev/null
  within 180 "the namespace's service account" on get serviceaccount default
  provision
  snapshot_and_restore
  expand
  modify
  drain
  remove
}

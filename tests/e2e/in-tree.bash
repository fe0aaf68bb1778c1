# Volumes and classes of the in-tree plugin, kubernetes.io/aws-ebs, served by this driver: Kubernetes and the sidecars translate
# them. Sourced by `run`.

in_tree_class_and_claim() {
  apply <<YAML
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: $namespace}
provisioner: kubernetes.io/aws-ebs
parameters: {type: gp2, fsType: ext4}
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
allowedTopologies:
  - matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [us-west-2a]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: dynamic}
spec: {accessModes: [ReadWriteOnce], storageClassName: $namespace, resources: {requests: {storage: 1Gi}}}
YAML
}

# A class with the plugin's other parameters. The provisioner translates `zone`, and raises 10 IOPS for each GiB to the least of io1.
in_tree_parameters() {
  apply <<YAML
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: $namespace-io1}
provisioner: kubernetes.io/aws-ebs
parameters: {type: io1, iopsPerGB: "10", encrypted: "true", zone: us-west-2a}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: parameters}
spec: {accessModes: [ReadWriteOnce], storageClassName: $namespace-io1, resources: {requests: {storage: 4Gi}}}
YAML
  on wait --for=jsonpath='{.status.phase}'=Bound pvc/parameters --timeout="${patience}s" >/dev/null || die "the claim of the in-tree class with io1 is not bound"
  local id
  id=$(kc get pv "$(on get pvc parameters -o 'jsonpath={.spec.volumeName}')" -o 'jsonpath={.spec.awsElasticBlockStore.volumeID}')
  ec2_state | jq -e --arg id "${id##*/}" '.volumes[] | select(.id == $id) | [.type, .size_gib, .iops, .encrypted, .zone] == ["io1", 4, 100, true, "us-west-2a"]' >/dev/null ||
    die "the volume of the in-tree class is $(ec2_state | jq -c --arg id "${id##*/}" '.volumes[] | select(.id == $id)')"
  pass "an in-tree class with io1, iopsPerGB, encrypted and zone: EC2 has them, and 100 IOPS, the least of io1"
  on delete pvc parameters --timeout="${patience}s" >/dev/null
  kc delete storageclass "$namespace-io1" >/dev/null
}

# A volume that somebody made in EC2, in the words of the plugin that is gone.
in_tree_volume() { # ID
  apply <<YAML
apiVersion: v1
kind: PersistentVolume
metadata: {name: $namespace-static}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  awsElasticBlockStore: {volumeID: "aws://us-west-2a/$1", fsType: xfs}
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: static}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeName: $namespace-static, resources: {requests: {storage: 1Gi}}}
YAML
}

in_tree_pod() { # NAME
  apply <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
$(uses ext4 "$1" | sed 's/^/  /')
YAML
}
both_run() { on wait --for=condition=Ready pod/dynamic pod/static --timeout="${patience}s" >/dev/null || die "pods on in-tree volumes are not running"; }
dynamic_has_grown() { [ "$(size dynamic ext4)" -gt 1500000 ]; }
static_is_available() { ec2_state | jq -e --arg id "$1" '.volumes[] | select(.id == $id) | .state == "available"' >/dev/null; }
dynamic_waits() { on get pvc dynamic -o 'jsonpath={.status.conditions[*].type}' | grep -q FileSystemResizePending; }

in_tree() { # NAMESPACE PATIENCE
  local static volume source name
  namespace=$1 patience=$2
  kc create namespace "$namespace" >/dev/null
  within 180 "the namespace's service account" on get serviceaccount default
  static=$(ec2 CreateVolume AvailabilityZone=us-west-2a Size=1 VolumeType=gp3 | sed -n 's/.*<volumeId>\(vol-[0-9a-f]*\)<.*/\1/p')
  [ -n "$static" ] || die "EC2 created no volume"
  in_tree_class_and_claim
  in_tree_volume "$static"
  for name in dynamic static; do in_tree_pod $name; done
  both_run
  volume=$(on get pvc dynamic -o 'jsonpath={.spec.volumeName}')
  source=$(kc get pv "$volume" -o 'jsonpath={.spec.awsElasticBlockStore.volumeID}')
  [ -n "$source" ] || die "the PV of the in-tree class does not belong to the in-tree plugin: $(kc get pv "$volume" -o json)"
  pass "an in-tree class provisions an in-tree PV ($source), an in-tree PV of an old volume is attached; both by $driver"
  in_tree_parameters
  for name in dynamic static; do inside $name "echo $name >/data/name && sync"; done
  inside static "grep -q ' /data xfs ' /proc/mounts" || die "fsType of the in-tree PV was ignored"

  grows_online ext4 || on delete pod dynamic --timeout="${patience}s" >/dev/null
  on patch pvc dynamic -p '{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}' >/dev/null
  if ! grows_online ext4; then
    within "$patience" "the in-tree volume waits for its pod" dynamic_waits
    in_tree_pod dynamic
    on wait --for=condition=Ready pod/dynamic --timeout="${patience}s" >/dev/null
  fi
  within "$patience" "the in-tree volume grows" dynamic_has_grown
  pass "a claim of the in-tree class is expanded"

  on delete pod static --timeout="${patience}s" >/dev/null
  in_tree_pod static
  both_run
  for name in dynamic static; do [ "$(inside $name "cat /data/name")" = $name ] || die "the pod $name does not find its file"; done
  pass "new pods find their files"

  on delete pod dynamic static --timeout="${patience}s" >/dev/null
  on delete pvc dynamic static --timeout="${patience}s" >/dev/null
  kc delete pv "$namespace-static" --timeout="${patience}s" >/dev/null
  within "$patience" "nothing of the in-tree class is left" none_left
  within "$patience" "the old volume is detached" static_is_available "$static"
  ec2 DeleteVolume "VolumeId=$static" >/dev/null
  kc delete storageclass "$namespace" >/dev/null
  kc delete namespace "$namespace" --timeout="${patience}s" >/dev/null
  pass "deleted: the volume of the in-tree class is deleted in EC2, the old one is kept (Retain)"
}

# A snapshot that a person took in EC2, imported with the files of examples/snapshot-import, and restored in a pod. Sourced
# by `run`.

import_source() {
  kc apply -f - >/dev/null <<YAML
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: $namespace}
provisioner: $driver
parameters: {type: gp3}
volumeBindingMode: WaitForFirstConsumer
YAML
  apply <<YAML
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: source}
spec: {accessModes: [ReadWriteOnce], storageClassName: $namespace, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: source}
spec:
$(uses ext4 source | sed 's/^/  /')
YAML
}

# The ID of the snapshot is a placeholder in the example, and its namespace is the default one.
imported_objects() { # SNAPSHOT
  sed "s/snap-0123456789abcdef0/$1/; s/namespace: default/namespace: $namespace/" "$repository/examples/snapshot-import/content-and-snapshot.yaml"
  echo ---
  cat "$repository/examples/snapshot-import/claim.yaml"
}

snapshot_state() { ec2_state | jq -r --arg id "$1" '.snapshots[] | select(.id == $id) | .state'; }
is_completed() { [ "$(snapshot_state "$1")" = completed ]; }

snapshot_import() { # NAMESPACE PATIENCE
  local volume snapshot written
  namespace=$1 patience=$2
  kc create namespace "$namespace" >/dev/null
  within 180 "the namespace's service account" on get serviceaccount default
  import_source
  on wait --for=condition=Ready pod/source --timeout="${patience}s" >/dev/null || die "the pod source is not running"
  write source ext4
  written=$(sum source ext4)
  volume=$(kc get pv "$(on get pvc source -o 'jsonpath={.spec.volumeName}')" -o 'jsonpath={.spec.csi.volumeHandle}')
  snapshot=$(ec2 CreateSnapshot "VolumeId=$volume" | sed -n 's/.*<snapshotId>\(snap-[0-9a-f]*\)<.*/\1/p')
  [ -n "$snapshot" ] || die "EC2 created no snapshot"
  within "$patience" "$snapshot is completed" is_completed "$snapshot"
  on delete pod source --timeout="${patience}s" >/dev/null
  on delete pvc source --timeout="${patience}s" >/dev/null
  pass "$snapshot is taken with EC2's API, and its volume is deleted"

  imported_objects "$snapshot" | on apply -f - >/dev/null
  on wait --for=jsonpath='{.status.readyToUse}'=true volumesnapshot/imported --timeout="${patience}s" >/dev/null || die "the imported snapshot is not ready"
  apply <<YAML
apiVersion: v1
kind: Pod
metadata: {name: imported}
spec:
$(uses ext4 imported | sed 's/^/  /')
YAML
  on wait --for=condition=Ready pod/imported --timeout="${patience}s" >/dev/null || die "the pod on the imported snapshot is not running"
  [ "$(sum imported ext4)" = "$written" ] || die "the volume from the imported snapshot has other data than the pod wrote"
  [ "$(size imported ext4)" -gt 3000000 ] || die "the volume of 4 GiB from the imported snapshot has a smaller file system"
  pass "a pod reads the data from the imported snapshot, on a larger volume"

  on delete pod imported --timeout="${patience}s" >/dev/null
  on delete pvc/imported volumesnapshot/imported --timeout="${patience}s" >/dev/null
  kc delete volumesnapshotcontent/imported storageclass/ebs-imported "storageclass/$namespace" --timeout="${patience}s" >/dev/null
  within "$patience" "nothing is left in Kubernetes and EC2" none_left
  is_completed "$snapshot" || die "$snapshot was deleted with its objects, although their deletionPolicy is Retain"
  ec2 DeleteSnapshot "SnapshotId=$snapshot" >/dev/null
  kc delete namespace "$namespace" --timeout="${patience}s" >/dev/null
  pass "deleted: the imported objects; EC2 kept the snapshot (Retain)"
}

# The folders of examples/ as they stand, each step as its comment says. Sourced by `run`.
#
# Not here: what needs an id of your account (static, snapshot-import), a key (encryption), a second node (multi-attach), or has
# classes alone (storage-classes).

example() { # FILE...
  local file
  for file; do kc -n "$namespace" apply -f "$repository/examples/$file" >/dev/null; done
}
example_runs() { on wait --for=condition=Ready "pod/$1" --timeout="${patience}s" >/dev/null || die "examples: the pod $1 is not running"; }
resized() { [ "$(on get pvc resize -o 'jsonpath={.status.capacity.storage}')" = 8Gi ]; }
modified() { [ "$(on get pvc modify -o 'jsonpath={.status.currentVolumeAttributesClassName}')" = ebs-io2 ]; }

examples() { # NAMESPACE PATIENCE
  local pod
  namespace=$1 patience=$2
  kc create namespace "$namespace" >/dev/null
  within 180 "the namespace's service account" on get serviceaccount default
  example dynamic block ephemeral mount-options resize snapshot/1-class.yaml snapshot/2-claim-and-pod.yaml clone/1-source.yaml modify-volume/1-claim-and-pod.yaml
  for pod in $(on get pods -o 'jsonpath={.items[*].metadata.name}'); do example_runs "$pod"; done
  example snapshot/3-snapshot.yaml clone/2-clone.yaml
  if serves_attributes_classes; then
    example modify-volume/2-attributes.yaml
    on patch pvc modify -p '{"spec":{"volumeAttributesClassName":"ebs-io2"}}' >/dev/null
  fi
  ! grows_online ext4 || on patch pvc resize -p '{"spec":{"resources":{"requests":{"storage":"8Gi"}}}}' >/dev/null
  on wait --for=jsonpath='{.status.readyToUse}'=true volumesnapshot/data --timeout="${patience}s" >/dev/null || die "examples: no snapshot"
  example snapshot/4-restore.yaml
  for pod in clone restored; do example_runs "$pod"; done
  ! grows_online ext4 || within "$patience" "examples: the claim is resized" resized
  ! serves_attributes_classes || within "$patience" "examples: the claim is modified" modified
  pass "unmodified examples/: $(on get pods -o 'jsonpath={.items[*].metadata.name}' | wc -w) pods run with their volumes"
  on delete pod --all --grace-period=1 --timeout="${patience}s" >/dev/null
  on delete volumesnapshot --all --timeout="${patience}s" >/dev/null
  on delete pvc --all --timeout="${patience}s" >/dev/null
  within "$patience" "nothing of the examples is left" none_left
  kc delete namespace "$namespace" --timeout="${patience}s" >/dev/null
  for pod in dynamic block ephemeral mount-options resize snapshot/1-class.yaml snapshot/2-claim-and-pod.yaml clone/1-source.yaml modify-volume; do
    kc delete -f "$repository/examples/$pod" --ignore-not-found >/dev/null 2>&1 || true
  done
  pass "the examples are deleted"
}

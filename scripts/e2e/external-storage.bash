# Kubernetes' own tests of storage drivers, External.Storage, against the chart's deployment. Sourced by `run`.

# Left out by their names, each with its reason; what the driver's definition rules out is skipped by the suite itself.
left_out() { sed -n 's/^\([^#].*\)\t.*$/\1/p' "$repository/scripts/e2e/left-out.tsv" | paste -sd'|'; }

# The suite's own images, under the names that it asks for when all registries are called e2e.local. Of nginx it runs the shell alone.
suite_images() {
  local name root
  printf '%s: e2e.local\n' promoterE2eRegistry gcRegistry buildImageRegistry gcEtcdRegistry sigStorageRegistry >"$etc/registries.yaml"
  for name in $(KUBE_TEST_REPO_LIST=$etc/registries.yaml "$EBS_E2E_KUBERNETES/e2e.test" --list-images 2>/dev/null | grep -E '^e2e.local/.*(pause|busybox|agnhost|nginx):'); do
    case $name in
    */pause:*)
      root=$(empty_root)
      cp "$EBS_E2E_SIDECARS/pause" "$root/pause"
      image "$name" "$root" "" /pause
      ;;
    */agnhost:*)
      root=$(empty_root)
      busybox_files "$root"
      cp "$EBS_E2E_KUBERNETES/agnhost" "$root/agnhost"
      ln -s agnhost "$root/agnhost-2"
      printf '#!/bin/sh\nexec sh "$@"\n' >"$root/bin/bash"
      chmod 755 "$root/bin/bash"
      mkdir -p "$root/uploads"
      image "$name" "$root" "" /agnhost pause
      ;;
    *) busybox_in "$name" ;;
    esac
  done
}

external_storage() { # [FOCUS]
  local class=ext4 status=0
  E2E_SIMULATOR="--timing instant --limits off" simulator_up
  chart_in
  suite_images
  grows_online ext4 || class=xfs # for the specs of expansion, which expand what is mounted
  sed "s/FSTYPE/$class/" "$repository/scripts/e2e/class.yaml" >"$etc/class.yaml"
  sed "s|CLASS|$etc/class.yaml|" "$repository/scripts/e2e/testdriver.yaml" >"$etc/testdriver.yaml"
  pass "the chart is installed, the suite's images are imported; its class has $class"
  in_node env KUBE_TEST_REPO_LIST="$etc/registries.yaml" "$EBS_E2E_KUBERNETES/e2e.test" --provider=local --kubeconfig="$admin" \
    --kubectl-path="$EBS_E2E_KUBERNETES/kubectl" --storage.testdriver="$etc/testdriver.yaml" --num-nodes=1 --dump-logs-on-failure=false \
    --ginkgo.focus="${1:-External.Storage}" --ginkgo.skip="$(left_out)" --ginkgo.timeout=3h --ginkgo.v --ginkgo.no-color --ginkgo.fail-on-empty \
    --report-dir="$log" >"$log/suite.log" 2>&1 || status=$?
  grep -E '^(Ran|PASS|FAIL|SUCCESS)|\[FAIL\]' "$log/suite.log" || true
  [ "$status" = 0 ] || die "the suite failed: $log/suite.log"
  pass "External.Storage: $(sed -n 's/^Ran \(.*\) in .*/\1/p' "$log/suite.log")"
}

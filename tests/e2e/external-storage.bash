# Kubernetes' own tests of storage drivers, External.Storage, against the chart's deployment. Sourced by `run`.

# E2E_PROCS specs run at a time (4), those that must be alone at the end.
#
# Left out by their names, each with its reason; what the driver's definition rules out is skipped by the suite itself.
left_out() { sed -n 's/^\([^#].*\)\t.*$/\1/p' "$repository/tests/e2e/left-out.tsv" | paste -sd'|'; }

# The suite's own images, under the names that it asks for when all registries are called e2e.local. Of nginx it runs the shell alone,
# of jessie-dnsutils a dd that knows oflag=nocache, which busybox's does not, and a shell that starts it, as busybox's does not.
suite_images() {
  local name root
  printf '%s: e2e.local\n' promoterE2eRegistry gcRegistry buildImageRegistry gcEtcdRegistry sigStorageRegistry >"$etc/registries.yaml"
  for name in $(KUBE_TEST_REPO_LIST=$etc/registries.yaml "$EBS_E2E_KUBERNETES/e2e.test" --list-images 2>/dev/null | grep -E '^e2e.local/.*(pause|busybox|agnhost|nginx|jessie-dnsutils):'); do
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
    */jessie-dnsutils:*)
      root=$(empty_root)
      busybox_files "$root"
      program_with_libraries "$root" dd
      program_with_libraries "$root" dash
      ln -sf dash "$root/bin/sh"
      image "$name" "$root" "" /bin/sh
      ;;
    *) busybox_in "$name" ;;
    esac
  done
}

# Of this machine, in place of busybox's.
program_with_libraries() { # ROOT PROGRAM
  local program library
  program=$(command -v "$2")
  cp --remove-destination "$program" "$1/bin/$2"
  for library in $(ldd "$program" | grep -o '/[^ ]*'); do
    mkdir -p "$1$(dirname "$library")"
    cp -L "$library" "$1$library"
  done
}

# The report as lines: state, reason of a skip, name. What was filtered out has its reason in left-out.tsv, unless FOCUS did it.
specs() {
  jq -r '.[].SpecReports[] | select(.LeafNodeType == "It")
    | [.State, (.Failure.Message // "" | gsub("[\t\n]"; " ")), (((.ContainerHierarchyTexts // []) + [.LeafNodeText]) | join(" "))]
    | select(.[2] | test("External.Storage")) | @tsv' "$log/suite.json"
}

# How many specs passed, failed, and were skipped, by reason.
summary() {
  local pattern reason
  specs >"$log/suite.tsv"
  cut -f1 "$log/suite.tsv" | sort | uniq -c | awk '{print "      " $2 ": " $1}'
  awk -F'\t' '$1 == "skipped" && $2 != "" {print $2}' "$log/suite.tsv" | sort | uniq -c | sort -rn | awk '{n = $1; $1 = ""; print "        skipped by the suite, " n ":" $0}'
  awk -F'\t' '$1 == "skipped" && $2 == "" {print $3}' "$log/suite.tsv" >"$log/suite.left"
  while IFS=$'\t' read -r pattern reason; do
    case $pattern in '#'*) continue ;; esac
    grep -cE "$pattern" "$log/suite.left" | sed "s|.*|        left out, &: $reason|" || true
    grep -vE "$pattern" "$log/suite.left" >"$log/suite.rest" || true
    mv "$log/suite.rest" "$log/suite.left"
  done <"$repository/tests/e2e/left-out.tsv"
  [ ! -s "$log/suite.left" ] || echo "        not in FOCUS, $(wc -l <"$log/suite.left")"
}

external_storage() { # [FOCUS]
  local class=ext4 status=0
  E2E_SIMULATOR="--timing instant --limits off" simulator_up
  chart_in
  suite_images
  grows_online ext4 || class=xfs # for the specs of expansion, which expand what is mounted
  sed "s/FSTYPE/$class/" "$repository/tests/e2e/class.yaml" >"$etc/class.yaml"
  cp "$repository/tests/e2e/attributes.yaml" "$etc/attributes.yaml"
  sed "s|DIRECTORY|$etc|" "$repository/tests/e2e/testdriver.yaml" >"$etc/testdriver.yaml"
  pass "the chart is installed, the suite's images are imported; its class has $class"
  rm -f "$log"/suite.*
  in_node env HOME="$work/home" KUBE_TEST_REPO_LIST="$etc/registries.yaml" "$EBS_E2E_KUBERNETES/ginkgo" run --procs="${E2E_PROCS:-4}" \
    --focus="${1:-External.Storage}" --skip="$(left_out)" --timeout=3h -v --no-color --fail-on-empty --json-report=suite.json --output-dir="$log" \
    "$EBS_E2E_KUBERNETES/e2e.test" -- --provider=local --kubeconfig="$admin" \
    --kubectl-path="$EBS_E2E_KUBERNETES/kubectl" --storage.testdriver="$etc/testdriver.yaml" --num-nodes=1 --dump-logs-on-failure=false \
    >"$log/suite.log" 2>&1 || status=$?
  grep -E '^(Ran|PASS|FAIL|SUCCESS)|\[FAIL\]' "$log/suite.log" || true
  [ ! -s "$log/suite.json" ] || summary
  [ "$status" = 0 ] || die "the suite failed: $log/suite.log"
  pass "External.Storage: $(sed -n 's/^Ran \(.*\) in .*/\1/p' "$log/suite.log" | tail -1)"
}

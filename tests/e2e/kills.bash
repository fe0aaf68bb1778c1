# Kills the driver while volumes live: by turns a process of it with SIGKILL, and a pod of it without grace. Sourced by `run`.

# The numbers of a mode's processes, as the node sees them: `node` or `controller`.
processes_of() { in_node pgrep -f "^/bin/aws-ebs-csi-driver $1" || true; }

kill_once() { # TURN
  local victim
  case $(($1 % 4)) in
  0) for victim in $(processes_of node); do in_node kill -KILL "$victim" && echo "SIGKILL to the node service"; done ;;
  1)
    # One of two: the leader's every second time.
    victim=$(kc -n kube-system get pods -l app=ebs-csi-controller -o name | sed -n "$(($1 / 4 % 2 + 1))p")
    kc -n kube-system delete "$victim" --grace-period=0 --force --wait=false >/dev/null 2>&1 && echo "deletion of $victim"
    ;;
  2)
    victim=$(kc -n kube-system get pods -l app=ebs-csi-node -o name | head -1)
    kc -n kube-system delete "$victim" --grace-period=0 --force --wait=false >/dev/null 2>&1 && echo "deletion of $victim"
    ;;
  3) for victim in $(processes_of controller); do in_node kill -KILL "$victim" && echo "SIGKILL to a controller"; done ;;
  esac
}

killing() {
  local turn=0
  while :; do
    # Time enough for a sidecar to get the lease of one that was deleted, 15 s, now and then.
    sleep $((8 + RANDOM % 16))
    kill_once $turn || true
    turn=$((turn + 1))
  done
}

# while_killing COMMAND...: with kills from beginning to end; says how many there were.
while_killing() {
  killing >"$log/kills.log" 2>/dev/null &
  killer=$!
  "$@"
  stop_killing
  say "      kills during the run: $(wc -l <"$log/kills.log") ($(sort "$log/kills.log" | sed 's/deletion of pod.ebs-csi-\(node\|controller\).*/deletion of a \1 pod/' | sort | uniq -c | awk '{$1 = $1; print}' | paste -sd, | sed 's/,/, /g'))"
  kc -n kube-system rollout status deployment/ebs-csi-controller --timeout=300s >/dev/null
  kc -n kube-system rollout status daemonset/ebs-csi-node --timeout=300s >/dev/null
}

stop_killing() {
  [ -n "${killer:-}" ] || return 0
  stop_loop "$killer"
  killer=
}

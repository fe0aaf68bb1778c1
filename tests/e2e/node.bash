# The node: the namespaces it lives in, and the processes inside. Sourced by `cluster` and `run`.
#
# A node is a set of Linux namespaces (mounts, network, processes, host name, IPC) on this machine. Its first process holds them:
# when that one is killed, everything inside is gone with it, mounts included.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$repository/target}
work=${E2E_DIR:-$target/e2e}
case $work in /var/lib/* | /var/log/*) echo "E2E_DIR must not be below /var/lib or /var/log, which the node replaces" >&2 && exit 2 ;; esac

log=$work/log       # a log a process
run=$work/run       # process ids, as the node sees them, and the node's own as the machine does
etc=$work/etc       # certificates, kubeconfigs, configuration
data=$work/data     # etcd, containerd, kubelet
images=$work/images # archives of images, until they are imported

node_name=e2e-node
node_ip=10.77.0.1 # inside the node's network alone, as all of these
pod_cidr=10.244.0.0/24
service_cidr=10.96.0.0/16
api_ip=10.96.0.1
cgroup=ebs-e2e-$(printf %s "$work" | cksum | cut -d' ' -f1) # one a work directory: clusters can run side by side
admin=$etc/admin.kubeconfig

began=$(date +%s%3N)
say() {
  local passed=$(($(date +%s%3N) - began))
  printf '%5d.%d s  %s\n' $((passed / 1000)) $((passed % 1000 / 100)) "$*"
}
die() {
  say "FAILED: $*" >&2
  exit 1
}

# within SECONDS WHAT COMMAND...: repeats the command until it succeeds; fails after so long.
within() {
  local limit=$1 what=$2 until
  shift 2
  until=$(($(date +%s) + limit))
  until "$@" >/dev/null 2>&1; do
    [ "$(date +%s)" -lt $until ] || die "timed out after $limit s: $what"
    sleep 0.3
  done
}

# The node's first process, as the machine sees it; never a number that another program has by now.
node_pid() {
  local pid
  pid=$(cat "$run/node" 2>/dev/null) && [ -n "$pid" ] || return 1
  grep -qzE '/pause$|/node-init$' "/proc/$pid/cmdline" 2>/dev/null || return 1
  echo "$pid"
}

in_node() {
  local pid
  pid=$(node_pid) || die "the node is not running"
  nsenter -t "$pid" -m -u -i -n -p --wdns="$PWD" -- "$@"
}

# start NAME COMMAND...: a process of the node, with its log in $log.
start() {
  local name=$1
  shift
  rm -f "$run/$name"
  in_node setsid -f bash -c 'echo $$ >"$0" && exec "$@"' "$run/$name" "$@" >>"$log/$name.log" 2>&1 </dev/null
  within 60 "$name starts" test -s "$run/$name"
}

# stop NAME SECONDS: by SIGTERM; fails when it takes longer.
stop() {
  local pid
  pid=$(cat "$run/$1" 2>/dev/null) || return 0
  in_node kill -TERM "$pid" 2>/dev/null || return 0
  stopped() { ! in_node kill -0 "$1"; }
  within "$2" "$1 ends" stopped "$pid"
  rm -f "$run/$1"
}

# stop_loop PID: ends a function in the background, and the command that it waits for.
stop_loop() {
  local -a children
  mapfile -t children < <(pgrep -P "$1" || true)
  kill "$1" "${children[@]}" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

# It keeps what it discovers in the home directory.
kc() { in_node env HOME="$work/home" "$EBS_E2E_KUBERNETES/kubectl" --kubeconfig "$admin" "$@"; }

# The node's namespaces. With E2E_BOUND set they die with the shell that starts them, however that ends.
create_node() {
  local bound=() outer
  [ -z "${E2E_BOUND:-}" ] || bound=(setpriv --pdeathsig KILL)
  setsid "${bound[@]}" unshare --mount --uts --ipc --net --pid --fork --kill-child=KILL --mount-proc --propagation private \
    "$repository/tests/e2e/node-init" "$node_name" "$node_ip" "$api_ip" "$data" "$etc" "$cgroup" "$EBS_E2E_SIDECARS/pause" \
    >"$log/node.log" 2>&1 </dev/null &
  outer=$!
  disown
  # The child is not yet our first process while it still is `unshare`.
  first() { ps -o pid= --ppid "$1" | tr -d ' ' | grep . >"$run/node" && node_pid; }
  within 60 "the node's namespaces" first "$outer"
  within 60 "the node's set-up" in_node test -e /run/node-is-ready
}

# The simulator's disks, a line each. Once the node is dead, the paths of their files begin where the file system is mounted.
disks() {
  local mounted device file
  mkdir -p "$work"
  mounted=$(stat -c %m "$work")
  losetup -n -O NAME,BACK-FILE | while read -r device file; do
    case $file in "$work"/* | "${work#"${mounted%/}"}"/*) echo "$device $file" ;; esac
  done
}

# The loop devices by which a dead kubelet holds a raw block volume.
holds() { # DEVICE
  losetup -n -O NAME,BACK-INO,BACK-MAJ:MIN | awk -v file="$(stat -c '%i %Hd:%Ld' "$1")" '$2 " " $3 == file {print $1}'
}

# All at once: the namespaces die with their first process.
destroy_node() {
  local pid
  if pid=$(node_pid); then
    kill -KILL "$pid"
    dead() { ! kill -0 "$1"; }
    within 120 "the node stops" dead "$pid"
  fi
  rm -rf "$run"
  # A simulator that was killed leaves its disks and their links.
  local device link hold
  disks | while read -r device _; do
    for link in /dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_*; do
      [ "$(readlink -f "$link")" != "$device" ] || rm -f "$link"
    done
    for hold in $(holds "$device"); do losetup -d "$hold"; done
    losetup -d "$device" 2>/dev/null || true
  done
  within 120 "the node's cgroups are empty" remove_cgroups
}

remove_cgroups() {
  find /sys/fs/cgroup -depth -type d -path "*/$cgroup*" -exec rmdir {} + 2>/dev/null || true
  [ -z "$(our_cgroups)" ]
}
our_cgroups() { find /sys/fs/cgroup -maxdepth 2 -type d -name "$cgroup"; }

# What Kubernetes would leave on a machine that it has for itself: the kernel's parameters that a kubelet sets, and directories.
machine() {
  local name
  for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    [ ! -e "/proc/sys/$name" ] || echo "$name is $(cat "/proc/sys/$name")"
  done
  for name in "$HOME/.kube" /usr/libexec/kubernetes /etc/{cni,containerd,kubernetes} /opt/{cni,containerd} /run/containerd \
    /var/lib/{cni,containerd,etcd,kubelet} /var/log/{containers,pods}; do
    [ ! -e "$name" ] || echo "$name"
  done
}

# What of a cluster is on this machine, a line each; nothing when it left nothing behind. MACHINE is how the machine was before.
left_behind() { # MACHINE
  machine | grep -vxF "$1" || true
  disks
  grep -F " $work/" /proc/mounts || true
  our_cgroups
  node_pid || true
  # Links to the disks of volumes that were this simulator's.
  local link
  for link in /dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol*; do
    ! grep -qsF "vol-${link##*_vol}" "$log/ledger.jsonl" || echo "$link"
  done
  # Processes that stand in our directory.
  local process
  for process in /proc/[0-9]*; do
    [ "${process#/proc/}" != $$ ] || continue
    case $(readlink "$process/cwd" 2>/dev/null) in "$work"/*) echo "$process" ;; esac
  done
}

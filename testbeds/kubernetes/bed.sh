#!/bin/bash
# A real Kubernetes on one machine, in network namespaces of its own. Needs root; Go for the first build.
#
#   bed.sh up             build if needed, start what does not run yet; prints the kubeconfig's path. Ends with 77
#                         where this machine cannot have it, and says why
#   bed.sh down           end it all by pid and forget the cluster
#   bed.sh status         one line a process, then the nodes
#   bed.sh env            shell lines: KUBECONFIG, and BED, the folder with logs and the files of shared storage
#   bed.sh kill NAME...   kill -9 one process, or a real node with all that runs on it; `up` brings it back
#
# NODES=0 (the default): etcd, API server, controller manager, scheduler, the training kinds' own controllers with
# their webhooks, and fake nodes (kwok) that pretend to run pods. NODES=2: two real nodes as well, with kubelet,
# containerd and CoreDNS, whose containers can run this machine's Python environment.
# TRAINWRIGHT_BED is the folder of state. A second bed at the same time needs its own folder, BED_NAME and BED_NETWORK.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
BED=${TRAINWRIGHT_BED:-/var/tmp/trainwright-bed}/kubernetes
# what `up` was given holds until `down`; `up` with NODES=2 adds real nodes to a bed that has none
if [ -f "$BED/run/settings" ]; then . "$BED/run/settings"; fi
NODES=${NODES:-0}
BED_NAME=${BED_NAME:-tw-k8s}
BED_NETWORK=${BED_NETWORK:-10.89.0}
CONTROL=$BED_NETWORK.2 # address of the control plane; .1 is this machine, .11 and on are the nodes
PYTHON=${BED_PYTHON:-${here%/testbeds/*}/.venv/bin/python} # with PyYAML; what pods run
KUBECONFIG=$BED/pki/admin.kubeconfig
export KUBECONFIG
. "$here/../process.sh"
for part in network certificates control_plane controllers fake_nodes real_nodes; do . "$here/$part.sh"; done

cannot() { say "no Kubernetes bed on this machine: $*"; exit 77; }

possible() {
  [ "$(id -u)" = 0 ] || cannot "it needs root"
  unshare --net --mount --uts true 2>/dev/null || cannot "namespaces may not be made"
  ip netns add "$BED_NAME-probe" 2>/dev/null && ip netns del "$BED_NAME-probe" || cannot "network namespaces may not be mounted"
  [ "$NODES" = 0 ] || [ -d /sys/fs/cgroup/pids ] || cannot "real nodes need the hierarchies of cgroup v1"
}

up() {
  possible
  built=$("$here/build.sh")
  PATH=$PATH:$built/bin
  mkdir -p "$BED"/{run,log,etc,pki}
  printf ': "${%s:=%s}"\n' NODES "$NODES" BED_NAME "$BED_NAME" BED_NETWORK "$BED_NETWORK" BED_PYTHON "$PYTHON" \
    built "$built" >"$BED/run/settings"
  network
  certificates
  control_plane
  fake_nodes
  if [ "$NODES" != 0 ]; then real_nodes; fi
  controllers
  if [ "$NODES" != 0 ]; then real_nodes_are_ready; fi
  say "Kubernetes $(kubectl get --raw /version | sed -n 's/.*"gitVersion": "\(.*\)".*/\1/p') is up"
  echo "$KUBECONFIG"
}

down() {
  local name
  real_nodes_down
  for name in "${CONTROLLERS[@]}" coredns proxy-control "${CONTROL_PLANE[@]}"; do end "$name" KILL; done # nothing to save
  network_down
  rm -rf "$BED" /etc/kueue /tmp/k8s-webhook-server
}

status() {
  local file name
  for file in "$BED"/run/*.pid; do
    if [ ! -e "$file" ]; then say "nothing runs in $BED"; return 1; fi
    name=$(basename "$file" .pid)
    if alive "$name"; then echo "$name: pid $(pid_of "$name")"; else echo "$name: ended; see $BED/log/$name.log"; fi
  done
  kubectl get nodes
}

kill_now() { # NAME
  case $1 in node-*) kill_node "$1" ;; *) end "$1" KILL ;; esac
}

cd / # what is started outlives the folder that this was started in
case ${1:-} in
  up | down)
    mkdir -p "$(dirname "$BED")"
    # one at a time; -o: what is started must not inherit the lock
    [ -n "${BED_LOCKED:-}" ] || BED_LOCKED=1 exec flock -o "$BED.lock" "$here/bed.sh" "$1"
    "$1" ;;
  status) status ;;
  env) printf 'export KUBECONFIG=%q BED=%q\n' "$KUBECONFIG" "$BED" ;;
  kill) shift; for name in "$@"; do kill_now "$name"; done ;;
  *) sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0" >&2; exit 2 ;;
esac

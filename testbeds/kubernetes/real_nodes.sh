# Real nodes: kubelet, containerd, runc and kube-proxy, each node in network, mount and UTS namespaces of its own, and
# CoreDNS. Every container can run this machine's Python environment; see runtime_spec.py. Sourced by bed.sh.

NODE_PACKAGES="containerd runc containernetworking-plugins iptables conntrack ethtool openmpi-bin openssh-server wget"
# beside what those need: what a shell script expects, and the libraries of a Python that was built here
IMAGE_PACKAGES="bash dash libc-bin coreutils grep sed findutils hostname iproute2 procps util-linux ca-certificates openmpi-bin
  openssh-server openssh-client wget libstdc++6 libgomp1 libssl3 libffi8 zlib1g libbz2-1.0 liblzma5 libsqlite3-0 libreadline8 libncursesw6 libuuid1"
HIERARCHIES="cpu cpuacct cpuset memory devices freezer blkio pids systemd" # of cgroup v1
IMAGE=localhost/trainwright:bed

real_nodes() {
  local node
  packages
  images
  mkdir -p "$BED/shared" /var/lib/cni
  for node in $(hosts); do [ "$node" = control ] || real_node "$node"; done
  cluster_dns
}

packages() {
  dpkg-query -W $NODE_PACKAGES >/dev/null 2>&1 && return
  say "installing containerd and what pods need"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -q && apt-get install -qy --no-install-recommends $NODE_PACKAGES; } >"$BED/log/apt.log" 2>&1 ||
    cannot "packages of real nodes cannot be installed; see $BED/log/apt.log"
}

images() {
  local extra=
  [ -e "$BED/images/complete" ] && return
  mkdir -p "$BED/images"
  if [ "$("$PYTHON" -c 'import sys; print(sys.base_prefix)')" = /usr ]; then extra=python3; fi
  "$PYTHON" "$here/image.py" "$BED/images/pause.tar" localhost/pause:1 --file "$built/bin/pause" /pause --command /pause
  ssh-keygen -q -t ed25519 -N '' -f "$BED/images/host_key" # as setting sshd up would, with its configuration
  "$PYTHON" "$here/image.py" "$BED/images/trainwright.tar" "$IMAGE" --packages $IMAGE_PACKAGES $extra \
    --path "$(dirname "$PYTHON")" --file "$BED/images/host_key" /etc/ssh/ssh_host_ed25519_key \
    --file /usr/share/openssh/sshd_config /etc/ssh/sshd_config
  ctr oci spec | "$PYTHON" -P "$here/runtime_spec.py" >"$BED/images/spec.json"
  touch "$BED/images/complete"
} >&2

inside() { # NODE COMMAND...: in its namespaces
  local pid; pid=$(pid_of "$1"); shift
  nsenter --target "$pid" --mount --uts --net "$@"
}

real_node() { # NODE
  local node=$1 folder=$BED/$1 hierarchy group=$BED_NAME/$1 name
  mkdir -p "$folder"/{containerd,kubelet,log,opt,plugins,cni/{conf,cache,addresses}}
  for hierarchy in $HIERARCHIES; do mkdir -p "/sys/fs/cgroup/$hierarchy/$group"; done
  for name in cpus mems; do # a new group of this hierarchy may use none
    for hierarchy in "$BED_NAME" "$group"; do
      cat "/sys/fs/cgroup/cpuset/cpuset.$name" >"/sys/fs/cgroup/cpuset/$hierarchy/cpuset.$name"
    done
  done
  for name in containerd.toml kubelet.yaml pods.conflist; do
    sed "s|@FOLDER@|$folder|g; s|@BED@|$BED|g; s|@CGROUP@|$group|g; s|@PODS@|$(pods_of "$node")|g" "$here/etc/$name" >"$folder/$name"
  done
  mv "$folder/pods.conflist" "$folder/cni/conf/"
  cp "$BED/images/spec.json" "$folder/spec.json"
  namespace "$node" >"$folder/namespace"
  if ! alive "$node"; then
    rm -f "$folder/ready"
    start "$node" nsenter --net="/run/netns/$(namespace "$node")" unshare --mount --uts --propagation private \
      "$here/real_node.sh" "$node" "$folder"
    until_true 10 test -e "$folder/ready"
  fi
  local into=(nsenter --target "$(pid_of "$node")" --mount --uts --net)
  start "containerd-$node" "${into[@]}" containerd --config "$folder/containerd.toml"
  until_true 20 inside "$node" ctr --address "$folder/containerd.sock" version
  for name in pause trainwright; do
    inside "$node" ctr --address "$folder/containerd.sock" --namespace k8s.io images import --digests=false \
      "$BED/images/$name.tar" >>"$BED/log/containerd-$node.log" 2>&1
  done
  start "proxy-$node" "${into[@]}" kube-proxy --kubeconfig="$BED/pki/proxy.kubeconfig" --hostname-override="$node" "${PROXY[@]}"
  start "kubelet-$node" "${into[@]}" kubelet --config="$folder/kubelet.yaml" --kubeconfig="$BED/pki/$node.kubeconfig" \
    --root-dir="$folder/kubelet" --cert-dir="$folder/kubelet/pki" --hostname-override="$node" \
    --node-ip="$(address_of "$node")" --node-labels=bed/real=true,topology.kubernetes.io/zone=us-west-2a
}

# no changes to the machine's connection tracking
PROXY=(--proxy-mode=iptables --cluster-cidr=10.244.0.0/16 --conntrack-max-per-core=0
  --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0 --oom-score-adj=0)

cluster_dns() {
  sed "s|@BED@|$BED|g" "$here/etc/Corefile" >"$BED/etc/Corefile"
  control_starts coredns coredns -conf "$BED/etc/Corefile"
  # controllers reach Services of pods as pods do; the name is any node's, whose topology is then used
  control_starts proxy-control kube-proxy --kubeconfig="$BED/pki/proxy.kubeconfig" \
    --hostname-override=node-1 --bind-address="$CONTROL" --metrics-bind-address=127.0.0.1:10249 \
    --healthz-bind-address=127.0.0.1:10256 "${PROXY[@]}"
  sed "s|@CONTROL@|$CONTROL|g" "$here/etc/dns.yaml" | applied -
}

real_nodes_are_ready() {
  until_true 60 kubectl wait --for=condition=Ready node -l bed/real --timeout=60s
  until_true 30 answers http://127.0.0.1:9480/ready
}

kill_node() { # NODE: as if its power failed
  local node=$1 pid group
  for pid in $(ip netns pids "$(namespace "$node")" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null || true; done
  for group in $(find "/sys/fs/cgroup/pids/$BED_NAME/$node" -name cgroup.procs 2>/dev/null); do
    for pid in $(cat "$group"); do kill -KILL "$pid" 2>/dev/null || true; done
  done
}

real_nodes_down() {
  local node
  for node in $(hosts); do
    [ "$node" = control ] && continue
    kill_node "$node"
    rm -f "$BED/run"/{,containerd-,kubelet-,proxy-}"$node.pid"
  done
  until_true 10 cgroups_are_gone
  rmdir /var/lib/cni/results /var/lib/cni 2>/dev/null || true
}

cgroups_are_gone() {
  find /sys/fs/cgroup/*/"$BED_NAME" -depth -type d -exec rmdir {} + 2>/dev/null || true
  ! ls -d /sys/fs/cgroup/*/"$BED_NAME"
}

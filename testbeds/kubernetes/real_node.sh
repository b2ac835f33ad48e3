#!/bin/bash
# The life of one real node: a mount namespace in which kubelet and containerd find folders of their own, kept open
# until it is ended. real_node.sh NODE FOLDER; run in the node's network and in new mount and UTS namespaces.
set -euo pipefail
node=$1 folder=$2
hostname "$node"
mount --make-rshared / # volumes that the kubelet mounts must show in containers
mount --bind "/etc/netns/$(cat "$folder/namespace")/hosts" /etc/hosts
mount --bind "$folder/cni/cache" /var/lib/cni
mount --bind "$folder/log" /var/log
mount -t tmpfs tmpfs /run
# the kubelet sets these of the whole machine: let it find them set, in files of its own
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  file=/run/settings/${setting%=*}
  mkdir -p "${file%/*}"
  echo "${setting#*=}" >"$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done
# the kubelet counts processors here. The node claims sixteen, so that ordinary pods fit on a small machine; without a
# topology it does not try to give out those that do not exist
mount -t tmpfs tmpfs /sys/devices/system/node
mount -t tmpfs tmpfs /sys/devices/system/cpu
mkdir /sys/devices/system/cpu/cpu{0..15}
touch "$folder/ready"
exec sleep infinity

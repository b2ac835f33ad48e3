#!/bin/bash
# End what up.sh started, by pid, and remove its namespaces. --purge also removes its folder.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
. "$here/bed.sh"

if outside; then
  if alive holder; then inside "$here/down.sh"; fi
  end holder KILL
  if [ "${1:-}" = --purge ]; then rm -rf "$BED"; fi
  exit
fi
for node in $NODES; do
  end "slurmd-$node"
  # job steps of a killed node live on: whatever is still in the node's own namespace is ours
  for pid in $(ip netns pids "$PREFIX$node" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null || true; done
done
for name in slurmrestd slurmctld slurmdbd mariadbd munged; do end "$name"; done
for host in ctl $NODES switch; do
  ip netns del "$PREFIX$host" 2>/dev/null || true
  rm -rf "/etc/netns/$PREFIX$host"
done
if [ "${1:-}" = --purge ]; then rm -rf "$BED"; fi

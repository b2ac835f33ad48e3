# What up.sh, down.sh and on share: where the bed is, and its hosts. Sourced, not run.
. "$(dirname "${BASH_SOURCE[0]}")/../process.sh"
# empty: the Slurm of this machine's own Debian (12: 22.05); trixie: that of Debian 13 (24.11), in a chroot
RELEASE=${TRAINWRIGHT_SLURM_RELEASE:-}
BED=${TRAINWRIGHT_BED:-/var/tmp/trainwright-bed}/slurm${RELEASE:+-$RELEASE}
NODES="n1 n2"
NETWORK=10.88.0
PREFIX=tw-slurm-       # of the network namespaces
if [ "$RELEASE" ]; then NETWORK=10.87.0 PREFIX=tw-slurm-$RELEASE-; fi
SLURM_CONF=$BED/etc/slurm.conf
export SLURM_CONF

address_of() { # a host's address
  case $1 in ctl) echo "$NETWORK.2" ;; n*) echo "$NETWORK.1${1#n}" ;; esac
}

# ---- another Debian release: everything runs in a chroot, inside a mount namespace that one process keeps
ROOT=${TRAINWRIGHT_BED_CACHE:-$HOME/.cache/trainwright-beds}/debian-$RELEASE

outside() { [ "$RELEASE" ] && [ -z "${TRAINWRIGHT_SLURM_INSIDE:-}" ]; }

inside() { # COMMAND...: in the chroot, in the same folder if there is one of that name
  nsenter --mount="/proc/$(pid_of holder)/ns/mnt" chroot "$ROOT" env TRAINWRIGHT_SLURM_INSIDE=1 HOME=/root \
    bash -c 'cd "$0" 2>/dev/null || cd /; exec "$@"' "$PWD" "$@"
}

no_packages() { # WHAT
  say "$1 cannot be installed on this machine; see $BED/log"
  exit 77
}

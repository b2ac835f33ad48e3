#!/bin/bash
# Another Debian release beside this machine's: made once by debootstrap in the beds' cache, entered by bed.sh's `inside`.
# Sees this machine's /tmp, the bed's folder, this checkout and the folders in TRAINWRIGHT_BED_BINDS (a:b:c) as they are.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
. "$here/bed.sh"
checkout=$(readlink -f "$here/../..")
MIRROR=${TRAINWRIGHT_DEBIAN_MIRROR:-http://deb.debian.org/debian}

make_root() {
  [ -e "$ROOT/.complete" ] && return
  if ! command -v debootstrap >/dev/null; then
    apt-get update -q >/dev/null 2>&1 || true
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends debootstrap >"$BED/log/debootstrap.log" 2>&1 ||
      no_packages debootstrap
  fi
  say "making a Debian $RELEASE in $ROOT"
  rm -rf "$ROOT"; mkdir -p "$ROOT"
  # python3 for its libraries: jobs run the interpreter of this machine
  debootstrap --variant=minbase --include=ca-certificates,iproute2,procps,hostname,util-linux,python3 "$RELEASE" "$ROOT" "$MIRROR" \
    >"$BED/log/debootstrap.log" 2>&1 || no_packages "Debian $RELEASE"
  printf '#!/bin/sh\nexit 101\n' >"$ROOT/usr/sbin/policy-rc.d"; chmod +x "$ROOT/usr/sbin/policy-rc.d"
  touch "$ROOT/.complete"
}

hold() { # runs in the new mount namespace until it is ended; its mounts end with it
  mount --bind "$ROOT" "$ROOT"
  mount -t proc proc "$ROOT/proc"
  mount --rbind /sys "$ROOT/sys"
  mount --rbind /dev "$ROOT/dev"
  mount -t tmpfs tmpfs "$ROOT/run"
  mkdir -p "$ROOT/run/netns" "$ROOT/run/lock"
  local folder binds=${TRAINWRIGHT_BED_BINDS:-}
  for folder in /tmp "$BED" "$checkout" ${binds//:/ }; do
    mkdir -p "$ROOT$folder"
    mount --rbind "$folder" "$ROOT$folder"
  done
  cp -L /etc/resolv.conf "$ROOT/etc/resolv.conf"
  echo "127.0.0.1 localhost" >"$ROOT/etc/hosts"  # each host mounts its own over it
  touch "$BED/run/held"
  exec sleep infinity
}

if [ "${1:-}" = hold ]; then hold; fi
make_root
if ! alive holder; then
  rm -f "$BED/run/held"
  start holder unshare --mount --propagation private "$here/chroot.sh" hold
  until_true 20 test -e "$BED/run/held"
fi

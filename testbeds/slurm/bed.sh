# What up.sh, down.sh and on share: where the bed is, and its hosts. Sourced, not run.
BED=${TRAINWRIGHT_BED:-/var/tmp/trainwright-bed}/slurm
NODES="n1 n2"
NETWORK=10.88.0
PREFIX=tw-slurm-       # of the network namespaces
SLURM_CONF=$BED/etc/slurm.conf
export SLURM_CONF

address_of() { # a host's address
  case $1 in ctl) echo "$NETWORK.2" ;; n*) echo "$NETWORK.1${1#n}" ;; esac
}

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

# A recorded process that still is what it was: pids are used again.
alive() { # NAME
  local file=$BED/run/$1.pid pid started
  [ -f "$file" ] || return 1
  read -r pid started <"$file"
  [ "$(started_at "$pid")" = "$started" ]
}

started_at() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

record() { echo "$2 $(started_at "$2")" >"$BED/run/$1.pid"; } # NAME PID

end() { # NAME [SIGNAL]: end a recorded process and wait for it
  alive "$1" || { rm -f "$BED/run/$1.pid"; return 0; }
  local pid
  read -r pid _ <"$BED/run/$1.pid"
  kill "-${2:-TERM}" "$pid" 2>/dev/null || true
  for _ in $(seq 100); do alive "$1" || break; sleep 0.1; done
  if alive "$1"; then kill -KILL "$pid"; fi
  rm -f "$BED/run/$1.pid"
}

until_true() { # SECONDS COMMAND...
  local end=$((SECONDS + $1)); shift
  while ! "$@" >/dev/null 2>&1; do
    if [ $SECONDS -ge $end ]; then say "waited in vain for: $*"; return 1; fi
    sleep 0.1
  done
}

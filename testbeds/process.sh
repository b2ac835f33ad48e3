# Processes of a bed by recorded pid, for the beds' scripts. Sourced; $BED/run holds one file a process, $BED/log its output.

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

started_at() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; } # PID

record() { echo "$2 $(started_at "$2")" >"$BED/run/$1.pid"; } # NAME PID

pid_of() { cut -d' ' -f1 "$BED/run/$1.pid"; } # NAME

alive() { # NAME: a recorded process that still is what it was, as pids are used again
  local pid started
  [ -f "$BED/run/$1.pid" ] || return 1
  read -r pid started <"$BED/run/$1.pid"
  [ -n "$started" ] && [ "$(started_at "$pid")" = "$started" ]
}

start() { # NAME COMMAND...: unless it runs
  local name=$1; shift
  if alive "$name"; then return; fi
  setsid "$@" </dev/null >>"$BED/log/$name.log" 2>&1 &
  record "$name" $!
}

end() { # NAME [SIGNAL]: end a recorded process and wait for it
  if alive "$1"; then
    local pid; pid=$(pid_of "$1")
    kill "-${2:-TERM}" "$pid" 2>/dev/null || true
    for _ in $(seq 100); do alive "$1" || break; sleep 0.1; done
    if alive "$1"; then kill -KILL "$pid" 2>/dev/null || true; fi
  fi
  rm -f "$BED/run/$1.pid"
}

until_true() { # SECONDS COMMAND...
  local end=$((SECONDS + $1)); shift
  while ! "$@" >/dev/null 2>&1; do
    if [ $SECONDS -ge $end ]; then say "waited in vain for: $*"; return 1; fi
    sleep 0.1
  done
}

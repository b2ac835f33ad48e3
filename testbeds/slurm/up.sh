#!/bin/bash
# A real Slurm on one machine: two nodes, accounting and REST, in network namespaces of their own. Needs root.
#
#   testbeds/slurm/up.sh      start what is not running yet; prints the folder with the client commands
#   testbeds/slurm/down.sh    end it; --purge also forgets jobs and accounting
#
# TRAINWRIGHT_SLURM_RELEASE=trixie is another bed beside it: Debian 13's Slurm, in a chroot. Exit code 77: this machine
# cannot have a bed (no root, no packages), which is no failure of what would be tested on it.
#
# Hosts ctl, n1, n2 have their own network, host name and /etc/hosts; they share this machine's files, so any
# folder is "shared storage". Each node claims 8 CPUs, 16 GB and 4 GPUs, which are /dev/null by another name.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
. "$here/bed.sh"

PACKAGES="slurm-wlm slurmctld slurmd slurmdbd slurmrestd slurm-client slurm-wlm-jwt-plugin slurm-wlm-mysql-plugin munge mariadb-server iproute2"

packages() {
  dpkg-query -W $PACKAGES >/dev/null 2>&1 && return
  command -v apt-get >/dev/null || no_packages "Slurm (no apt-get here)"
  say "installing Slurm"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >"$BED/log/apt.log" 2>&1 || true
  apt-get install -qy --no-install-recommends $PACKAGES >>"$BED/log/apt.log" 2>&1 || no_packages Slurm
}

network() { # one namespace a host, joined by a bridge in a namespace of its own; nothing in the machine's
  ip netns add "${PREFIX}switch" 2>/dev/null || return 0
  ip -n "${PREFIX}switch" link add bridge type bridge
  ip -n "${PREFIX}switch" link set bridge up
  for host in ctl $NODES; do
    local ns=$PREFIX$host
    mkdir -p "/etc/netns/$ns"
    { echo "127.0.0.1 localhost"; for h in ctl $NODES; do echo "$(address_of "$h") $h"; done; } >"/etc/netns/$ns/hosts"
    printf 'hosts: files\npasswd: files\ngroup: files\n' >"/etc/netns/$ns/nsswitch.conf"
    ip netns add "$ns"
    ip -n "${PREFIX}switch" link add "to-$host" type veth peer name eth0 netns "$ns"
    ip -n "${PREFIX}switch" link set "to-$host" master bridge up
    ip -n "$ns" address add "$(address_of "$host")/24" dev eth0
    ip -n "$ns" link set eth0 up
    ip -n "$ns" link set lo up
  done
}

authentication() { # an own munge, beside any that the machine may have
  alive munged && return
  install -d -o munge -g munge -m 755 "$BED/munge"
  [ -f "$BED/munge/key" ] || head -c 1024 /dev/urandom >"$BED/munge/key"
  chown munge: "$BED/munge/key"; chmod 600 "$BED/munge/key"
  setsid setpriv --reuid munge --regid munge --clear-groups munged --foreground --force --num-threads=2 \
    --socket="$BED/munge/socket" --key-file="$BED/munge/key" --pid-file="$BED/munge/pid" \
    --seed-file="$BED/munge/seed" --log-file="$BED/munge/log" </dev/null >"$BED/log/munged.out" 2>&1 &
  record munged $!
  until_true 10 test -S "$BED/munge/socket"
  if ! command -v sacctmgr >/dev/null; then say "Slurm is not installed"; exit 1; fi
}

database() {
  alive mariadbd && return
  local socket=$BED/mysql/socket
  if [ ! -d "$BED/mysql/mysql" ]; then
    install -d -o mysql -g mysql "$BED/mysql"
    mariadb-install-db --no-defaults --user=mysql --datadir="$BED/mysql" --auth-root-authentication-method=socket \
      --skip-test-db >"$BED/log/mariadb-install.log" 2>&1
  fi
  chmod 755 "$BED/mysql"
  setsid mariadbd --no-defaults --user=mysql --datadir="$BED/mysql" --socket="$socket" --skip-networking \
    --pid-file="$BED/mysql/pid" --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900 \
    </dev/null >"$BED/log/mariadb.log" 2>&1 &
  record mariadbd $!
  until_true 30 mariadb-admin --no-defaults -S "$socket" ping
  mariadb --no-defaults -S "$socket" -e "create database if not exists slurm;
    create user if not exists slurm@localhost identified by 'slurm'; grant all on slurm.* to slurm@localhost"
}

configuration() {
  [ -f "$BED/etc/jwt.key" ] || head -c 32 /dev/urandom >"$BED/etc/jwt.key"
  for i in 0 1 2 3; do [ -e "$BED/dev/gpu$i" ] || mknod -m 666 "$BED/dev/gpu$i" c 1 3; done
  for name in slurm.conf slurmdbd.conf gres.conf cgroup.conf; do
    sed "s|@BED@|$BED|g; s|@NETWORK@|$NETWORK|g" "$here/etc/$name" >"$BED/etc/$name"
  done
  chown slurm: "$BED/etc/jwt.key" "$BED/etc/slurmdbd.conf" "$BED/state" "$BED/log"
  chmod 600 "$BED/etc/jwt.key" "$BED/etc/slurmdbd.conf"
  for name in sbatch squeue sacct scancel scontrol sinfo; do ln -sf "$here/client" "$BED/bin/$name"; done
}

daemon() { # HOST NAME COMMAND...: start it unless it runs
  local host=$1 name=$2; shift 2
  alive "$name" && return
  setsid "$here/on" "$host" "$@" </dev/null >"$BED/log/$name.out" 2>&1 &
  record "$name" $!
}

controller() {
  export MYSQL_UNIX_PORT=$BED/mysql/socket
  daemon ctl slurmdbd slurmdbd -D
  until_true 30 timeout 5 "$here/on" ctl sacctmgr -in list cluster
  [ -e "$BED/mysql/cluster" ] || "$here/on" ctl sacctmgr -iQ add cluster bed
  touch "$BED/mysql/cluster"
  daemon ctl slurmctld slurmctld -D
  for node in $NODES; do mkdir -p "$BED/spool/$node"; daemon "$node" "slurmd-$node" slurmd -D; done
}

accounts() { # who may run, and the limits that tests meet
  [ -e "$BED/mysql/accounts" ] && return
  gpus_are_known() { "$here/on" ctl sacctmgr -nP list tres format=type,name | grep -q '^gres|gpu'; }
  until_true 60 gpus_are_known # the controller tells the database of them
  manage() { "$here/on" ctl sacctmgr -iQ "$@" >>"$BED/log/sacctmgr.log" 2>&1 || { say "sacctmgr $*"; return 1; }; }
  manage add account team Description=team
  manage add account other Description=other
  manage modify account other set GrpTRES=gres/gpu=1
  manage add qos small
  manage modify qos small set GrpTRES=gres/gpu=1 MaxTRESPerJob=node=1 MaxWall=10
  manage add qos wide
  manage modify qos wide set GrpTRES=gres/gpu=2
  manage modify account team set qos=normal,small,wide
  for user in root nobody; do
    manage add user $user account=team
    manage add user $user account=other
    manage modify user $user set DefaultAccount=team
  done
  touch "$BED/mysql/accounts"
}

cd / # the daemons outlive the folder that this was started in
if [ "$(id -u)" != 0 ]; then say "the Slurm bed needs root"; exit 77; fi
mkdir -p "$BED"/{etc,log,run,state,spool,dev,bin}
echo "$RELEASE" >"$BED/release"
if outside; then
  "$here/chroot.sh"
  inside "$here/up.sh"
  exit
fi
chmod 755 "$(dirname "$BED")" "$BED" "$BED/run"
# one at a time; -o: the daemons must not inherit the lock
[ "${1:-}" = --locked ] || exec flock -o "$BED/run/lock" "$here/up.sh" --locked
packages
network
authentication
database
configuration
controller
accounts
# slurmrestd refuses to run as root or as SlurmUser
daemon ctl slurmrestd setpriv --reuid nobody --regid nogroup --clear-groups env SLURM_JWT=daemon \
  slurmrestd -a rest_auth/jwt 127.0.0.1:6820
nodes_are_up() { [ "$("$here/on" ctl sinfo -h -N -p batch -o %t | grep -cE 'idle|alloc|mix')" = 2 ]; }
until_true 60 nodes_are_up
say "Slurm $("$here/on" ctl sinfo --version | cut -d' ' -f2) is up"
echo "$BED/bin"

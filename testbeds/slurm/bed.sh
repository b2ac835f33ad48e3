# What up.sh, down.sh and on share: where the bed is, and its hosts. Sourced, not run.
. "$(dirname "${BASH_SOURCE[0]}")/../process.sh"
BED=${TRAINWRIGHT_BED:-/var/tmp/trainwright-bed}/slurm
NODES="n1 n2"
NETWORK=10.88.0
PREFIX=tw-slurm-       # of the network namespaces
SLURM_CONF=$BED/etc/slurm.conf
export SLURM_CONF

address_of() { # a host's address
  case $1 in ctl) echo "$NETWORK.2" ;; n*) echo "$NETWORK.1${1#n}" ;; esac
}

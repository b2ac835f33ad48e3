# One network namespace a host, joined by a bridge in a namespace of its own. This machine gets one link into it,
# so that clients here reach the API server; the link goes with the namespaces. Sourced by bed.sh.

namespace() { echo "$BED_NAME-$1"; } # HOST

address_of() { # HOST
  case $1 in machine) echo "$BED_NETWORK.1" ;; control) echo "$CONTROL" ;; node-*) echo "$BED_NETWORK.1${1#node-}" ;; esac
}

hosts() { echo control; for i in $(seq "$NODES"); do echo "node-$i"; done; }

pods_of() { echo "10.244.${1#node-}.0/24"; } # NODE

network() {
  local ns host other
  if ! [ -e "/run/netns/$(namespace switch)" ]; then
    ns=$(namespace switch)
    ip netns add "$ns"
    ip -n "$ns" link add bridge type bridge
    ip -n "$ns" link set bridge up
    ip link add "$BED_NAME" type veth peer name to-machine netns "$ns"
    ip -n "$ns" link set to-machine master bridge up
    ip address add "$(address_of machine)/24" dev "$BED_NAME"
    ip link set "$BED_NAME" up
  fi
  for host in $(hosts); do
    ns=$(namespace "$host")
    [ -e "/run/netns/$ns" ] && continue
    mkdir -p "/etc/netns/$ns"
    { echo "127.0.0.1 localhost"; for other in $(hosts); do echo "$(address_of "$other") $other"; done; } >"/etc/netns/$ns/hosts"
    ip netns add "$ns"
    ip -n "$(namespace switch)" link add "to-$host" type veth peer name eth0 netns "$ns"
    ip -n "$(namespace switch)" link set "to-$host" master bridge up
    ip -n "$ns" address add "$(address_of "$host")/24" dev eth0
    ip -n "$ns" link set eth0 up
    ip -n "$ns" link set lo up
  done
  for host in $(hosts); do # pods of other nodes are behind those nodes
    ns=$(namespace "$host")
    for other in $(hosts); do
      case $other in "$host" | control) ;; *) ip -n "$ns" route replace "$(pods_of "$other")" via "$(address_of "$other")" ;; esac
    done
    if [ "$host" != control ]; then # a default route, else addresses of services are unreachable before they are translated
      ip -n "$ns" route replace default via "$CONTROL"
      nsenter --net="/run/netns/$ns" sysctl -qw net.ipv4.ip_forward=1
    fi
  done
  # what runs beside the API server resolves services as pods do
  printf 'nameserver %s\nsearch svc.cluster.local cluster.local\noptions ndots:5\n' "$CONTROL" \
    >"/etc/netns/$(namespace control)/resolv.conf"
}

network_down() {
  local ns
  for ns in $(ip netns list | cut -d' ' -f1 | grep "^$BED_NAME-"); do
    ip netns del "$ns"
    rm -rf "/etc/netns/$ns"
  done
}

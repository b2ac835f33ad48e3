# etcd, API server, controller manager, scheduler and kwok, in the namespace of the control plane. Sourced by bed.sh.

CONTROL_PLANE=(kwok kube-scheduler kube-controller-manager kube-apiserver etcd) # in the order in which they end

control_starts() { # NAME COMMAND...
  local name=$1; shift
  start "$name" ip netns exec "$(namespace control)" "$@"
}

answers() { # URL: in the namespace of the control plane
  ip netns exec "$(namespace control)" curl -skf --max-time 5 -o /dev/null "$1"
}

control_plane() {
  local pki=$BED/pki
  control_starts etcd etcd --data-dir "$BED/etcd" --unsafe-no-fsync --log-level warn
  control_starts kube-apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 \
    --advertise-address="$CONTROL" --secure-port=6443 --cert-dir="$pki" \
    --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
    --client-ca-file="$pki/ca.crt" --token-auth-file="$pki/tokens.csv" \
    --default-not-ready-toleration-seconds=5 --default-unreachable-toleration-seconds=5 \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged \
    --kubelet-client-certificate="$pki/kubelet-client.crt" --kubelet-client-key="$pki/kubelet-client.key" \
    --kubelet-preferred-address-types=InternalIP \
    --requestheader-client-ca-file="$pki/front-proxy-ca.crt" --requestheader-allowed-names=front-proxy-client \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --proxy-client-cert-file="$pki/front-proxy.crt" --proxy-client-key-file="$pki/front-proxy.key" \
    --service-cluster-ip-range=10.96.0.0/16 --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$pki/service-account.pub" --service-account-signing-key-file="$pki/service-account.key"
  until_true 60 kubectl get --raw /readyz || { tail -5 "$BED/log/kube-apiserver.log" >&2; return 1; }
  local as=$pki/controller-manager.kubeconfig
  # a node that is gone is noticed in 20 s instead of 50, and its pods are given up 5 s later instead of 5 minutes
  control_starts kube-controller-manager kube-controller-manager --kubeconfig="$as" --authentication-kubeconfig="$as" \
    --authorization-kubeconfig="$as" --bind-address=127.0.0.1 --cert-dir="$pki" --leader-elect=false \
    --use-service-account-credentials --service-account-private-key-file="$pki/service-account.key" \
    --root-ca-file="$pki/ca.crt" --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" \
    --node-monitor-grace-period=20s --node-monitor-period=2s
  as=$pki/scheduler.kubeconfig
  control_starts kube-scheduler kube-scheduler --kubeconfig="$as" --authentication-kubeconfig="$as" \
    --authorization-kubeconfig="$as" --bind-address=127.0.0.1 --cert-dir="$pki" --leader-elect=false
  control_starts kwok kwok --kubeconfig="$pki/admin.kubeconfig" --config="$here/etc/kwok.yaml" --manage-all-nodes=false \
    --manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake --node-lease-duration-seconds=40 \
    --cidr=10.200.0.0/16 --node-ip=10.201.0.1 --server-address=127.0.0.1:10247
  until_true 60 kubectl get serviceaccount default
  until_true 60 answers https://127.0.0.1:10259/readyz
}

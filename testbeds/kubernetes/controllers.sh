# Definitions and controllers of the training kinds, each as its release has them, run beside the API server as admin.
# Volcano has definitions only: its controller cannot be built from what is served. Sourced by bed.sh.

CONTROLLERS=(kueue ray-operator training-operator trainer mpi-operator jobset)
KINDS="jobset kueue ray mpi trainer pytorch"
declare -A WEBHOOK_PORT=([jobset]=9451 [trainer]=9452 [kueue]=9453 [pytorch]=9454 [ray]=9443) # KubeRay's is fixed
declare -A SERVED=([ray]=vraycluster.kb.io) # KubeRay 1.6.0 declares three webhooks and serves one

applied() { # FILE: by the server
  kubectl apply --server-side --force-conflicts -f "$1" >>"$BED/log/apply.log" 2>&1 || { tail -3 "$BED/log/apply.log" >&2; return 1; }
}

fitted() { # KIND: manifests from stdin
  "$PYTHON" "$here/manifests.py" "$1" "${WEBHOOK_PORT[$1]:-0}" "$BED/pki/ca.crt" ${SERVED[$1]:-}
}

definitions() {
  local kind
  for kind in $KINDS; do fitted "$kind" <"$built/manifests/$kind-definitions.yaml" | applied -; done
  applied "$here/volcano-crds"
  until_true 60 kubectl wait --for=condition=Established crd --all --timeout=30s
  for kind in mpi-operator kubeflow kubeflow-system kueue-system ray-system; do kubectl create namespace $kind >>"$BED/log/apply.log"; done
  # the training operator keeps a certificate here that nothing uses
  kubectl create secret generic training-operator-webhook-cert --namespace=kubeflow >>"$BED/log/apply.log"
}

# Where controllers look for the certificate of their webhooks. Two of them look there whatever they are told.
FIXED_PLACES="/etc/kueue/metrics/certs /tmp/k8s-webhook-server/serving-certs"

webhook_certificate() {
  local folder
  for folder in $FIXED_PLACES "$BED/tmp/k8s-webhook-server/serving-certs"; do
    install -D "$BED/pki/webhook.crt" "$folder/tls.crt"
    install -D "$BED/pki/webhook.key" "$folder/tls.key"
  done
}

controllers() {
  local name config=$BED/etc/controllers complete=$BED/etc/controllers/complete
  mkdir -p "$config"
  for name in jobset trainer kueue; do sed "s|@BED@|$BED|g" "$here/etc/$name.yaml" >"$config/$name.yaml"; done
  webhook_certificate
  [ -e "$complete" ] || definitions
  export TMPDIR=$BED/tmp
  control_starts jobset jobset --config="$config/jobset.yaml"
  control_starts trainer trainer-controller-manager --config="$config/trainer.yaml"
  control_starts mpi-operator mpi-operator --kubeConfig="$KUBECONFIG" --lock-namespace=mpi-operator \
    --kube-api-qps=50 --kube-api-burst=100
  control_starts training-operator training-operator.v1 --enable-scheme=pytorchjob \
    --webhook-server-port="${WEBHOOK_PORT[pytorch]}" --pytorch-init-container-template-file="$here/etc/pytorch-init.yaml" \
    --metrics-bind-address=127.0.0.1:9475 --health-probe-bind-address=127.0.0.1:9465
  ENABLE_WEBHOOKS=true control_starts ray-operator ray-operator --enable-leader-election=false \
    --metrics-addr=127.0.0.1:9474 --health-probe-bind-address=127.0.0.1:9464
  control_starts kueue kueue --config="$config/kueue.yaml"
  unset TMPDIR
  for name in "${!WEBHOOK_PORT[@]}"; do until_true 60 listens "${WEBHOOK_PORT[$name]}"; done
  [ ! -e "$complete" ] || return 0
  for name in "${!WEBHOOK_PORT[@]}"; do fitted "$name" <"$built/manifests/$name-webhooks.yaml" | applied -; done
  applied "$built/manifests/trainer-objects.yaml"
  touch "$complete"
}

listens() { ip netns exec "$(namespace control)" bash -c "exec 3<>/dev/tcp/127.0.0.1/$1"; } # PORT

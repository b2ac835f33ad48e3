# Definitions and controllers of the training kinds, each as its release has them, run beside the API server as admin.
# Volcano has definitions only: its controller cannot be built from what is served. Sourced by bed.sh.

CONTROLLERS=(kueue ray-operator trainer mpi-operator jobset)
declare -A WEBHOOK_PORT=([jobset]=9451 [trainer]=9452 [kueue]=9453 [ray]=9443) # KubeRay's cannot be chosen

applied() { kubectl apply --server-side --force-conflicts -f "$@" >>"$BED/log/apply.log" 2>&1 || { tail -3 "$BED/log/apply.log" >&2; return 1; }; }

fitted() { # NAME: manifests from stdin
  "$PYTHON" "$here/manifests.py" "$1" "${WEBHOOK_PORT[$1]:-0}" "$BED/pki/ca.crt"
}

definitions() {
  local name
  for name in jobset kueue ray mpi trainer pytorch; do fitted "$name" <"$built/manifests/$name-definitions.yaml" | applied -; done
  applied "$here/volcano-crds"
  until_true 60 kubectl wait --for=condition=Established crd --all --timeout=30s
}

controllers() {
  local name config=$BED/etc/controllers
  export TMPDIR=$BED/tmp # controllers look for the certificate of their webhooks there
  install -D "$BED/pki/webhook.crt" "$TMPDIR/k8s-webhook-server/serving-certs/tls.crt"
  install -D "$BED/pki/webhook.key" "$TMPDIR/k8s-webhook-server/serving-certs/tls.key"
  # Kueue reads this place whatever its configuration says
  install -D "$BED/pki/webhook.crt" /etc/kueue/metrics/certs/tls.crt
  install -D "$BED/pki/webhook.key" /etc/kueue/metrics/certs/tls.key
  mkdir -p "$config"
  for name in jobset trainer kueue; do sed "s|@BED@|$BED|g" "$here/etc/$name.yaml" >"$config/$name.yaml"; done
  local done_for=$BED/etc/definitions
  [ "$(cat "$done_for" 2>/dev/null)" = "$built" ] || definitions
  for name in mpi-operator kubeflow-system kueue-system ray-system; do
    kubectl get namespace $name >/dev/null 2>&1 || kubectl create namespace $name >/dev/null
  done
  control_starts jobset jobset --config="$config/jobset.yaml"
  control_starts trainer trainer-controller-manager --config="$config/trainer.yaml"
  control_starts mpi-operator mpi-operator --kubeConfig="$KUBECONFIG" --lock-namespace=mpi-operator --kube-api-qps=50 --kube-api-burst=100
  ENABLE_WEBHOOKS=true control_starts ray-operator ray-operator --enable-leader-election=false \
    --metrics-addr=127.0.0.1:9474 --health-probe-bind-address=127.0.0.1:9464
  control_starts kueue kueue --config="$config/kueue.yaml"
  unset TMPDIR
  for name in jobset trainer ray kueue; do
    until_true 60 listens "${WEBHOOK_PORT[$name]}"
    [ "$(cat "$done_for" 2>/dev/null)" = "$built" ] || fitted "$name" <"$built/manifests/$name-webhooks.yaml" | applied -
  done
  [ "$(cat "$done_for" 2>/dev/null)" = "$built" ] || applied "$built/manifests/trainer-objects.yaml"
  echo "$built" >"$done_for"
}

listens() { ip netns exec "$(namespace control)" bash -c "exec 3<>/dev/tcp/127.0.0.1/$1"; } # PORT

# Keys, certificates and tokens of the control plane, made once in $BED/pki. Sourced by bed.sh.

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; } # NAME

authority() { # NAME
  key "$1"
  openssl req -x509 -new -key "$1.key" -out "$1.crt" -days 3650 -subj "/CN=$1" \
    -addext keyUsage=critical,keyCertSign,digitalSignature
}

certificate() { # NAME AUTHORITY SUBJECT USAGE [ALTERNATIVE-NAMES]
  key "$1"
  {
    echo "keyUsage=critical,digitalSignature"
    echo "extendedKeyUsage=$4"
    if [ -n "${5:-}" ]; then echo "subjectAltName=$5"; fi
  } >"$1.ext"
  openssl req -new -key "$1.key" -subj "$3" -out "$1.csr"
  openssl x509 -req -in "$1.csr" -CA "$2.crt" -CAkey "$2.key" -CAcreateserial -days 3650 -out "$1.crt" -extfile "$1.ext" 2>&1
}

client() { # NAME USER [GROUP]: a user by token, and its kubeconfig
  local token; token=$(openssl rand -hex 16)
  echo "$token,$2,$1${3:+,\"$3\"}" >>tokens.csv
  cat >"$1.kubeconfig" <<KUBECONFIG
apiVersion: v1
kind: Config
clusters: [{name: bed, cluster: {server: "https://$CONTROL:6443", certificate-authority: "$BED/pki/ca.crt"}}]
users: [{name: $1, user: {token: $token}}]
contexts: [{name: bed, context: {cluster: bed, user: $1}}]
current-context: bed
KUBECONFIG
}

certificates() (
  [ ! -e "$BED/pki/complete" ] || exit 0
  cd "$BED/pki"
  rm -f ./*
  {
    authority ca
    authority front-proxy-ca
    certificate apiserver ca /CN=kube-apiserver serverAuth "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,\
DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:$CONTROL,IP:10.96.0.1"
    certificate kubelet-client ca /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
    certificate front-proxy front-proxy-ca /CN=front-proxy-client clientAuth
    certificate webhook ca /CN=webhook serverAuth DNS:localhost,IP:127.0.0.1
    openssl genrsa -out service-account.key 2048
    openssl rsa -in service-account.key -pubout -out service-account.pub
  } >"$BED/log/certificates.log" 2>&1
  client admin admin system:masters
  client nobody nobody # may do nothing: for what is said then
  client controller-manager system:kube-controller-manager
  client scheduler system:kube-scheduler
  client proxy system:kube-proxy
  for i in 1 2 3 4; do client "node-$i" "system:node:node-$i" system:nodes; done
  touch complete
)

#!/bin/bash
# Build Kubernetes and the controllers of the training kinds from Go modules; prints the folder with bin/ and manifests/.
#
# Cold it takes about 13 minutes on two cores, so start it in the background early; a second call waits for the first.
# What was built is kept in $TRAINWRIGHT_BED_CACHE by the content of modules/ and of the recipe below. What the compiler
# did is kept beside it, so that a call that was cut short goes on where it was. JOBS is how many compilers run at once.
# Ends with 77 where it cannot be built at all: no Go, or no way to its modules.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
modules=$here/modules
cache=${TRAINWRIGHT_BED_CACHE:-$HOME/.cache/trainwright-beds}

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

build() { # MODULE LINKER-FLAGS PACKAGE...: each command is in bin/ whole or not at all
  local module=$1 flags=$2 started=$SECONDS; shift 2
  rm -rf "$out/linked" && mkdir "$out/linked"
  (cd "$modules/$module" && nice -n 5 go build -p "${JOBS:-2}" -trimpath -ldflags="-s -w $flags" -o "$out/linked/" "$@")
  if [ -e "$out/linked/server" ]; then mv "$out/linked/server" "$out/linked/etcd"; fi # Go names it after its folder
  say "$(cd "$out/linked" && echo *): $((SECONDS - started)) s"
  mv "$out"/linked/* "$out/bin/"
}

kubernetes_version() { # without it the server calls itself v0.0.0-master, and clients believe it
  local version package
  version=$(cd "$modules/kube2" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
  IFS=. read -r major minor _ <<<"${version#v}"
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- "-X $package.%s " "gitVersion=$version" "gitMajor=$major" "gitMinor=$minor" gitTreeState=clean \
      gitCommit=module buildDate=2026-01-01T00:00:00Z
  done
  printf -- '-X sigs.k8s.io/kwok/pkg/consts.Version=%s' \
    "$(cd "$modules/kube2" && go list -m -f '{{.Version}}' sigs.k8s.io/kwok)"
}

manifests() { # NAME MODULE DEPENDENCY DEFINITIONS [WEBHOOKS [OBJECTS]]: what the controller's release would apply
  local name=$1 source part; source=$(cd "$modules/$2" && go list -m -f '{{.Dir}}' "$3"); shift 3
  for part in definitions webhooks objects; do
    if [ -d "$source/$1" ]; then kubectl kustomize "$source/$1"; else cat "$source/$1"; fi >"$out/manifests/$name-$part.yaml"
    shift
    [ $# -gt 0 ] || break
  done
}

everything() {
  local kubernetes=k8s.io/kubernetes/cmd
  if ! command -v kubectl >/dev/null; then kubectl=$kubernetes/kubectl; fi
  build kube2 "$(kubernetes_version)" sigs.k8s.io/kwok/cmd/kwok go.etcd.io/etcd/server/v3 ${kubectl:-} \
    $kubernetes/kube-{apiserver,controller-manager,scheduler,proxy} $kubernetes/kubelet
  build ops2 "" sigs.k8s.io/jobset github.com/ray-project/kuberay/ray-operator \
    github.com/kubeflow/training-operator/cmd/training-operator.v1
  build ops "" sigs.k8s.io/kueue/cmd/kueue github.com/kubeflow/mpi-operator/cmd/mpi-operator \
    github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager
  build coredns "" .
  build pause "" .

  PATH=$PATH:$out/bin
  local crd=config/components/crd webhook=config/components/webhook
  manifests jobset ops2 sigs.k8s.io/jobset $crd/bases/jobset.x-k8s.io_jobsets.yaml $webhook
  manifests kueue ops sigs.k8s.io/kueue $crd $webhook
  manifests ray ops2 github.com/ray-project/kuberay/ray-operator config/crd config/webhook
  manifests mpi ops github.com/kubeflow/mpi-operator manifests/base/kubeflow.org_mpijobs.yaml
  manifests trainer ops github.com/kubeflow/trainer/v2 manifests/base/{crds,webhook,runtimes}
  manifests pytorch ops2 github.com/kubeflow/training-operator \
    manifests/base/crds/kubeflow.org_pytorchjobs.yaml manifests/base/webhook
}

# what is built depends on these, and not on what is said about them
out=$cache/kubernetes-$({ cd "$modules" && cat ./*/go.mod ./*/go.sum ./*/main.go; declare -f build kubernetes_version manifests everything; } |
  sha256sum | cut -c1-16)
if [ -e "$out/complete" ]; then echo "$out"; exit; fi
command -v go >/dev/null || { say "building the Kubernetes bed needs Go 1.26 or newer: https://go.dev/dl/"; exit 77; }
mkdir -p "$out"/{bin,manifests}
[ "${1:-}" = --locked ] || exec flock -o "$out/lock" "$here/build.sh" --locked
if [ -e "$out/complete" ]; then echo "$out"; exit; fi
export CGO_ENABLED=0 GOCACHE=$cache/go-build
(cd "$modules/kube2" && go mod download sigs.k8s.io/kwok) || { say "Go cannot fetch modules: see above, and GOPROXY"; exit 77; }
say "building into $out"
everything
rm -rf "$out/linked"
touch "$out/complete"
echo "$out"

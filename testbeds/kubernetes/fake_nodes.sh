# Nodes that kwok pretends to run: they take pods and run no code. Sourced by bed.sh.
# Allocatable is what EKS leaves to pods on these types, as in the project's facts; EFA's driver takes huge pages.

fake_node() { # NAME TYPE CPU ALLOCATABLE-CPU MEMORY ALLOCATABLE-MEMORY DEVICES [TAINT]
  local common="pods: '110', ephemeral-storage: 1Ti, $7"
  cat <<NODE
---
apiVersion: v1
kind: Node
metadata:
  name: $1
  annotations: {kwok.x-k8s.io/node: fake}
  labels:
    kubernetes.io/hostname: $1
    kubernetes.io/os: linux
    kubernetes.io/arch: amd64
    node.kubernetes.io/instance-type: $2
    topology.kubernetes.io/region: us-west-2
    topology.kubernetes.io/zone: us-west-2a
    topology.k8s.aws/network-node-layer-3: nn-${2%%.*}
    bed/fake: "true"
spec: {taints: [${8:-}]}
status:
  capacity: {cpu: '$3', memory: $5, $common}
  allocatable: {cpu: $4, memory: $6, $common}
NODE
}

fake_nodes() {
  # beside real nodes no fake one is without a taint: what needs no accelerator really runs
  local keep_free=; if [ "$NODES" != 0 ]; then keep_free='{key: bed/fake, effect: NoSchedule}'; fi
  local gpu='{key: nvidia.com/gpu, value: present, effect: NoSchedule}'
  local neuron='{key: aws.amazon.com/neuron, value: present, effect: NoSchedule}' pages='hugepages-1Gi: "0", hugepages-2Mi: 10256Mi'
  {
    for i in 0 1 2 3; do
      fake_node p4d-$i p4d.24xlarge 96 95690m 1152Gi 1082712Mi "nvidia.com/gpu: '8', vpc.amazonaws.com/efa: '4', $pages" "$gpu"
    done
    for i in 0 1; do
      fake_node p5-$i p5.48xlarge 192 191450m 2048Gi 1938410Mi "nvidia.com/gpu: '8', vpc.amazonaws.com/efa: '32', $pages" "$gpu"
      fake_node trn1-$i trn1.32xlarge 128 127610m 512Gi 481894Mi "aws.amazon.com/neuron: '16', vpc.amazonaws.com/efa: '8', $pages" "$neuron"
    done
    for i in 0 1; do fake_node cpu-$i m7i.8xlarge 32 31850m 128Gi 118000Mi 'hugepages-2Mi: "0"' "$keep_free"; done
  } | applied -
}

"""Texts made to break readers: each of bounded size, each to come back as findings, never as an exception."""

from __future__ import annotations

JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: x}}\nspec:\n  template:\n    spec: {}\n"


def bomb() -> str:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    return "\n".join([*levels, JOB.format("*a29")])


def merge_bomb() -> str:
    levels = ["a0: &a0 {k0: 1}"]
    levels += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: 1, z: *a{n - 1}}}" for n in range(1, 60)]
    return "\n".join([*levels, JOB.format("*a59")])


LARGE = 60_000

TEXTS: dict[str, str] = {
    "bomb.yaml": bomb(),
    "merge-bomb.yaml": merge_bomb(),
    "cycle.yaml": JOB.format("&s {containers: [*s], volumes: *s, nodeSelector: *s, tolerations: [*s]}"),
    "cycle-list.yaml": "apiVersion: v1\nkind: List\nitems: &i\n  - *i\n  - {apiVersion: v1, kind: List, items: *i}\n",
    "merge-cycle.yaml": "a: &a\n  <<: *a\n  b: 1\nkind: Job\napiVersion: batch/v1\n",
    "deep-flow.yaml": "a: " + "[" * LARGE,
    "deep-map.yaml": "{a: " * LARGE,
    "deep-block.yaml": "".join(f"{' ' * n}a:\n" for n in range(1500)),
    "deep-dashes.yaml": "- " * LARGE + "a",
    "deep-question.yaml": "? " * LARGE + "a",
    "many-documents.yaml": "---\na: 1\n" * 10_000,
    "many-jobs.yaml": "---\n".join([JOB.format("{containers: [{command: [sh, -c, torchrun x.py]}]}")] * 300),
    "many-anchors.yaml": "\n".join(f"k{n}: &a{n} *a{n - 1}" if n else "k0: &a0 1" for n in range(5_000)),
    "many-keys.yaml": "apiVersion: v1\nkind: ConfigMap\ndata: {" + ", ".join(f"k{n}: v" for n in range(15_000)) + "}",
    "same-keys.yaml": "apiVersion: v1\nkind: ConfigMap\ndata: {" + ", ".join(["k: v"] * 5_000) + "}",
    "one-line.yaml": "a: " + "x" * 3_000_000,
    "templates.yaml": "{{" * LARGE,
    "open-template.yaml": "apiVersion: v1\nkind: Pod\n{{- if " + "x " * LARGE,
    "tags.yaml": "a: !!python/object/apply:os.system [echo]\nb: !<tag:x> {}\nc: !!binary '==='\nd: !!set {x}\n",
    "keys.yaml": "apiVersion: v1\nkind: Job\n? [a, b]\n: 1\n? {c: d}\n: 2\nnull: 3\n1: 4\n'': 5\nspec: {1: {2: 3}}\n",
    "numbers.yaml": f"apiVersion: batch/v1\nkind: Job\nspec: {{parallelism: {'9' * 5000}, x: 0x{'f' * 999}}}\n",
    "dates.yaml": "apiVersion: 2026-01-01\nkind: 12:30:45\nspec: {a: .inf, b: .nan, c: 1e999, d: 0o9, e: 08, f: =}\n",
    "nul.yaml": 'apiVersion: v1\nkind: Pod\nmetadata: {name: "\\0\\x01\\uD800"}\n',
    "controls.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: \x1b[31mx}\n",
    "tabs.yaml": "apiVersion: v1\nkind: Pod\nspec:\n\tcontainers: []\n",
    "breaks.yaml": "apiVersion: v1\u2028kind: Pod\u0085metadata: {}\x0cspec: {}\n",
    "half.yaml": JOB.format('{containers: [{command: ["sh", "-c", "torchrun'),
    "deep.json": '{"zero_optimization":' * LARGE,
    "deep-list.json": '{"zero_optimization":' + "[" * LARGE + "]" * LARGE + "}",
    "wrong.json": '{"zero_optimization": [[]], "train_batch_size": {}, "bf16": 3, "fp16": [], "optimizer": "x"}',
    "numbers.json": '{"zero_optimization": {"stage": ' + "9" * 5_000 + '}, "train_batch_size": 1e99999}',
    "half.json": '{"zero_optimization": {"stage": 3',
    "deep-braces.sh": "{ " * LARGE,
    "deep-substitution.sh": "torchrun " + "$(" * LARGE,
    "deep-parentheses.sh": "((" * LARGE,
    "deep-quotes.sh": 'torchrun "' + '$(echo "' * 5_000,
    "deep-if.sh": "if true; then\n" * 5_000 + "torchrun x.py\n",
    "deep-expansion.sh": "torchrun " + "${a:-" * LARGE,
    "deep-sh.sh": "bash -c 'bash -c \"bash -c torchrun\"'\n" * 500,
    "recursion.sh": "f() { g; }\ng() { f; torchrun $1; }\nf\n" + "h() { h; h; h; }\nh\n",
    "doubling.sh": "a=xx\n" + "a=$a$a\n" * 200 + "torchrun --nnodes=$a train.py\n",
    "function-fan.sh": "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; f{n + 1}; }}\n" for n in range(40)) + "f0\n",
    "arrays.sh": "a=(x x)\n" + 'a=("${a[@]}" "${a[@]}")\n' * 60 + 'torchrun "${a[@]}"\n',
    "variables.sh": "".join(f"v{n}=1\nexport v{n}\nsrun a{n}\n" for n in range(8_000)),
    "heredocs.sh": "".join(f"cat <<E{n}\n" for n in range(2_000)),
    "heredoc-nest.sh": "".join(f"cat > f{n}.sh <<'E{n}'\n" for n in range(300)) + "torchrun\n",
    "directives.sh": "#!/bin/bash\n" + "#SBATCH --nodes=2\n" * 10_000,
    "line.sh": "torchrun " + "--a=b " * 60_000,
    "continued.sh": "torchrun \\\n" * 30_000,
    "power.sh": "torchrun --nnodes=$((9**9**9)) --nproc-per-node=$((1<<999999999)) $((1/0)) $((1%0)) x.py\n",
    "braces.sh": "torchrun {1..999999999} {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}\n",
    "nul.sh": "torchrun \udcff x.py\n",
    "deep.py": "(" * 5_000,
    "deep-sum.py": "import torch\nx = " + "1+" * LARGE + "1\n",
    "deep-minus.py": "x = " + "-" * LARGE + "1\n",
    "deep-attribute.py": "import torch\ntorch" + ".a" * 5_000 + "()\n",
    "deep-call.py": "import torch\n" + "f" + "()" * 3_000 + "\n",
    "deep-if.py": "".join(f"{' ' * n}if x:\n" for n in range(150)),
    "many-calls.py": "import torch\n" + "torch.load('x')\n" * 4_000,
    "escapes.py": "x = '\\N{NO SUCH NAME}'\n",
    "nul.py": "import torch\n\0\n",
    "fences.md": "```" * LARGE,
    "open-fences.md": "```yaml\na: [\n" * 5_000,
    "quotes.md": "> " * LARGE + "```bash\n" + "torchrun x.py\n",
    "fences-of-all.md": "".join(f"{'`' * n}bash\n" for n in range(3, 800)),
    "empty.yaml": "",
    "blank.sh": "\n\n  \n",
    "comment.yaml": "# nothing\n",
}

# What the fuzz tests build documents and scripts of: names that rules look for, in every wrong place.
KEYS = (
    "apiVersion kind metadata name labels annotations spec template containers initContainers command "
    "args env value valueFrom resources limits requests nvidia.com/gpu vpc.amazonaws.com/efa volumes "
    "volumeMounts emptyDir mountPath replicas parallelism completions tolerations nodeSelector affinity "
    "pytorchReplicaSpecs Worker Master data items mpiReplicaSpecs slotsPerWorker replicatedJobs "
    "workerGroupSpecs rayClusterSpec entrypoint tasks queue requirements key operator values "
    "zero_optimization stage bf16 train_batch_size fsdp_config script.sh train.py optimizer params"
)
KINDS = (
    "Pod Job JobSet MPIJob PyTorchJob TrainJob RayJob RayCluster Deployment DaemonSet NodePool "
    "EC2NodeClass ConfigMap Application StorageClass PersistentVolumeClaim TrainingRuntime ClusterQueue "
    "LocalQueue CronJob StatefulSet"
)
GROUPS = (
    "v1 batch/v1 jobset.x-k8s.io/v1alpha2 kubeflow.org/v1 kubeflow.org/v2beta1 "
    "trainer.kubeflow.org/v1alpha1 apps/v1 ray.io/v1 batch.volcano.sh/v1alpha1 karpenter.sh/v1 "
    "kueue.x-k8s.io/v1beta1 argoproj.io/v1alpha1"
)
SCALARS = ("nvidia.com/gpu", "sh", "-c", "torchrun --nnodes=$N x.py", "8", "4Gi", "$(X)", "{{ x }}", "Memory", "trn1")
SHELL_WORDS = (
    "torchrun srun mpirun python accelerate launch deepspeed --nnodes --nnodes= 2 $N ${N:-1} $((N*8)) $(hostname) | "
    "& && ; \\ \n \" ' ( ) { } if then fi for in do done <<E E export A=1 bash -c -m torch.distributed.run #SBATCH"
)

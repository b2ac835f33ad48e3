"""Files that belong together see each other: by folder, by kustomization, and by the names in command lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.linter.engine import Options, lint_paths
from trainwright.linter.files import load_files
from trainwright.linter.finding import Finding
from trainwright.linter.kustomize import join_sets

SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:8\n{}"
LAUNCH = (
    'srun torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint="$(hostname)":29500 '
    "train.py --deepspeed {}\n"
)
WRONG = '{"train_batch_size": 7, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}'


def batch(path: Path) -> list[Finding]:
    return [f for f in lint_paths([path], Options(strict=True)) if f.rule == "TW802"]


def test_a_file_that_a_command_names_is_read_from_beside_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.sbatch").write_text(SCRIPT.format(LAUNCH.format("ds.json")))
    assert batch(tmp_path / "train.sbatch") == []
    (tmp_path / "ds.json").write_text(WRONG)
    (finding,) = batch(tmp_path / "train.sbatch")
    assert finding.path == str(tmp_path / "ds.json")


def test_a_neighbour_is_looked_at_only_from_the_command(tmp_path: Path) -> None:
    (tmp_path / "train.sbatch").write_text(SCRIPT.format(LAUNCH.format("ds.json")))
    (tmp_path / "ds.json").write_text(WRONG.replace("}", ', "bf16": {"enabled": true}, "fp16": {"enabled": true}}'))
    assert {f.rule for f in lint_paths([tmp_path / "train.sbatch"], Options())} & {"TW801", "TW802"} == {"TW802"}
    assert {f.rule for f in lint_paths([tmp_path], Options())} & {"TW801", "TW802"} == {"TW801", "TW802"}


@pytest.mark.parametrize("name", ["../ds.json", "/etc/ds.json", "sub/../../ds.json", "$DS/ds.json", "missing.json"])
def test_no_file_elsewhere_is_opened(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (tmp_path / "ds.json").write_text(WRONG)
    (folder / "train.sbatch").write_text(SCRIPT.format(LAUNCH.format(name)))
    assert batch(folder / "train.sbatch") == []


def kustomize(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kustomization.yaml").write_text(text)


def sets(root: Path) -> dict[str, str]:
    files = list(load_files([root]))
    join_sets(files)
    return {str(Path(file.path).relative_to(root)): file.together for file in files}


def test_a_kustomization_joins_what_it_lists_across_folders(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "job.yaml").write_text("a: 1\n")
    (tmp_path / "base" / "other.yaml").write_text("a: 1\n")
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "job.yaml").write_text("a: 1\n")
    kustomize(tmp_path / "prod", "resources: [../base/job.yaml, https://example.com/x.yaml, 3, {}]\n")
    found = sets(tmp_path)
    assert found["base/job.yaml"] == found["prod/kustomization.yaml"]
    assert found["alone/job.yaml"] != found["prod/kustomization.yaml"]


def test_a_folder_is_joined_as_a_whole_and_chains_end(tmp_path: Path) -> None:
    kustomize(tmp_path / "a", "resources: [../b]\n")
    kustomize(tmp_path / "b", "resources: [../c]\n")
    kustomize(tmp_path / "c", "resources: [../a, job.yaml]\n")
    (tmp_path / "c" / "job.yaml").write_text("a: 1\n")
    assert len(sets(tmp_path)) == 4
    kustomize(tmp_path / "c", "resources: [job.yaml]\n")
    assert len(set(sets(tmp_path).values())) == 1


def test_a_base_of_several_overlays_stays_by_itself(tmp_path: Path) -> None:
    kustomize(tmp_path / "base", "resources: [job.yaml]\n")
    (tmp_path / "base" / "job.yaml").write_text("a: 1\n")
    for overlay in ("dev", "prod"):
        kustomize(tmp_path / overlay, "resources: [../base]\npatches: [{path: patch.yaml}]\n")
        (tmp_path / overlay / "patch.yaml").write_text("a: 1\n")
    found = sets(tmp_path)
    assert len(set(found.values())) == 3
    assert found["dev/patch.yaml"] == found["dev/kustomization.yaml"] != found["base/job.yaml"]


def test_objects_of_a_base_and_its_overlay_are_compared(tmp_path: Path) -> None:
    claim = (
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec:\n  accessModes: [ReadWriteMany]\n"
        "  storageClassName: fsx\n  resources: {requests: {storage: 1300Gi}}\n"
    )
    storage = (
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fsx}\nprovisioner: fsx.csi.aws.com\n"
        "parameters: {deploymentType: PERSISTENT_2}\n"
    )
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "class.yaml").write_text(storage)
    (tmp_path / "prod").mkdir()
    (tmp_path / "prod" / "claim.yaml").write_text(claim)
    assert lint_paths([tmp_path], Options(select=["TW901"])) == []
    kustomize(tmp_path / "prod", "resources: [../base/class.yaml, claim.yaml]\n")
    assert [f.rule for f in lint_paths([tmp_path], Options(select=["TW901"]))] == ["TW901"]

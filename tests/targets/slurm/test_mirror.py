"""A run's folder over ssh: written there, brought here piece by piece. ssh is a script that runs a local shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.errors import SystemUnreachable
from trainwright.targets.slurm.mirror import pull, push, remove
from trainwright.targets.slurm.transport import Done, Ssh


class Counting(Ssh):
    """ssh that remembers how many bytes came back."""

    bytes = 0

    def run(self, *arguments: object, **options: object) -> Done:
        done = super().run(*arguments, **options)  # type: ignore[arg-type]  # passed on as they came
        Counting.bytes += len(done.out)
        return done


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Ssh, Path]:
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text('#!/bin/bash\nwhile [ "$1" != -- ]; do shift; done\nexec bash -c "$2"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:/usr/bin:/bin")
    return Counting("login1"), tmp_path / "cluster" / "it's a run"


def test_files_are_written_with_the_folders_that_slurm_needs(there: tuple[Ssh, Path]) -> None:
    ssh, folder = there
    push(ssh, str(folder), {"spec.yaml": "name: ä\n", "bundle/train.sbatch": "#!/bin/bash\n"})
    assert (folder / "spec.yaml").read_text("utf-8") == "name: ä\n"
    assert (folder / "bundle" / "train.sbatch").is_file()
    assert (folder / "logs").is_dir()
    remove(ssh, str(folder), "spec.yaml")
    assert not (folder / "spec.yaml").exists()


def test_logs_are_brought_from_where_they_ended_and_big_things_stay(there: tuple[Ssh, Path], tmp_path: Path) -> None:
    ssh, folder = there
    here = tmp_path / "client"
    here.mkdir()
    push(ssh, str(folder), {"spec.yaml": "x"})
    log = folder / "logs" / "1" / "rank-0.log"
    log.parent.mkdir()
    log.write_bytes(b"\xff\x00line\n" * 1000)
    (folder / "events" / "1-s.jsonl").write_text('{"kind": "started"}\n')
    (folder / "progress.json").write_text('{"done": 1}')
    step = folder / "checkpoints" / "step-00000004"
    step.mkdir(parents=True)
    (step / "manifest.json").write_text("{}")
    (step / "weights.bin").write_bytes(b"x" * 100_000)
    pull(ssh, str(folder), here)
    assert (here / "logs" / "1" / "rank-0.log").read_bytes() == log.read_bytes()
    assert (here / "checkpoints" / "step-00000004" / "manifest.json").is_file()
    assert not (here / "checkpoints" / "step-00000004" / "weights.bin").exists()

    with log.open("ab") as handle:
        handle.write(b"more\n")
    (folder / "progress.json").write_text('{"done": 2}')
    Counting.bytes = 0
    pull(ssh, str(folder), here)
    assert (here / "logs" / "1" / "rank-0.log").read_bytes() == log.read_bytes()
    assert (here / "progress.json").read_text() == '{"done": 2}'
    assert Counting.bytes < 2000


def test_a_log_that_shrank_is_read_anew(there: tuple[Ssh, Path], tmp_path: Path) -> None:
    ssh, folder = there
    push(ssh, str(folder), {"logs/1/train.log": "long text\n"})
    pull(ssh, str(folder), tmp_path)
    (folder / "logs" / "1" / "train.log").write_text("new\n")
    pull(ssh, str(folder), tmp_path)
    assert (tmp_path / "logs" / "1" / "train.log").read_text() == "new\n"


def test_a_folder_that_cannot_be_written_or_read_is_one_error(there: tuple[Ssh, Path], tmp_path: Path) -> None:
    ssh, _ = there
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemUnreachable, match="cannot be written"):
        push(ssh, str(tmp_path / "file" / "run"), {"a": "b"})
    with pytest.raises(SystemUnreachable, match="cannot be read"):
        pull(ssh, str(tmp_path / "nowhere"), tmp_path)

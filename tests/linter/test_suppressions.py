"""Comments that switch rules off cover what they should, and say so when they are of no use."""

from __future__ import annotations

from trainwright.linter.engine import Options, lint_texts
from trainwright.linter.finding import Finding


def pod(line: str, above: str = "") -> str:
    return (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\nspec:\n  containers:\n    - name: train\n"
        f"      image: example.com/train:1\n      resources:\n        limits:\n{above}          {line}\n"
    )


def found(text: str, name: str = "a.yaml", **options: object) -> list[Finding]:
    return lint_texts({name: text}, Options(select=["TW0", "TW205", "TW1"], strict=True, **options))  # type: ignore[arg-type]


def rules(text: str, name: str = "a.yaml") -> list[str]:
    return [f.rule for f in found(text, name)]


def test_without_a_comment_the_defect_is_found() -> None:
    assert rules(pod("nvidia.com/gpus: 8")) == ["TW205"]


def test_a_comment_on_the_line_hides_what_it_names() -> None:
    assert rules(pod("nvidia.com/gpus: 8  # trainwright: ignore[TW205] our own plugin")) == []


def test_the_beginning_of_an_id_or_no_id_is_enough() -> None:
    assert rules(pod("nvidia.com/gpus: 8  # trainwright: ignore[TW2]")) == []
    assert rules(pod("nvidia.com/gpus: 8  # trainwright: ignore")) == []


def test_a_comment_on_its_own_line_covers_the_next_that_is_none() -> None:
    above = "          # trainwright: ignore[TW205] our own plugin\n          # and another remark\n"
    assert rules(pod("nvidia.com/gpus: 8", above)) == []


def test_a_comment_covers_no_other_line() -> None:
    assert rules("# trainwright: ignore[TW205]\n" + pod("nvidia.com/gpus: 8")) == ["TW006", "TW205"]


def test_another_id_hides_nothing_and_is_told() -> None:
    assert rules(pod("nvidia.com/gpus: 8  # trainwright: ignore[TW301]")) == ["TW205"]  # TW301 did not run
    assert sorted(rules(pod("nvidia.com/gpus: 8  # trainwright: ignore[TW101]"))) == ["TW006", "TW205"]


def test_a_file_can_be_left_alone() -> None:
    assert rules("# trainwright: ignore-file[TW205] generated\n" + pod("nvidia.com/gpus: 8")) == []


def test_a_comment_above_a_command_covers_its_continuation() -> None:
    script = (
        "#!/bin/bash\n#SBATCH --nodes=2\n{}srun torchrun \\\n  --nnodes=4 \\\n  --nproc-per-node=8 \\\n"
        '  --rdzv-backend=c10d --rdzv-endpoint="$(hostname)":29500 train.py\n'
    )
    before = rules(script.format(""), "a.sbatch")
    assert "TW101" in before
    after = rules(script.format("# trainwright: ignore[TW101] two jobs share this\n"), "a.sbatch")
    assert after == [rule for rule in before if rule != "TW101"]


def test_an_unknown_id_is_a_warning_at_the_comment_with_the_nearest_one() -> None:
    (warning,) = (f for f in found(pod("cpu: 8  # trainwright: ignore[TW2055] x")) if f.rule == "TW005")
    assert (warning.line, warning.column, warning.severity) == (10, 19, "warning")
    assert warning.quoted == "# trainwright: ignore[TW2055]"
    assert "TW205" in warning.instead


def test_an_unused_ignore_is_a_note() -> None:
    (note,) = found(pod("nvidia.com/gpu: 8  # trainwright: ignore[TW205] no longer needed"))
    assert (note.rule, note.severity, note.line) == ("TW006", "note", 10)


def test_words_about_the_comment_are_no_comment() -> None:
    assert rules("Write trainwright: ignore[TW9999] behind a hash.\n", "a.md") == []
    assert rules("Write `# trainwright: ignore-file[TW205]` there.\n", "a.md") == []

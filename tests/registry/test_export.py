"""Export: what training left and what ``from_pretrained`` loads give the same logits."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from registry_checks import logits, same
from trained_model import trained

from trainwright.checkpoints.failures import CheckpointFailed
from trainwright.checkpoints.resume import at_step
from trainwright.errors import AnswerNo, InputError
from trainwright.registry.export import export
from trainwright.registry.restore import restore
from trainwright.runs.folder import RunFolder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
Make = Callable[..., RunFolder]


def exported(run: RunFolder, target: Path, **more: Any) -> Any:
    return export(run, run.spec(), at_step(run.checkpoints, 5), target, **more)


def load(folder: Path, **more: Any) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, **more).eval()


def live(run: RunFolder) -> Any:
    return trained(run, run.spec(), 5)


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_all_weights_come_back_bit_for_bit(make_run: Make, tmp_path: Path, tied: bool) -> None:
    run = make_run({5: 2.0}, tied=tied)
    done = exported(run, tmp_path / "out")
    model = load(done.folder)
    assert torch.equal(logits(model), logits(live(run)))
    assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) == tied
    names = {path.name for path in done.folder.iterdir()}
    assert "model.safetensors" in names
    assert not {name for name in names if name.endswith((".bin", ".pt", ".distcp"))}, "no pickle, no optimizer"
    assert model.config.use_cache, "training's own settings do not stay in the config"


def test_an_export_imports_no_deepspeed_where_it_is_installed(
    make_run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = pytest.importorskip("accelerate.utils.other")
    monkeypatch.setattr(other, "is_deepspeed_available", lambda: True)
    monkeypatch.setitem(sys.modules, "deepspeed", None)  # an import of it is an error
    exported(make_run({5: 2.0}), tmp_path / "out")
    assert other.is_deepspeed_available(), "what accelerate had is put back"


def test_the_tokenizer_comes_along_unchanged(make_run: Make, tmp_path: Path) -> None:
    run = make_run({5: 2.0})
    folder = exported(run, tmp_path / "out").folder
    source = Path(run.spec().model.path)  # type: ignore[union-attr]
    assert (folder / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    words = transformers.AutoTokenizer.from_pretrained(folder)
    assert words.decode(words("the cat sat")["input_ids"]) == "the cat sat"


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_lora_is_written_merged_and_as_an_adapter(make_run: Make, tmp_path: Path, tied: bool) -> None:
    run = make_run({5: 2.0}, tied=tied, method="lora", lora={"rank": 4})
    done = exported(run, tmp_path / "out")
    reference = logits(live(run))
    base = load(Path(run.spec().model.path))  # type: ignore[union-attr]
    assert not same(logits(base), reference), "the adapter must change something"
    assert same(logits(load(done.folder)), reference)
    peft = pytest.importorskip("peft")
    adapted = peft.PeftModel.from_pretrained(base, done.folder / "adapter").eval()
    assert torch.equal(logits(adapted), reference)
    assert not done.adapter_only
    assert sorted(path.name for path in (done.folder / "adapter").iterdir()) == [
        "adapter_config.json", "adapter_model.safetensors",
    ]  # fmt: skip


def test_lora_without_merge_loads_through_its_base(make_run: Make, tmp_path: Path) -> None:
    run = make_run({5: 2.0}, method="lora", lora={"rank": 4})
    done = exported(run, tmp_path / "out", merge=False)
    assert done.adapter_only
    assert same(logits(load(done.folder)), logits(live(run)))
    config = json.loads((done.folder / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == run.spec().model.path  # type: ignore[union-attr]
    assert not (done.folder / "model.safetensors").exists()


def test_a_smaller_type_is_written_on_request(make_run: Make, tmp_path: Path) -> None:
    run = make_run({5: 2.0})
    done = exported(run, tmp_path / "out", dtype="bf16")
    model = load(done.folder, dtype="auto")
    assert (done.dtype, model.dtype) == ("bf16", torch.bfloat16)
    assert torch.allclose(logits(model.float()), logits(live(run)), atol=0.5)


def test_a_masked_model_is_exported_for_its_own_class(make_run: Make, tmp_path: Path) -> None:
    run = make_run({5: 2.0}, masked=True)
    folder = exported(run, tmp_path / "out").folder
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    assert torch.equal(logits(model), logits(live(run)))


def test_a_model_of_sentence_pairs_keeps_both_heads(make_run: Make, tmp_path: Path) -> None:
    run = make_run({5: 2.0}, masked=True, sentence_pairs=True)
    folder = exported(run, tmp_path / "out").folder
    both = transformers.AutoModelForPreTraining.from_pretrained(folder).eval()
    reference = live(run)
    rows = {"input_ids": torch.arange(1, 21)[None]}
    with torch.no_grad():
        assert torch.equal(both(**rows).seq_relationship_logits, reference(**rows).seq_relationship_logits)
        assert torch.equal(both(**rows).prediction_logits, reference(**rows).prediction_logits)
    masked = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    assert torch.equal(logits(masked), both(**rows).prediction_logits)


def test_the_specs_chat_template_replaces_the_tokenizers(make_run: Make, tmp_path: Path) -> None:
    (tmp_path / "chat.jinja").write_text("{{ messages[0]['content'] }}")
    values = {"data": {"sources": [str(tmp_path / "text")], "chat_template": str(tmp_path / "chat.jinja")}}
    run = make_run({5: 2.0}, **values)
    folder = exported(run, tmp_path / "out").folder
    words = transformers.AutoTokenizer.from_pretrained(folder)
    assert words.apply_chat_template([{"role": "user", "content": "the cat"}], tokenize=False) == "the cat"


def test_an_export_is_replaced_whole_and_nothing_else_is(make_run: Make, tmp_path: Path) -> None:
    run = make_run({5: 2.0}, method="lora", lora={"rank": 4})
    target = tmp_path / "out"
    exported(run, target)
    exported(run, target, merge=False)
    assert not (target / "model.safetensors").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="exists and is no exported model"):
        exported(run, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").is_file()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")], "nothing half-made is left"


def test_a_checkpoint_of_another_model_is_refused_by_name(make_run: Make, tmp_path: Path) -> None:
    run = make_run({5: 2.0}, method="lora", lora={"rank": 4})
    spec = run.spec().model_copy(update={"method": "full"})
    with pytest.raises(AnswerNo, match=r"lacks .*layers\.0"):
        restore(run, spec, at_step(run.checkpoints, 5))
    wider = run.spec().model_copy(update={"lora": run.spec().lora.model_copy(update={"rank": 8})})
    with pytest.raises(CheckpointFailed, match=r"does not fit this model: .*lora_A.* \[4, 48\] in it"):
        restore(run, wider, at_step(run.checkpoints, 5))

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.data import fingerprints, pool, tasks
from trainwright.data import prepare as preparing
from trainwright.data.manifest import Manifest
from trainwright.data.prepare import prepare
from trainwright.data.prepared import PreparedData
from trainwright.data.sequences import Sequences
from trainwright.data.tokenizer import Tokenizer
from trainwright.errors import AnswerNo, InputError, SystemUnreachable, TrainwrightError
from trainwright.spec.model import RunSpec
from trainwright.spec.write import to_yaml

SpecMaker = Callable[..., RunSpec]
Writer = Callable[..., Path]
EOS = "<|endoftext|>"
TALK = [{"role": "user", "content": "question"}, {"role": "assistant", "content": "answer"}]


def documents(sequences: Sequences, tokenizer: Tokenizer) -> list[str]:
    """Text of every document in a split; parts of one document are joined."""
    parts: dict[int, str] = {}
    for index, sequence in enumerate(sequences):
        for place, number in enumerate(sequences.documents(index)):
            ids = sequence.input_ids[sequence.document_ids == place].tolist()
            parts[number] = parts.get(number, "") + tokenizer.backend.decode(ids, skip_special_tokens=False)
    return [parts[number] for number in sorted(parts)]


def learnt(sequences: Sequences, tokenizer: Tokenizer) -> list[str]:
    """Text of the target tokens of each sequence."""
    return [tokenizer.backend.decode(s.input_ids[s.loss_mask].tolist(), skip_special_tokens=False) for s in sequences]


def numbered(count: int) -> list[dict[str, str]]:
    return [{"text": f"document number {number} " + "word " * (number % 7)} for number in range(count)]


class TestContent:
    def test_every_document_is_there_once_and_ends_with_the_end_token(
        self, make_spec: SpecMaker, write_jsonl: Writer, tokenizer: Tokenizer, tmp_path: Path
    ) -> None:
        rows = numbered(200)
        data = prepare(make_spec(write_jsonl(rows)), tmp_path / "cache")
        found = documents(data.train, tokenizer) + documents(data.eval, tokenizer)
        assert sorted(found) == sorted(row["text"] + EOS for row in rows)
        assert data.manifest.counts.documents == 200
        assert data.manifest.train.tokens == sum(len(s.input_ids) for s in data.train)

    def test_counts_are_those_of_the_shards(self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path) -> None:
        rows = numbered(100)
        manifest = prepare(make_spec(write_jsonl(rows)), tmp_path / "cache").manifest
        assert manifest.counts.rows == 100
        assert manifest.train.documents + manifest.eval.documents == 100
        assert manifest.train.bytes + manifest.eval.bytes == sum(len(row["text"].encode()) for row in rows)
        assert manifest.train.sequences + manifest.eval.sequences == sum(s.sequences for s in manifest.shards)
        assert manifest.train.target_tokens == manifest.train.tokens

    def test_a_completion_is_learnt_and_its_prompt_is_not(
        self, make_spec: SpecMaker, write_jsonl: Writer, tokenizer: Tokenizer, tmp_path: Path
    ) -> None:
        path = write_jsonl([{"prompt": "what is the capital?", "completion": " Paris"}])
        data = prepare(make_spec(path, eval_fraction=0), tmp_path / "cache")
        assert learnt(data.train, tokenizer) == [" Paris" + EOS]
        assert documents(data.train, tokenizer) == ["what is the capital? Paris" + EOS]
        assert data.manifest.train.target_bytes == len(" Paris")

    def test_a_conversation_teaches_the_assistant_turns(
        self, make_spec: SpecMaker, write_jsonl: Writer, tokenizer: Tokenizer, tmp_path: Path
    ) -> None:
        data = prepare(make_spec(write_jsonl([{"messages": TALK * 2}]), eval_fraction=0), tmp_path / "cache")
        assert learnt(data.train, tokenizer) == ["answer<|im_end|>answer<|im_end|>"]

    def test_rows_with_and_without_a_mask_share_a_shard(
        self, make_spec: SpecMaker, write_jsonl: Writer, tokenizer: Tokenizer, tmp_path: Path
    ) -> None:
        path = write_jsonl([{"text": "plain"}, {"prompt": "p", "completion": "c"}, {"text": "again"}])
        data = prepare(make_spec(path, eval_fraction=0, packing=False, shuffle=False), tmp_path / "cache")
        assert learnt(data.train, tokenizer) == ["plain" + EOS, "c" + EOS, "again" + EOS]

    def test_a_template_file_replaces_the_tokenizers_own(
        self, make_spec: SpecMaker, write_jsonl: Writer, tokenizer: Tokenizer, tmp_path: Path
    ) -> None:
        template = tmp_path / "t.jinja"
        template.write_text("{% for m in messages %}{{ m.role + '=' + m.content + '<|im_end|>' }}{% endfor %}")
        spec = make_spec(write_jsonl([{"messages": TALK}]), eval_fraction=0, chat_template=str(template))
        data = prepare(spec, tmp_path / "cache")
        assert documents(data.train, tokenizer) == ["user=question<|im_end|>assistant=answer<|im_end|>"]

    def test_without_packing_a_sequence_holds_one_document(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        data = prepare(make_spec(write_jsonl(numbered(20)), packing=False, eval_fraction=0), tmp_path / "cache")
        assert len(data.train) == 20
        assert all(sequence.document_ids.max() == 0 for sequence in data.train)

    def test_without_shuffle_documents_stay_in_order(
        self, make_spec: SpecMaker, write_jsonl: Writer, tokenizer: Tokenizer, tmp_path: Path
    ) -> None:
        rows = numbered(60)
        data = prepare(make_spec(write_jsonl(rows), shuffle=False, eval_fraction=0), tmp_path / "cache")
        shown = "".join(tokenizer.backend.decode(s.input_ids.tolist(), skip_special_tokens=False) for s in data.train)
        assert shown == "".join(row["text"] + EOS for row in rows)

    def test_a_long_text_is_split_and_nothing_is_lost(
        self, make_spec: SpecMaker, write_jsonl: Writer, tokenizer: Tokenizer, tmp_path: Path
    ) -> None:
        text = " ".join(f"word{number}" for number in range(400))
        data = prepare(make_spec(write_jsonl([{"text": text}]), eval_fraction=0), tmp_path / "cache")
        assert documents(data.train, tokenizer) == [text + EOS]
        assert all(len(sequence.input_ids) <= 64 for sequence in data.train)
        assert data.manifest.train.over_long == 1

    def test_several_sources_keep_apart_and_are_weighted(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        first = write_jsonl(numbered(30), "a.jsonl")
        second = write_jsonl([{"text": f"other {n}"} for n in range(30)], "b.jsonl")
        spec = make_spec(first, {"path": str(second), "weight": 3}, packing=False, eval_fraction=0)
        data = prepare(spec, tmp_path / "cache")
        assert data.train.source_counts == (30, 30)
        assert data.order(spec).epoch_length == 30 + 90
        assert [source.counts.documents for source in data.manifest.sources] == [30, 30]

    def test_a_limit_stops_reading_a_source(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("trainwright.data.encode._BATCH_ROWS", 10)
        path = write_jsonl([{"text": f"{number:010d}"} for number in range(100)])
        spec = make_spec({"path": str(path), "limit": "250B"}, eval_fraction=0)
        assert prepare(spec, tmp_path / "cache").manifest.train.documents == 30

    def test_plain_text_files_and_their_origin(
        self, make_spec: SpecMaker, tokenizer: Tokenizer, tmp_path: Path
    ) -> None:
        folder = tmp_path / "docs"
        folder.mkdir()
        for name in "abc":
            (folder / f"{name}.txt").write_text(f"this is {name}\n")
        data = prepare(make_spec(folder, packing=False, eval_fraction=0), tmp_path / "cache")
        assert documents(data.train, tokenizer) == [f"this is {name}\n{EOS}" for name in "abc"]
        assert data.train.origins(1) == ["b.txt"]

    def test_a_row_can_be_traced_to_its_line(self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path) -> None:
        spec = make_spec(write_jsonl(numbered(5)), packing=False, eval_fraction=0)
        assert prepare(spec, tmp_path / "cache").train.origins(3) == ["rows.jsonl:4"]

    def test_many_shards_read_as_one(
        self, make_spec: SpecMaker, write_jsonl: Writer, tokenizer: Tokenizer, tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        monkeypatch.setattr("trainwright.data.shard_writer.ShardWriter.__init__.__defaults__", (100,))
        rows = numbered(100)
        data = prepare(make_spec(write_jsonl(rows), eval_fraction=0), tmp_path / "cache")
        assert len(data.manifest.shards) > 5
        assert sorted(documents(data.train, tokenizer)) == sorted(row["text"] + EOS for row in rows)
        assert data.train[-1].index == len(data.train) - 1
        with pytest.raises(IndexError):
            data.train[len(data.train)]


def long_texts(folder: Path, files: int) -> Path:
    """Files of many paragraphs, each paragraph beginning with the number of its file."""
    folder.mkdir()
    for file in range(files):
        paragraphs = [f"file{file:02} paragraph {n} " + "word " * 30 for n in range(60)]
        (folder / f"{file}.txt").write_text("\n\n".join(paragraphs) + "\n")
    return folder


class TestSplitsAndDuplicates:
    def test_duplicates_are_dropped_and_counted(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        path = write_jsonl([*numbered(20), *numbered(20), {"text": "new"}])
        assert prepare(make_spec(path), tmp_path / "cache").manifest.counts.duplicates == 20
        kept = prepare(make_spec(path, drop_duplicates=False), tmp_path / "cache").manifest.counts
        assert (kept.duplicates, kept.documents) == (0, 41)

    def test_a_document_is_held_out_for_its_content_wherever_it_stands(
        self, make_spec: SpecMaker, write_jsonl: Writer, tokenizer: Tokenizer, tmp_path: Path
    ) -> None:
        rows = numbered(300)
        forward = prepare(make_spec(write_jsonl(rows), eval_fraction=0.2), tmp_path / "cache")
        backward = prepare(make_spec(write_jsonl(rows[::-1]), eval_fraction=0.2), tmp_path / "cache")
        assert forward.folder != backward.folder
        assert set(documents(forward.eval, tokenizer)) == set(documents(backward.eval, tokenizer))
        assert 40 <= forward.manifest.eval.documents <= 80
        assert not set(documents(forward.eval, tokenizer)) & set(documents(forward.train, tokenizer))

    def test_of_a_few_documents_one_is_held_out(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        manifest = prepare(make_spec(write_jsonl(numbered(4)), eval_fraction=0.001), tmp_path / "cache").manifest
        assert (manifest.train.documents, manifest.eval.documents) == (3, 1)

    def test_which_one_does_not_depend_on_the_order_of_the_sources(
        self, make_spec: SpecMaker, write_jsonl: Writer, tokenizer: Tokenizer, tmp_path: Path
    ) -> None:
        paths = [write_jsonl([{"text": f"{name} {n}"} for n in range(3)], f"{name}.jsonl") for name in "abcd"]
        found = set()
        for first in range(4):
            turned = [*paths[first:], *paths[:first]]
            data = prepare(make_spec(*turned, eval_fraction=0.001), tmp_path / "cache")
            assert (data.manifest.train.documents, data.manifest.eval.documents) == (11, 1)
            assert sum(data.train.source_counts) == len(data.train)
            assert [source.counts.documents for source in data.manifest.sources] == [3, 3, 3, 3]
            assert sorted(documents(data.train, tokenizer) + documents(data.eval, tokenizer)) == sorted(
                f"{name} {n}{EOS}" for name in "abcd" for n in range(3)
            )
            assert data.manifest.verify(data.folder) == []
            found.update(documents(data.eval, tokenizer))
        assert len(found) == 1

    def test_eval_sources_are_held_out_whole_and_never_trained_on(
        self, make_spec: SpecMaker, write_jsonl: Writer, tokenizer: Tokenizer, tmp_path: Path
    ) -> None:
        rows = numbered(50)
        train, held_out = write_jsonl(rows, "train.jsonl"), write_jsonl(rows[:5], "eval.jsonl")
        data = prepare(make_spec(train, eval_sources=[str(held_out)]), tmp_path / "cache")
        assert documents(data.eval, tokenizer) == [row["text"] + EOS for row in rows[:5]]
        assert data.manifest.train.documents == 45
        assert data.manifest.counts.duplicates == 5

    @pytest.mark.parametrize("fraction", [0.02, 0.2])
    def test_all_parts_of_a_text_file_are_on_one_side(
        self, make_spec: SpecMaker, tokenizer: Tokenizer, tmp_path: Path, fraction: float
    ) -> None:
        folder = long_texts(tmp_path / "texts", files=30)
        held_out = set()
        for length in (16, 64):
            spec = make_spec(folder, eval_fraction=fraction, _sequence_length=length)
            data = prepare(spec, tmp_path / "cache")
            train, out = (
                {text.split()[0] for text in documents(split, tokenizer) if text.split()}
                for split in (data.train, data.eval)
            )
            assert data.manifest.eval.documents > len(out), "several parts of a file, or the test proves nothing"
            assert not train & out
            held_out.add(frozenset(out))
        assert len(held_out) == 1, "what is held out depends on the sequence length"

    @pytest.mark.parametrize("files", [1, 2])
    def test_of_a_file_that_cannot_be_spared_the_end_is_held_out(
        self, make_spec: SpecMaker, tokenizer: Tokenizer, tmp_path: Path, files: int
    ) -> None:
        folder = long_texts(tmp_path / "texts", files=files)
        whole = {path.name: path.read_text() for path in folder.iterdir()}
        held_out = set()
        for length in (16, 64):
            spec = make_spec(folder, eval_fraction=0.1, drop_duplicates=False, shuffle=False, _sequence_length=length)
            data = prepare(spec, tmp_path / "cache")
            train, out = (
                "".join(tokenizer.backend.decode(s.input_ids.tolist()) for s in split)
                for split in (data.train, data.eval)
            )
            assert 0.05 < len(out) / (len(train) + len(out)) < 0.15
            ends = [text for text in whole.values() if text[-40:].strip() in out]
            assert len(ends) == files
            if files == 1:
                assert train + out == next(iter(whole.values()))
            held_out.add(out)
        assert len(held_out) == 1, "what is held out depends on the sequence length"

    def test_a_limit_does_not_leave_out_what_is_held_out(
        self, make_spec: SpecMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("trainwright.data.encode._BATCH_ROWS", 1)
        folder = long_texts(tmp_path / "texts", files=1)
        manifest = prepare(make_spec({"path": str(folder), "limit": "4KB"}), tmp_path / "cache").manifest
        assert 0 < manifest.eval.bytes < manifest.train.bytes < 6000


class TestProblems:
    def test_bad_rows_are_named_by_file_and_line(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        path = write_jsonl([{"text": "a"}, "{oops", {"text": "b"}, {"txt": "c"}])
        with pytest.raises(InputError) as caught:
            prepare(make_spec(path), tmp_path / "cache")
        said = str(caught.value)
        assert f"{path}:2: is no JSON" in said
        assert f"{path}:4: has txt" in said
        assert "2 of 4 rows are bad (50.00%); data.bad_rows allows 0.00%" in said

    def test_a_tolerated_share_of_bad_rows_is_counted_and_listed(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        path = write_jsonl([*numbered(9), "{oops"])
        manifest = prepare(make_spec(path, bad_rows=0.1), tmp_path / "cache").manifest
        assert (manifest.counts.rows, manifest.counts.bad_rows) == (10, 1)
        assert manifest.bad_rows[0].startswith(f"{path}:10: is no JSON")

    def test_data_found_ready_is_held_to_the_tolerance_of_this_spec(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        path = write_jsonl([*numbered(9), "{oops"])
        prepare(make_spec(path, bad_rows=0.1), tmp_path / "cache")
        with pytest.raises(InputError, match="1 of 10 rows are bad"):
            prepare(make_spec(path, bad_rows=0.05), tmp_path / "cache")

    def test_ten_bad_rows_are_listed_and_the_rest_counted(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        path = write_jsonl([*numbered(5), *["{oops"] * 25])
        with pytest.raises(InputError) as caught:
            prepare(make_spec(path, bad_rows=0.01), tmp_path / "cache")
        *listed, more, summary = str(caught.value).splitlines()
        assert sum("is no JSON" in line for line in listed) == 10
        assert more == "… and 15 more"
        assert f"the first: {path}:6: is no JSON" in summary, "a screen shows the last line of a stage alone"

    def test_lines_are_counted_on_over_the_parts_of_a_file(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("trainwright.data.readers.jsonl._SPAN_BYTES", 200)
        path = write_jsonl([*numbered(50), "{oops", *numbered(3), "{again"])
        with pytest.raises(InputError) as caught:
            prepare(make_spec(path), tmp_path / "cache")
        assert f"{path}:51:" in str(caught.value)
        assert f"{path}:55:" in str(caught.value)

    @pytest.mark.parametrize("policy", ["auto", "error"])
    def test_a_conversation_that_is_too_long_is_refused_with_its_line(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path, policy: str
    ) -> None:
        long = [{"role": "user", "content": "question " * 100}, {"role": "assistant", "content": "answer"}]
        path = write_jsonl([{"messages": TALK}, {"messages": long}])
        with pytest.raises(InputError) as caught:
            prepare(make_spec(path, over_long=policy), tmp_path / "cache")
        assert f"{path}:2:" in str(caught.value)
        assert "more than the 64 that fit in a sequence; raise sequence_length, or set data.over_long" in str(
            caught.value
        )

    def test_over_long_rows_can_be_truncated_split_or_dropped(
        self, make_spec: SpecMaker, write_jsonl: Writer, tokenizer: Tokenizer, tmp_path: Path
    ) -> None:
        row = {"prompt": "short", "completion": " word" * 200}
        path = write_jsonl([row, {"prompt": "a", "completion": "b"}])
        found = {
            policy: prepare(make_spec(path, over_long=policy, eval_fraction=0), tmp_path / "cache").manifest.train
            for policy in ("truncate", "split", "drop")
        }
        assert [found[policy].documents for policy in found] == [2, 2, 1]
        assert found["truncate"].tokens < found["split"].tokens
        assert found["truncate"].target_bytes < found["split"].target_bytes

    def test_truncation_that_leaves_nothing_to_learn_drops_the_row(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        path = write_jsonl([{"prompt": "word " * 200, "completion": "b"}, {"prompt": "a", "completion": "b"}])
        manifest = prepare(make_spec(path, over_long="truncate", eval_fraction=0), tmp_path / "cache").manifest
        assert (manifest.train.documents, manifest.counts.dropped) == (1, 1)

    def test_a_model_with_fewer_embeddings_than_tokens_is_refused(
        self, make_spec: SpecMaker, model: Path, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        small = tmp_path / "small"
        shutil.copytree(model, small)
        (small / "config.json").write_text('{"vocab_size": 300}')
        path = write_jsonl(numbered(5))
        with pytest.raises(InputError, match=r"vocab_size: is 300, but the tokenizer in .* has ids up to 399"):
            prepare(make_spec(path, _model=str(small)), tmp_path / "cache")
        prepare(make_spec(path), tmp_path / "cache")
        with pytest.raises(InputError, match="vocab_size: is 300"):  # also when the data is there already
            prepare(make_spec(path, _model={"path": str(small), "tokenizer": str(model)}), tmp_path / "cache")

    def test_a_folder_without_a_tokenizer_says_how_to_get_one(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        empty = tmp_path / "empty"
        empty.mkdir()
        with pytest.raises(InputError, match=r"holds no tokenizer.json; set model.tokenizer"):
            prepare(make_spec(write_jsonl(numbered(5)), _model=str(empty)), tmp_path / "cache")
        (empty / "tokenizer.model").write_text("")
        with pytest.raises(InputError, match="in an old format"):
            prepare(make_spec(write_jsonl(numbered(5)), _model=str(empty)), tmp_path / "cache")

    def test_a_conversation_without_any_template_says_so(
        self, make_spec: SpecMaker, model: Path, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        bare = tmp_path / "bare"
        shutil.copytree(model, bare)
        (bare / "tokenizer_config.json").write_text('{"eos_token": "<|endoftext|>"}')
        with pytest.raises(InputError, match=r"no chat template; set data.chat_template"):
            prepare(make_spec(write_jsonl([{"messages": TALK}]), _model=str(bare)), tmp_path / "cache")

    def test_a_broken_template_is_an_input_error(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        template = tmp_path / "t.jinja"
        template.write_text("{% if %}")
        with pytest.raises(InputError, match="line 1 of the chat template"):
            prepare(make_spec(write_jsonl([{"messages": TALK}]), chat_template=str(template)), tmp_path / "cache")
        with pytest.raises(InputError, match="no such file"):
            prepare(make_spec(write_jsonl(numbered(2)), chat_template="/nowhere.jinja"), tmp_path / "cache")

    def test_empty_data_is_refused(self, make_spec: SpecMaker, tmp_path: Path) -> None:
        path = tmp_path / "empty.jsonl"
        path.write_text("\n\n")
        with pytest.raises(InputError, match="0 rows give no document to train on"):
            prepare(make_spec(path), tmp_path / "cache")

    def test_one_document_cannot_be_both_trained_on_and_held_out(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        with pytest.raises(InputError, match=r"no document to hold out.*set data.eval_fraction: 0"):
            prepare(make_spec(write_jsonl(numbered(1))), tmp_path / "cache")

    def test_every_missing_source_is_named_at_once(self, make_spec: SpecMaker, tmp_path: Path) -> None:
        with pytest.raises(InputError) as caught:
            prepare(make_spec(tmp_path / "a", tmp_path / "b"), tmp_path / "cache")
        assert [problem.field for problem in caught.value.problems] == ["data.sources.0", "data.sources.1"]

    def test_a_hub_data_set_that_cannot_be_reached_says_what_to_do(
        self, make_spec: SpecMaker, tmp_path: Path
    ) -> None:
        with pytest.raises(SystemUnreachable, match="nobody/nothing"):
            prepare(make_spec("nobody/nothing"), tmp_path / "cache")

    def test_a_file_that_changes_while_it_is_read_is_refused(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write_jsonl(numbered(5))
        original = preparing.run_tasks

        def touching(*arguments: Any) -> Any:
            with path.open("a") as handle:
                handle.write('{"text": "late"}\n')
            return original(*arguments)

        monkeypatch.setattr(preparing, "run_tasks", touching)
        with pytest.raises(InputError, match="changed while it was read"):
            prepare(make_spec(path), tmp_path / "cache")
        assert list((tmp_path / "cache").glob("*/manifest.json")) == []


class TestCache:
    def test_unchanged_inputs_are_neither_read_nor_tokenised_again(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write_jsonl(numbered(5))
        long_ago = time.time() - 100
        os.utime(path, (long_ago, long_ago))
        monkeypatch.setattr(fingerprints, "_SETTLED_NS", -(10**9))  # ctime cannot be set back
        first = prepare(make_spec(path), tmp_path / "cache")
        for name in ("run_tasks", "tasks_of"):
            monkeypatch.setattr(preparing, name, None)
        monkeypatch.setattr(fingerprints, "sha256_of", None)
        assert prepare(make_spec(path), tmp_path / "cache").folder == first.folder

    def test_a_file_changed_just_now_is_hashed_again(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        first = prepare(make_spec(write_jsonl([{"text": "aaaa"}]), eval_fraction=0), tmp_path / "cache")
        second = prepare(make_spec(write_jsonl([{"text": "bbbb"}]), eval_fraction=0), tmp_path / "cache")
        assert first.folder != second.folder

    @pytest.mark.parametrize(
        "change",
        [
            {"_sequence_length": 32}, {"packing": False}, {"eval_fraction": 0.5}, {"over_long": "drop"},
            {"drop_duplicates": False}, {"shuffle": False},
        ],
    )  # fmt: skip
    def test_what_changes_the_content_changes_the_folder(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path, change: dict[str, Any]
    ) -> None:
        path = write_jsonl(numbered(10))
        base = prepare(make_spec(path), tmp_path / "cache")
        assert prepare(make_spec(path, **change), tmp_path / "cache").folder != base.folder

    def test_what_does_not_change_the_content_finds_the_same_folder(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        path = write_jsonl(numbered(10))
        base = prepare(make_spec(path), tmp_path / "cache")
        again = make_spec({"path": str(path), "weight": 2}, workers=1, _seed=7, _global_batch_size=16)
        assert prepare(again, tmp_path / "cache").folder == base.folder
        elsewhere = tmp_path / "copy" / path.name
        elsewhere.parent.mkdir()
        shutil.copy(path, elsewhere)
        assert prepare(make_spec(elsewhere), tmp_path / "cache").folder == base.folder

    def test_another_tokenizer_is_other_data(
        self, make_spec: SpecMaker, model: Path, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        path = write_jsonl(numbered(10))
        base = prepare(make_spec(path), tmp_path / "cache")
        other = tmp_path / "other"
        shutil.copytree(model, other)
        config = json.loads((other / "tokenizer_config.json").read_text())
        (other / "tokenizer_config.json").write_text(json.dumps({**config, "eos_token": "<|im_end|>"}))
        changed = prepare(make_spec(path, _model=str(other)), tmp_path / "cache")
        assert changed.folder != base.folder
        assert changed.manifest.tokenizer.sha256 != base.manifest.tokenizer.sha256

    def test_a_run_refuses_data_that_it_was_not_prepared_with(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
    ) -> None:
        data = prepare(make_spec(write_jsonl(numbered(10))), tmp_path / "cache")
        record = tmp_path / "data.json"
        record.write_text(json.dumps({"folder": str(data.folder), "digest": data.manifest.digest}))
        assert PreparedData.of_run(record).folder == data.folder
        record.write_text(json.dumps({"folder": str(data.folder), "digest": "other"}))
        with pytest.raises(AnswerNo, match="is not the data that this run was prepared with"):
            PreparedData.of_run(record)
        with pytest.raises(InputError, match="run `trainwright prepare` first"):
            PreparedData.of_run(tmp_path / "none.json")


class TestWorkers:
    def test_processes_give_the_same_bytes_as_one(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(preparing, "_ALONE_BYTES", 0)
        monkeypatch.setattr("trainwright.data.readers.jsonl._SPAN_BYTES", 1000)
        monkeypatch.setattr(tasks, "_TASK_BYTES", 1000)
        path = write_jsonl([*numbered(300), {"prompt": "a", "completion": "b"}])
        alone = prepare(make_spec(path, workers=1), tmp_path / "one")
        several = prepare(make_spec(path, workers=2), tmp_path / "two")
        assert alone.manifest == several.manifest
        assert several.verify() == []

    def test_a_worker_that_dies_is_reported(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(preparing, "_ALONE_BYTES", 0)
        monkeypatch.setattr(pool, "_COMMAND", ("-c", "import os; os.kill(os.getpid(), 9)"))
        monkeypatch.setattr(tasks, "_TASK_BYTES", 10)
        paths = [write_jsonl(numbered(5), f"{name}.jsonl") for name in "ab"]
        with pytest.raises(TrainwrightError, match=r"ended by signal 9.*set data.workers to a smaller number"):
            prepare(make_spec(*paths, workers=2), tmp_path / "cache")

    def test_a_full_disk_is_the_machines_answer(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(preparing, "_write", full)
        with pytest.raises(SystemUnreachable, match="No space left on device; free some space"):
            prepare(make_spec(write_jsonl(numbered(4))), tmp_path / "cache")

    @pytest.mark.parametrize("workers", [1, 2])
    @pytest.mark.parametrize("damage", ["cut", "flipped", "longer"])
    def test_a_damaged_archive_is_named(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path, workers: int, damage: str
    ) -> None:
        whole = gzip.compress(b"".join(b'{"text": "words %d"}\n' % n for n in range(500)), mtime=0)
        middle = len(whole) // 2
        spoiled = {
            "cut": whole[:middle],
            "flipped": whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :],
            "longer": whole + b"more",
        }
        path = tmp_path / "a.jsonl.gz"
        path.write_bytes(spoiled[damage])
        sound = write_jsonl(numbered(4))
        with pytest.raises(InputError, match=r"a\.jsonl\.gz"):
            prepare(make_spec(path, sound, workers=workers), tmp_path / "cache")

    def test_what_goes_wrong_in_a_worker_reaches_the_user(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(preparing, "_ALONE_BYTES", 0)
        monkeypatch.setattr(tasks, "_TASK_BYTES", 10)
        path = write_jsonl(numbered(5))
        gone = write_jsonl(numbered(5), "gone.jsonl")
        original = preparing.run_tasks

        def removing(*arguments: Any) -> Any:
            gone.unlink()
            return original(*arguments)

        monkeypatch.setattr(preparing, "run_tasks", removing)
        with pytest.raises(TrainwrightError, match=r"gone.jsonl"):
            prepare(make_spec(path, gone, workers=2), tmp_path / "cache")

    def test_a_limit_ends_the_other_workers_too(
        self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(preparing, "_ALONE_BYTES", 0)
        monkeypatch.setattr("trainwright.data.readers.jsonl._SPAN_BYTES", 100)
        monkeypatch.setattr(tasks, "_TASK_BYTES", 100)
        path = write_jsonl([{"text": f"{number:010d}"} for number in range(500)])
        other = write_jsonl(numbered(10), "other.jsonl")
        spec = make_spec({"path": str(path), "limit": "100B"}, other, workers=2, eval_fraction=0)
        sources = prepare(spec, tmp_path / "cache").manifest.sources
        assert 10 <= sources[0].counts.documents < 20
        assert sources[1].counts.documents == 10

    def test_progress_ends_at_the_whole(self, make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path) -> None:
        told: list[tuple[str, int, int | None]] = []
        prepare(make_spec(write_jsonl(numbered(500))), tmp_path / "cache", lambda *step: told.append(step))
        assert told[-1][0] == "tokenise (kB)"
        assert told[-1][1] == told[-1][2]

    def test_a_containers_cpu_limit_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
        monkeypatch.setattr(Path, "read_text", lambda _: "400000 100000\n")
        assert pool.available_cores() == 4
        monkeypatch.setattr(Path, "read_text", lambda _: "max 100000\n")
        assert pool.available_cores() == 64


def test_memory_maps_are_little_endian_whatever_the_machine(
    make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path
) -> None:
    data = prepare(make_spec(write_jsonl(numbered(5)), eval_fraction=0), tmp_path / "cache")
    raw = np.fromfile(data.folder / "train-000-00000.tokens", "<u2")
    assert raw[: len(data.train[0].input_ids)].tolist() == data.train[0].input_ids.tolist()
    assert Manifest.read(data.folder).token_type == "uint16"


SLOW_PARENT = """
import sys, time
from pathlib import Path
from trainwright.data import pool, prepare, tasks
from trainwright.spec.load import read_resolved
prepare._ALONE_BYTES, tasks._TASK_BYTES = 0, 10
start = pool._start
def telling():
    process = start()
    print(process.pid, flush=True)
    return process
pool._start = telling
block = lambda what, done, total: what == "hash (kB)" or time.sleep(60)  # once the workers are there
prepare.prepare(read_resolved(sys.argv[1]), Path(sys.argv[2]), block)
"""


def test_workers_end_with_a_parent_that_is_killed(make_spec: SpecMaker, write_jsonl: Writer, tmp_path: Path) -> None:
    spec = make_spec(*(write_jsonl(numbered(5), f"{name}.jsonl") for name in "abcd"), workers=2)
    (tmp_path / "spec.yaml").write_text(to_yaml(spec.to_dict()))
    command = [sys.executable, "-c", SLOW_PARENT, str(tmp_path / "spec.yaml"), str(tmp_path / "cache")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(parent.stdout.readline()) for _ in range(2)]
        assert all(Path(f"/proc/{pid}").exists() for pid in workers)
        parent.kill()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)

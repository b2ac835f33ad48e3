from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.data.batch import Batch
from trainwright.data.masked import MaskedObjective
from trainwright.data.objectives import objective
from trainwright.data.prepare import prepare
from trainwright.data.prepared import PreparedData
from trainwright.data.tokenizer import Tokenizer
from trainwright.data.vocabulary import ENDS_SENTENCE, JOINS, OPEN, SPECIAL, flags_of
from trainwright.errors import InputError
from trainwright.spec.model import Masked, RunSpec

SpecMaker = Callable[..., RunSpec]
PAD, UNK, CLS, SEP, MASK = range(5)
WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "dog",
    "one",
    "two",
    "three",
    "four",
    "words",
    "question",
    "answer",
]


def sentences(document: int, count: int) -> str:
    chosen = np.random.default_rng(document)
    return " ".join(" ".join(chosen.choice(WORDS, 5)) + f" {document}." for _ in range(count))


@pytest.fixture
def prepared(
    make_spec: SpecMaker, encoder_model: Path, write_jsonl: Callable[..., Path], tmp_path: Path
) -> Callable[..., tuple[PreparedData, RunSpec]]:
    def make(count: int = 60, length: int = 6, **masked: Any) -> tuple[PreparedData, RunSpec]:
        path = write_jsonl([{"text": sentences(number, length)} for number in range(count)])
        spec = make_spec(path, _model=str(encoder_model), _objective="masked", _masked=masked)
        return prepare(spec, tmp_path / "cache"), spec

    return make


def all_batches(data: PreparedData, spec: RunSpec, epochs: int = 1) -> tuple[Batch, np.ndarray[Any, Any]]:
    """One batch of every training sequence, some epochs in a row, and the ids before masking."""
    make = objective(spec, data, pad_to=64)
    sequences = list(data.train) * epochs
    batch = make(sequences, np.arange(len(sequences)))
    original = np.full(batch.input_ids.shape, PAD)
    for row, sequence in enumerate(sequences):
        original[row, : len(sequence.input_ids)] = sequence.input_ids
    return batch, original


def test_every_document_stands_between_cls_and_sep(prepared: Callable[..., Any]) -> None:
    data, _ = prepared()
    for sequence in data.train:
        for document in range(sequence.document_ids.max() + 1):
            ids = sequence.input_ids[sequence.document_ids == document]
            assert (ids[0], ids[-1]) == (CLS, SEP)
            assert not set(ids[1:-1].tolist()) & {CLS, SEP}


def test_parts_of_a_long_document_each_stand_between_cls_and_sep(prepared: Callable[..., Any]) -> None:
    data, _ = prepared(count=4, length=60)
    assert data.manifest.train.over_long >= 3
    assert all(len(s.input_ids) <= 64 and s.input_ids[0] == CLS and s.input_ids[-1] == SEP for s in data.train)


def test_labels_hold_the_hidden_tokens_and_nothing_else(prepared: Callable[..., Any]) -> None:
    batch, original = all_batches(*prepared())
    chosen = batch.labels != -100
    assert (batch.labels[chosen] == original[chosen]).all()
    assert (batch.input_ids[~chosen] == original[~chosen]).all()
    assert not np.isin(original[chosen], [CLS, SEP, PAD]).any()


@pytest.mark.parametrize("whole_words", [True, False])
def test_about_fifteen_percent_are_chosen_and_fare_80_10_10(prepared: Callable[..., Any], whole_words: bool) -> None:
    batch, original = all_batches(*prepared(whole_words=whole_words), epochs=40)
    candidates = ~np.isin(original, [CLS, SEP, PAD, UNK])
    chosen = batch.labels != -100
    assert chosen.sum() / candidates.sum() == pytest.approx(0.15, abs=0.01)
    now, before = batch.input_ids[chosen], original[chosen]
    assert (now == MASK).mean() == pytest.approx(0.8, abs=0.02)
    assert (now == before).mean() == pytest.approx(0.1, abs=0.02)
    random = now[(now != MASK) & (now != before)]
    assert len(np.unique(random)) > 50
    assert not np.isin(random, [0, 1, 2, 3, 4]).any()


def test_whole_words_are_chosen_whole(prepared: Callable[..., Any]) -> None:
    data, spec = prepared(whole_words=True)
    batch, original = all_batches(data, spec, epochs=10)
    tokenizer = Tokenizer.load(Path(spec.model.path))
    continues = np.array(
        [(tokenizer.backend.id_to_token(number) or "").startswith("##") for number in range(tokenizer.record.size)]
    )[original]
    chosen = batch.labels != -100
    assert continues[:, 1:][chosen[:, 1:]].sum() > 20
    assert (chosen[:, 1:] == chosen[:, :-1])[continues[:, 1:] & (original[:, :-1] != CLS)].all()


def test_single_tokens_are_chosen_one_by_one(prepared: Callable[..., Any]) -> None:
    data, spec = prepared(whole_words=False)
    batch, original = all_batches(data, spec, epochs=10)
    tokenizer = Tokenizer.load(Path(spec.model.path))
    flags = flags_of(tokenizer)[original]
    chosen = batch.labels != -100
    assert (chosen[:, 1:] != chosen[:, :-1])[flags[:, 1:] & JOINS != 0].any()


def test_masks_change_from_epoch_to_epoch_and_not_with_the_batch(prepared: Callable[..., Any]) -> None:
    data, spec = prepared()
    make = objective(spec, data, pad_to=64)
    together = make([data.train[0], data.train[1]], np.array([10, 11]))
    alone = make([data.train[1]], np.array([11]))
    later = make([data.train[1]], np.array([500]))
    assert together.labels[1].tolist() == alone.labels[0].tolist()
    assert together.input_ids[1].tolist() == alone.input_ids[0].tolist()
    assert later.labels.tolist() != alone.labels.tolist()


def test_evaluation_masks_a_sequence_alike_every_time(prepared: Callable[..., Any]) -> None:
    data, spec = prepared()
    make = objective(spec, data, "eval")
    assert make([data.eval[0]]).labels.tolist() == make([data.eval[0]]).labels.tolist()


def test_every_sequence_teaches_something(prepared: Callable[..., Any]) -> None:
    data, spec = prepared(probability=0.001)
    batch, _ = all_batches(data, spec)
    assert (batch.labels != -100).any(axis=1).all()


class TestSentencePairs:
    def test_a_pair_is_cls_a_sep_b_sep_with_its_types(self, prepared: Callable[..., Any]) -> None:
        data, spec = prepared(sentence_pairs=True, probability=1e-9)
        make = objective(spec, data)
        for number, sequence in enumerate(data.train):
            batch = make([sequence], np.array([number]))
            original = np.where(batch.labels != -100, batch.labels, batch.input_ids)[0]
            ends = np.flatnonzero(original == SEP)
            assert original[0] == CLS
            assert len(ends) == 2
            assert ends[1] == len(original) - 1
            assert batch.token_type_ids is not None
            assert batch.token_type_ids[0].tolist() == [0] * (ends[0] + 1) + [1] * (ends[1] - ends[0])
            assert (batch.document_ids == 0).all()
            assert len(original) <= 64

    def test_half_of_the_second_segments_follow_and_half_are_of_another_document(
        self, prepared: Callable[..., Any], encoder_model: Path
    ) -> None:
        data, spec = prepared(count=80, sentence_pairs=True, probability=1e-9)
        backend = Tokenizer.load(encoder_model).backend
        make = objective(spec, data)
        random = []
        for number, sequence in enumerate(list(data.train) * 4):
            batch = make([sequence], np.array([number]))
            ids = np.where(batch.labels != -100, batch.labels, batch.input_ids)[0]
            assert batch.token_type_ids is not None
            assert batch.next_sentence_labels is not None
            kinds = batch.token_type_ids[0]
            first, second = (set(backend.decode(ids[kinds == kind].tolist()).split()) for kind in (0, 1))
            is_random = bool(batch.next_sentence_labels[0])
            random.append(is_random)
            own, others = {w for w in first if w.isdigit()}, {w for w in second if w.isdigit()}
            if own and others:  # each sentence names its document
                assert (own != others) is is_random
        assert np.mean(random) == pytest.approx(0.5, abs=0.1)

    def test_segments_begin_and_end_with_sentences(self, prepared: Callable[..., Any], encoder_model: Path) -> None:
        data, spec = prepared(sentence_pairs=True, probability=1e-9)
        backend = Tokenizer.load(encoder_model).backend
        make = objective(spec, data)
        batch = make([data.train[0]], np.array([0]))
        ids = np.where(batch.labels != -100, batch.labels, batch.input_ids)[0]
        assert batch.token_type_ids is not None
        assert backend.decode(ids[batch.token_type_ids[0] == 0].tolist()).rstrip().endswith(".")

    def test_one_document_alone_gives_no_random_pairs(self, prepared: Callable[..., Any]) -> None:
        data, spec = prepared(count=2, length=2, sentence_pairs=True)
        make = objective(spec, data)
        assert len(data.train) == 1
        labels = [make([data.train[0]], np.array([n])).next_sentence_labels for n in range(20)]
        assert all(label is not None and label[0] == 0 for label in labels)

    def test_no_pair_is_longer_than_a_sequence(self, prepared: Callable[..., Any]) -> None:
        data, spec = prepared(count=20, length=40, sentence_pairs=True)
        make = objective(spec, data, pad_to=64)
        assert make(list(data.train)).input_ids.shape == (len(data.train), 64)


def test_a_tokenizer_without_a_mask_token_is_refused(
    make_spec: SpecMaker, write_jsonl: Callable[..., Path], tmp_path: Path
) -> None:
    spec = make_spec(write_jsonl([{"text": "a"}]), _objective="masked")
    with pytest.raises(InputError, match="has no mask_token, which objective: masked needs"):
        prepare(spec, tmp_path / "cache")
    pairs = make_spec(write_jsonl([{"text": "a"}]), _objective="masked", _masked={"sentence_pairs": True})
    with pytest.raises(InputError, match="has no mask_token, cls_token, sep_token"):
        prepare(pairs, tmp_path / "cache")


def test_conversations_are_no_data_for_a_masked_model(
    make_spec: SpecMaker, encoder_model: Path, write_jsonl: Callable[..., Path], tmp_path: Path
) -> None:
    spec = make_spec(
        write_jsonl([{"prompt": "a", "completion": "b"}]), _objective="masked", _model=str(encoder_model)
    )
    with pytest.raises(InputError, match="learns from plain text alone"):
        prepare(spec, tmp_path / "cache")


def test_causal_and_masked_objectives_read_the_same_kind_of_shards(prepared: Callable[..., Any]) -> None:
    data, spec = prepared()
    causal = objective(spec.model_copy(update={"objective": "causal"}), data, pad_to=64)
    batch = causal([data.train[0]])
    assert batch.labels[0, 0] == data.train[0].input_ids[1]


class TestVocabulary:
    def test_word_piece_tokens_say_themselves_whether_they_continue(self, encoder_model: Path) -> None:
        tokenizer = Tokenizer.load(encoder_model)
        flags = flags_of(tokenizer)
        for token, number in tokenizer.backend.get_vocab().items():
            assert bool(flags[number] & JOINS) is token.startswith("##"), token
        assert flags[CLS] == flags[MASK] == SPECIAL
        assert flags[tokenizer.backend.token_to_id(".")] & ENDS_SENTENCE
        assert not flags[tokenizer.backend.token_to_id(",")] & ENDS_SENTENCE

    def test_byte_level_words_begin_at_spaces_and_at_punctuation(self, tokenizer: Tokenizer) -> None:
        flags = flags_of(tokenizer)
        text = "words, (more) words again! 日本"
        encoding = tokenizer.backend.encode(text)
        begins = [
            start
            for place, (start, _) in enumerate(encoding.offsets)
            if not (place and flags[encoding.ids[place]] & JOINS and flags[encoding.ids[place - 1]] & OPEN)
        ]
        spelled = [text[a:b].strip() for a, b in zip(begins, [*begins[1:], len(text)], strict=True)]
        assert [word for word in spelled if word] == ["words", ",", "(", "more", ")", "words", "again", "!", "日本"]


def test_the_settings_are_those_of_the_spec(prepared: Callable[..., Any]) -> None:
    data, spec = prepared(probability=0.3)
    make = objective(spec, data)
    assert isinstance(make, MaskedObjective)
    assert make.settings == Masked(probability=0.3)
    assert replace(make, seed=make.seed + 1)([data.train[0]]).labels.tolist() != make([data.train[0]]).labels.tolist()

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.data.pack import Packer, Piece, best_fit, cut, in_order, wrap


def piece(length: int, document: int = 0) -> Piece:
    return Piece(np.arange(length, dtype=np.uint32), None, document, 0, 0)


lengths = st.lists(st.integers(1, 50), max_size=80)


@given(lengths)
@settings(max_examples=60, deadline=None)
def test_best_fit_keeps_every_document_whole_and_within_the_length(sizes: list[int]) -> None:
    sequences = best_fit([piece(size, number) for number, size in enumerate(sizes)], 50)
    assert all(sum(len(p.ids) for p in sequence) <= 50 for sequence in sequences)
    assert sorted(p.document for sequence in sequences for p in sequence) == list(range(len(sizes)))


@given(lengths)
@settings(max_examples=60, deadline=None)
def test_best_fit_leaves_no_two_sequences_that_would_fit_in_one(sizes: list[int]) -> None:
    filled = sorted(sum(len(p.ids) for p in sequence) for sequence in best_fit([piece(s) for s in sizes], 50))
    assert len(filled) < 2 or filled[0] + filled[1] > 50


def test_best_fit_finds_the_perfect_fit_that_next_fit_misses() -> None:
    pieces = [piece(size) for size in (6, 6, 4, 4)]
    assert len(best_fit(pieces, 10)) == 2
    assert len(list(in_order(pieces, 10))) == 3


def test_best_fit_leaves_little_room_in_ordinary_data() -> None:
    sizes = np.random.default_rng(0).integers(1, 1024, 3000)
    sequences = best_fit([piece(int(size)) for size in sizes], 1024)
    assert sum(sizes) / (len(sequences) * 1024) > 0.97


@given(lengths)
@settings(max_examples=40, deadline=None)
def test_in_order_never_changes_the_order(sizes: list[int]) -> None:
    sequences = list(in_order([piece(size, number) for number, size in enumerate(sizes)], 50))
    assert [p.document for sequence in sequences for p in sequence] == list(range(len(sizes)))
    assert all(sum(len(p.ids) for p in sequence) <= 50 for sequence in sequences)


def test_without_packing_every_piece_is_a_sequence() -> None:
    packer = Packer(50, packing=False, keep_order=False)
    assert [len(packer.add(piece(3))) for _ in range(3)] == [1, 1, 1]  # type: ignore[arg-type]
    assert list(packer.finish()) == []


def test_cut_keeps_all_tokens_and_the_mask() -> None:
    whole = Piece(np.arange(10, dtype=np.uint32), np.arange(10).astype(np.uint8) % 2, 3, 1, 2)
    parts = cut(whole, 4)
    assert [len(part.ids) for part in parts] == [4, 4, 2]
    assert np.concatenate([part.ids for part in parts]).tolist() == list(range(10))
    assert np.concatenate([part.loss for part in parts]).tolist() == [0, 1] * 5  # type: ignore[arg-type]
    assert {(part.document, part.file, part.line) for part in parts} == {(3, 1, 2)}


def test_wrap_puts_tokens_around() -> None:
    assert wrap(piece(2), [9], [8, 7]).ids.tolist() == [9, 0, 1, 8, 7]

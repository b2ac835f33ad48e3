from __future__ import annotations

from typing import Any

import pytest

from trainwright.data.rows import Completion, Conversation, RowError, Text, content, key

TURNS = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"text": "a", "id": 3}, Text("a")),
        ({"prompt": "a", "completion": "b"}, Completion("a", "b")),
        ({"prompt": "", "completion": "b"}, Completion("", "b")),
        ({"messages": TURNS}, Conversation(TURNS)),
        ({"messages": TURNS, "tools": [{"name": "f"}]}, Conversation(TURNS, [{"name": "f"}])),
        ({"text": "a", "messages": TURNS}, Text("a")),
    ],
)
def test_the_kind_of_a_row_follows_from_its_fields(row: Any, expected: Any) -> None:
    assert content(row) == expected


def test_a_named_field_may_hold_text_or_messages() -> None:
    assert content({"body": "a", "text": "b"}, "body") == Text("a")
    assert content({"turns": TURNS}, "turns") == Conversation(TURNS)


@pytest.mark.parametrize(
    ("row", "field", "why"),
    [
        ([1], None, "is a JSON list, not an object"),
        (None, None, "is a JSON null"),
        ({"txt": "a"}, None, "has txt; text, prompt and completion, or messages is needed"),
        ({}, None, "has no fields"),
        ({"text": 3}, None, "field text is a number, not a text"),
        ({"text": ""}, None, "field text is empty"),
        ({"text": "\ud800"}, None, "half of a surrogate pair at character 0"),
        ({"prompt": "a", "completion": ""}, None, "field completion is empty"),
        ({"text": "a"}, "tezt", "has no field tezt; did you mean text?"),
        ({"messages": []}, None, "an empty one"),
        ({"messages": ["hi"]}, None, "message 1 is no object with role and content"),
        ({"messages": [*TURNS, {"role": "user", "content": 5}]}, None, "message 3: content is a number"),
        ({"messages": TURNS[:1]}, None, "no assistant turn"),
    ],
)
def test_a_bad_row_says_what_is_wrong(row: Any, field: str | None, why: str) -> None:
    with pytest.raises(RowError) as caught:
        content(row, field)
    assert why in str(caught.value)


def test_keys_are_equal_for_equal_content_alone() -> None:
    assert key(Text("a")) == key(Text("a"))
    different = [
        Text("a"), Text("b"), Completion("a", "b"), Completion("ab", ""), Completion("", "ab"), Conversation(TURNS),
        Conversation(TURNS, [{"name": "f"}]), Conversation(TURNS[::-1]),
    ]  # fmt: skip
    assert len({key(value) for value in different}) == len(different)


def test_the_order_of_keys_in_a_message_does_not_matter() -> None:
    swapped = [dict(reversed(turn.items())) for turn in TURNS]
    assert key(Conversation(TURNS)) == key(Conversation(swapped))

"""What is written as YAML reads back to the same values, whatever is in them and whoever reads."""

from __future__ import annotations

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from trainwright.spec.write import to_yaml
from trainwright.spec.yaml_reader import read_text

#: What YAML can hold at all: no surrogates, and of the control characters those that it can escape.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(TEXT)
@example("\x85")
@example("a\u2028b\n\u2029")
@example("on\n\x85")
@example("\r\n \t")
def test_every_text_reads_back(text: str) -> None:
    written = to_yaml({"args": [text], "env": {"A": text}})
    for found in (yaml.safe_load(written), read_text(written, "x").value):
        assert found == {"args": [text], "env": {"A": text}}

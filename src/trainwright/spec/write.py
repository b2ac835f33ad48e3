"""Write plain values as YAML that reads back to the same values under YAML 1.1 and 1.2 alike."""

from __future__ import annotations

import re
from typing import Any

import yaml

from trainwright.spec.model import RunSpec
from trainwright.spec.yaml_reader import CoreLoader

#: Line breaks of YAML 1.1 and not of 1.2: a reader of the one loses them where they are not escaped.
_OTHER_BREAKS = re.compile("[\x85\u2028\u2029]")


class _Dumper(yaml.SafeDumper):
    """Quotes every text that either YAML version would take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.yaml_implicit_resolvers = {
    first: yaml.SafeDumper.yaml_implicit_resolvers.get(first, []) + CoreLoader.yaml_implicit_resolvers.get(first, [])
    for first in {*yaml.SafeDumper.yaml_implicit_resolvers, *CoreLoader.yaml_implicit_resolvers}
}


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    """Quote what one of the two versions would read as a number, a truth value or nothing."""
    kinds = {pattern.match(text) is not None for _, pattern in _Dumper.yaml_implicit_resolvers.get(text[:1], [])}
    style = '"' if True in kinds or _OTHER_BREAKS.search(text) else ("|" if "\n" in text else None)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def to_yaml(values: Any) -> str:
    """Deterministic block-style YAML, keys in the order given, long lines unbroken."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096)


def spec_to_yaml(spec: RunSpec) -> str:
    """The resolved spec: every field present, so that later defaults never change an old run."""
    return to_yaml(spec.to_dict())

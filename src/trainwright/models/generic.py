"""A transformer described by text: ``hidden=4096,layers=32,heads=32,vocab=128256`` or just ``params=7B``.

Takes what a person typed and gives a ``ModelShape``; every value that was not given is filled in and said in the
shape's notes. It must not know machines or files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.models.config import MOST_LAYERS
from trainwright.models.shape import MixtureOfExperts, ModelShape, Norm, Positions

DEFAULT_VOCAB = 32_000
#: Width ÷ depth of a model given by its parameters alone: Llama 2 7B has 4096 ÷ 32.
ASPECT = 128
HEAD_DIM = 128
#: A published "18.4B" is rounded: the counted parameters may differ from it by this much before it is an error.
ROUNDING = 0.02
SUFFIXES = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}

GPT_BIASES = frozenset({"q", "k", "v", "o", "up", "down"})


@dataclass(frozen=True)
class Key:
    """One legal key of the text: how its value is read and what it means."""

    read: Callable[[str], Any]
    meaning: str


def whole(text: str) -> int:
    """``4096``, ``4_096``, ``7B``, ``1.5e9`` as a whole number of at least 1."""
    value = count(text)
    if value < 1:
        raise ValueError("a whole number of at least 1 is needed")
    return value


def depth(text: str) -> int:
    """A number of layers: they are looked at one by one, so that an absurd one is refused."""
    value = whole(text)
    if value > MOST_LAYERS:
        raise ValueError(f"at most {MOST_LAYERS:,} is believable")
    return value


def count(text: str) -> int:
    """A whole number of at least 0, with an optional suffix k, M, B or T."""
    found = re.fullmatch(r"([0-9][0-9_]*(?:\.[0-9]+)?(?:e[0-9]+)?)([kmbt]?)", text.strip().lower())
    value = float(found[1].replace("_", "")) * SUFFIXES.get(found[2], 1) if found else -1.0
    if not 0 <= value <= 1e16 or value != round(value):
        raise ValueError("a whole number is needed (suffixes k, M, B and T are allowed)")
    return round(value)


def flag(text: str) -> bool:
    """``true``/``false``, ``yes``/``no``, ``1``/``0``."""
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.strip().lower() not in known:
        raise ValueError("true or false is needed")
    return known[text.strip().lower()]


def one_of(*choices: str) -> Callable[[str], str]:
    """A reader of one word out of ``choices``."""

    def read(text: str) -> str:
        if text.strip() not in choices:
            raise ValueError(did_you_mean(text.strip(), choices))
        return text.strip()

    return read


#: No shape can be guessed from fewer; who writes 7 means billions.
FEWEST_PARAMETERS = 100_000

KEYS: dict[str, Key] = {
    "params": Key(whole, "total parameters, when only they are known or to account for what the rest leaves out"),
    "hidden": Key(whole, "width of the hidden stream"),
    "layers": Key(depth, "blocks"),
    "heads": Key(whole, "query heads"),
    "kv_heads": Key(whole, "key-value heads; default: heads"),
    "head_dim": Key(whole, "width of one head; default: hidden ÷ heads"),
    "intermediate": Key(whole, "width of the MLP; default: 4 · hidden, or 8/3 · hidden when gated"),
    "vocab": Key(whole, f"rows of the token table; default: {DEFAULT_VOCAB}"),
    "max_positions": Key(count, "longest sequence; 0 = no limit"),
    "tied": Key(flag, "head shares the token table; default: false"),
    "gated": Key(flag, "MLP of three matrices; default: false"),
    "biases": Key(flag, "every linear of a block has a bias; default: not gated"),
    "norm": Key(one_of(*get_args(Norm)), "default: layer, or rms when gated"),
    "positions": Key(one_of(*get_args(Positions)), "default: learned, or rope when gated"),
    "causal": Key(flag, "decoder; default: true"),
    "parallel_block": Key(flag, "attention and MLP side by side; default: false"),
    "window": Key(whole, "sliding attention window of every layer"),
    "experts": Key(whole, "experts of every layer"),
    "top_k": Key(whole, "experts per token; default: 2"),
    "expert_intermediate": Key(whole, "width of one expert; default: intermediate"),
    "shared_intermediate": Key(count, "total width of the experts every token uses; default: 0"),
}
#: Longer names people know from configs.
SYNONYMS = {
    "hidden_size": "hidden",
    "num_layers": "layers",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "intermediate_size": "intermediate",
    "ffn": "intermediate",
    "vocab_size": "vocab",
    "parameters": "params",
    "num_experts": "experts",
}


def parse(text: str, where: str = "--model-shape") -> ModelShape:
    """The transformer that ``text`` describes; raises ``InputError`` with every problem at once.

    Needed: ``hidden``, ``layers`` and ``heads``, or ``params`` alone. Without ``gated`` it is a GPT: two MLP
    matrices, layer norms, biases, learned positions; with it a Llama.
    """
    values, problems = _read(text, where)
    if not problems:
        problems = _impossible(values, where)
    if problems:
        raise InputError(problems)
    if "hidden" not in values:
        if values["params"] < FEWEST_PARAMETERS:
            given = values["params"]
            way = f"at least {FEWEST_PARAMETERS:,} are needed where they alone are known; for billions write {given}B"
            raise InputError([Problem(where, field="params", what=f"is {given:,}", instead=way)])
        return _from_parameters(values)
    shape = _build(values, ())
    return _account_for(shape, values["params"], where) if "params" in values else shape


def _read(text: str, where: str) -> tuple[dict[str, Any], list[Problem]]:
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = part.partition("=")
        name = SYNONYMS.get(name.strip(), name.strip())
        if not equals:
            problems.append(Problem(where, what=f"{part!r} is not name=value", instead="write hidden=4096,layers=32"))
        elif name not in KEYS:
            problems.append(Problem(where, field=name, what="is not a known key", instead=did_you_mean(name, KEYS)))
        elif name in values:
            problems.append(Problem(where, field=name, what="is given twice"))
        else:
            try:
                values[name] = KEYS[name].read(value)
            except ValueError as error:
                problems.append(Problem(where, field=name, what=f"is {value!r}", instead=str(error)))
                values[name] = 1
    return values, problems


def _impossible(values: dict[str, Any], where: str) -> list[Problem]:
    """What cannot be, given values that are each legal."""
    problems: list[Problem] = []
    missing = [name for name in ("hidden", "layers", "heads") if name not in values]
    given_any = len(missing) < 3
    if missing and (given_any or "params" not in values):
        text = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        problems.append(Problem(where, what=text, instead="give hidden, layers and heads, or params alone"))
        return problems
    heads, hidden = values.get("heads", 1), values.get("hidden", 1)
    if "head_dim" not in values and hidden % heads:
        problems.append(
            Problem(
                where, field="heads", what=f"{heads} does not divide hidden = {hidden}", instead="or give head_dim"
            )
        )
    if heads % values.get("kv_heads", 1):
        what = f"{values['kv_heads']} does not divide heads = {heads}"
        problems.append(Problem(where, field="kv_heads", what=what))
    if "experts" in values and values.get("top_k", 2) > values["experts"]:
        what = f"{values.get('top_k', 2)} is more than experts = {values['experts']}"
        problems.append(Problem(where, field="top_k", what=what))
    if "experts" not in values:
        stray = [name for name in ("top_k", "expert_intermediate", "shared_intermediate") if name in values]
        problems += [Problem(where, field=name, what="needs experts") for name in stray]
    return problems


def _build(values: dict[str, Any], notes: tuple[str, ...], name: str = "custom") -> ModelShape:
    hidden, layers, heads = values["hidden"], values["layers"], values["heads"]
    gated = values.get("gated", False)
    width = values.get("intermediate", _gated_width(hidden) if gated else 4 * hidden)
    positions = values.get("positions", "rope" if gated else "learned")
    longest = values.get("max_positions", 0 if positions in ("alibi", "relative", "none") else 2048)
    moe = None
    if "experts" in values:
        moe = MixtureOfExperts(
            experts=values["experts"],
            top_k=values.get("top_k", min(2, values["experts"])),
            intermediate=values.get("expert_intermediate", width),
            layers=tuple(range(layers)),
            shared_intermediate=values.get("shared_intermediate", 0),
        )
    return ModelShape(
        name=name,
        family="generic",
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=values.get("kv_heads", heads),
        head_dim=values.get("head_dim", hidden // heads),
        intermediate=width,
        vocab=values.get("vocab", DEFAULT_VOCAB),
        tied=values.get("tied", False),
        gated=gated,
        activation="silu" if gated else "gelu",
        norm=values.get("norm", "rms" if gated else "layer"),
        biases=GPT_BIASES if values.get("biases", not gated) else frozenset(),
        positions=positions,
        max_positions=longest,
        position_rows=longest if positions == "learned" else 0,
        windows=(values["window"],) * layers if "window" in values else (),
        causal=values.get("causal", True),
        parallel_block=values.get("parallel_block", False),
        moe=moe,
        notes=notes,
    )


def _gated_width(hidden: int) -> int:
    """8/3 of the width, rounded up to 256 as Llama does: three matrices of this cost as much as two of 4 · hidden."""
    return -(-8 * hidden // (3 * 256)) * 256


def _from_parameters(values: dict[str, Any]) -> ModelShape:
    """A Llama-like model of about ``params`` parameters; what the round shape leaves over counts as ``other``."""
    target = values["params"]
    best: ModelShape | None = None
    for layers in range(1, 257):
        hidden = layers * ASPECT
        guess = {"gated": True, **values, "hidden": hidden, "layers": layers, "heads": max(1, hidden // HEAD_DIM)}
        guess["kv_heads"] = guess["heads"]
        shape = _build(guess, (), name=f"{target / 1e9:g}B")
        if shape.parameters.total > target:
            break
        best = shape
    if best is None:
        guess = {"gated": True, **values, "hidden": 64, "layers": 1, "heads": 1, "vocab": max(1, target // 1024)}
        best = _build(guess, (), name=f"{target / 1e6:g}M")
    note = (
        f"only params = {target:,} was given: a shape of {best.layers} layers of width {best.hidden} was assumed, "
        "so activations, communication and time are rough"
    )
    return best.with_(other=max(0, target - best.parameters.total), notes=(note,))


def _account_for(shape: ModelShape, target: int, where: str) -> ModelShape:
    """``shape`` with what ``params`` has beyond it as ``other``; InputError when the shape has clearly more."""
    counted = shape.parameters.total
    if counted > target * (1 + ROUNDING):
        what = f"is {target:,}, but hidden, layers, heads … make {counted:,}"
        raise InputError(
            [Problem(where, field="params", what=what, instead="leave params out or correct the others")]
        )
    return shape.with_(other=target - counted) if target > counted * (1 + ROUNDING) else shape

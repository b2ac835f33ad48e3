"""Quantities with their unit: durations, sizes and amounts of training.

Each reads what people write (``"30m"``, ``"64GiB"``, ``"2e9 tokens"``) and prints back a canonical text that
reads to the same value. They are frozen, ordered by value and usable as pydantic fields.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

_NUMBER = r"\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME_WORDS = {
    "second": "s", "seconds": "s", "sec": "s", "minute": "m", "minutes": "m", "min": "m",
    "hour": "h", "hours": "h", "day": "d", "days": "d",
}  # fmt: skip
_BYTES = {
    "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15,
}  # fmt: skip
_AMOUNT_WORDS = {
    "step": "steps", "steps": "steps", "token": "tokens", "tokens": "tokens", "epoch": "epochs", "epochs": "epochs",
}  # fmt: skip


class _Quantity:
    """What the three quantities share: reading from text in a pydantic model and its JSON Schema."""

    _examples: ClassVar[tuple[str, ...]]

    @classmethod
    def parse(cls, value: object) -> Self:
        raise TypeError

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": ["string", "number", "object"], "examples": list(cls._examples)}


@dataclass(frozen=True, order=True)
class Duration(_Quantity):
    """A length of time in seconds. A bare number is refused: nobody knows whether it means minutes."""

    seconds: float
    _examples: ClassVar[tuple[str, ...]] = ("30m", "1h30m", "90s")

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read ``90s``, ``30m``, ``1h30m``, ``2 days``; anything else is a ValueError that shows the form."""
        if isinstance(value, cls):
            return value
        text = str(value).strip()
        parts = re.findall(rf"({_NUMBER})\s*([A-Za-z]+)\s*", text)
        units = [_TIME_WORDS.get(unit.lower(), unit) for _, unit in parts]
        whole = re.fullmatch(rf"(?:{_NUMBER}\s*[A-Za-z]+\s*)+", text)
        if not whole or any(unit not in _SECONDS for unit in units):
            raise ValueError(f"{text!r} is no duration; write a number and a unit, such as 90s, 30m, 1h30m or 2d")
        seconds = sum(float(n.replace("_", "")) * _SECONDS[u] for (n, _), u in zip(parts, units, strict=True))
        if not math.isfinite(seconds) or seconds <= 0:
            raise ValueError(f"{text!r} is not a positive length of time; write for example 30m")
        return cls(seconds)

    def __str__(self) -> str:
        rest, text = self.seconds, ""
        for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
            if rest >= size:
                text += f"{int(rest // size)}{unit}"
                rest %= size
        return text + (f"{rest:.15g}s" if rest or not text else "")


@dataclass(frozen=True, order=True)
class Size(_Quantity):
    """An amount of memory or storage in bytes."""

    bytes: int
    _examples: ClassVar[tuple[str, ...]] = ("64GiB", "500MB")

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read ``64GiB`` (powers of 1024) or ``500MB`` (powers of 1000); a bare number is bytes."""
        if isinstance(value, cls):
            return value
        text = str(value).strip()
        match = re.fullmatch(rf"({_NUMBER})\s*([A-Za-z]*)", text)
        units = {unit.lower(): size for unit, size in _BYTES.items()}
        if isinstance(value, bool) or not match or (match[2] or "b").lower() not in units:
            raise ValueError(f"{text!r} is no size; write a number and one of {', '.join(_BYTES)}, such as 64GiB")
        size = float(match[1].replace("_", "")) * units[(match[2] or "b").lower()]
        if not math.isfinite(size):
            raise ValueError(f"{text!r} is too large a size")
        return cls(int(size))

    def __str__(self) -> str:
        for unit in ("PiB", "TiB", "GiB", "MiB", "KiB"):
            if self.bytes and self.bytes % _BYTES[unit] == 0:
                return f"{self.bytes // _BYTES[unit]}{unit}"
        return f"{self.bytes}B"


AmountUnit = Literal["steps", "tokens", "epochs", "time"]


@dataclass(frozen=True)
class Amount(_Quantity):
    """A stretch of training: optimizer steps, tokens, epochs, or time (then ``value`` is seconds)."""

    value: float
    unit: AmountUnit
    _examples: ClassVar[tuple[str, ...]] = ("200 steps", "2e9 tokens", "3 epochs", "30m")

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read ``200 steps``, ``2e9 tokens``, ``3 epochs``, ``30m``, or a mapping ``{steps: 200}``."""
        if isinstance(value, cls):
            return value
        if isinstance(value, dict):
            return cls._from_mapping(value)
        text = str(value).strip()
        match = re.fullmatch(rf"({_NUMBER})\s*([A-Za-z]+)", text)
        unit = _AMOUNT_WORDS.get(match[2].lower()) if match else None
        if match and unit:
            return cls._checked(float(match[1].replace("_", "")), unit, text)
        try:
            return cls(Duration.parse(text).seconds, "time")
        except ValueError:
            raise ValueError(
                f"{text!r} is no amount of training; write for example 200 steps, 2e9 tokens or 3 epochs"
            ) from None

    @classmethod
    def _from_mapping(cls, value: dict[Any, Any]) -> Self:
        if len(value) != 1:
            raise ValueError(f"has {len(value)} entries; exactly one of steps, tokens, epochs or minutes is needed")
        ((unit, number),) = value.items()
        if isinstance(number, str) and re.fullmatch(_NUMBER, number):
            number = float(number)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ValueError(f"{unit}: {number!r} is not a number")
        if unit in ("minutes", "seconds", "hours"):
            return cls(Duration.parse(f"{number} {unit}").seconds, "time")
        if unit not in ("steps", "tokens", "epochs"):
            raise ValueError(f"has {unit!r}; exactly one of steps, tokens, epochs or minutes is needed")
        return cls._checked(float(number), unit, f"{unit}: {number}")

    @classmethod
    def _checked(cls, number: float, unit: str, text: str) -> Self:
        if not math.isfinite(number) or number <= 0:
            raise ValueError(f"{text!r} is not positive; write for example 200 steps")
        if unit != "epochs" and number != int(number):
            raise ValueError(f"{text!r} is not a whole number of {unit}")
        return cls(number, unit)  # type: ignore[arg-type]  # unit comes from the table above

    def __str__(self) -> str:
        if self.unit == "time":
            return str(Duration(self.value))
        number = f"{int(self.value)}" if self.value == int(self.value) else f"{self.value:.15g}"
        return f"{number} {self.unit}"


def share_or_amount(value: object) -> float | Amount:
    """Read ``0.03`` (a share of the run, at least 0 and less than 1) or an Amount such as ``100 steps``."""
    if isinstance(value, str) and re.fullmatch(_NUMBER, value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Amount.parse(value)
    if not 0 <= value < 1:
        raise ValueError(f"{value!r} has no unit and is no share; write {value} steps, or a share below 1")
    return float(value)

"""Rules TW7xx: operators, their kinds and their schemas."""

from __future__ import annotations

OPERATORS: dict[str, str] = {
    "TW701": "TW701_container_name:ContainerName",
}

"""Formats rows as two columns, for people."""

from __future__ import annotations

from collections.abc import Iterable


def text(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"{name:<10} {value}".rstrip() for name, value in rows)

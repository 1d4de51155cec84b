"""The keys of a file of sources, typed: what file.py decodes each table into. reference.py explains
them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from outpost_tools.readings.sources.bounds import DEVICES, METRICS

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Factor = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
Payload = Literal["json", "number", "senml"]
Format = Literal["any", "epoch-s", "epoch-ms", "rfc3339", "local"]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Time(_Table):
    path: Text
    format: Format = "any"
    zone: Word | None = None


class FromPath(_Table):
    path: Text


class Value(_Table):
    path: Text
    name: Word | None = None
    unit: Word | None = None
    scale: Factor | None = None
    offset: Factor = 0.0


class Example(_Table):
    """readings: {name: value, or [value, unit], or [value, unit, time]}."""

    topic: Text
    payload: str
    received: Text = "2026-01-15T12:00:00Z"
    retained: bool = False
    device: Word | None = None
    time: Text | None = None
    readings: dict[str, Any] | None = None
    online: bool | None = None
    ignored: bool = False
    refused: Text | None = None


class Source(_Table, rename={"without": "except"}):
    name: Word
    topic: Text
    payload: Payload = "json"
    without: list[Text] = []
    device: Word | FromPath | None = None
    metric: Word | None = None
    when: dict[str, list[str | int | bool]] = {}
    time: Text | Time | None = None
    values: list[Any] = []
    ignore: list[Text] = []
    unit: Word | None = None
    scale: Factor | None = None
    offset: Factor = 0.0
    units: dict[str, Word] = {}
    words: dict[str, float] = {}
    no_value: list[str] = []
    empty: Literal["refuse", "ignore"] = "refuse"
    home_assistant: bool = False
    id: list[Text] | Text = []
    example: list[Any] = []


class State(_Table, rename={"without": "except"}):
    name: Word
    topic: Text
    online: Text
    offline: Text
    without: list[Text] = []
    path: Text | None = None
    device: Word | None = None
    example: list[Any] = []


class Limits(_Table):
    devices: Count = DEVICES
    metrics: Count = METRICS


class File(_Table):
    source: list[Any] = []
    state: list[Any] = []
    ignore: list[Text] = []
    limits: Limits = Limits()

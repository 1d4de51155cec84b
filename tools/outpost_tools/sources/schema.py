"""The keys of a file of sources, typed: what `file.py` decodes each table into. `HELP` is the
reference that the command prints.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from outpost_tools.sources.bounds import DEVICES, METRICS

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


HELP = """\
[[source]]      one kind of message; each table has its own name
  name          of the source, in messages and in the tables
  topic         a topic filter in which {device} and {metric} name levels, or parts of one;
                {device#} names one or more levels; + is any level, # (last) any levels below
  except        topics of this kind that belong to others: ["zigbee2mqtt/#"]
  payload       "json" (default); "number": the payload is one number; "senml": RFC 8428 in JSON
  device        if the topic does not have it: "boiler", "plug-{device}", or { path = "node" }
  time          path of the time, or { path = "Time", format = "local", zone = "Europe/Berlin" };
                formats: any (default), epoch-s, epoch-ms, rfc3339, local. Without it: the arrival
  values        json: a list of paths, or of { path, name, unit, scale, offset }. The first that
                matches a value takes it; the reading is value * scale + offset. In paths, * is any
                key, ** (last) any keys below. A name may contain {metric}, {1}, {2}: what the first
                and second wildcard matched. Without a name: the path from its first wildcard on
  metric, unit, scale, offset
                number: the reading's name (default "{metric}"), and the same as above
  units         { "temperature" = "Cel", "*_power" = "W" }: units by the last part of a name
  words         { ON = 1, OFF = 0 }: texts that are values; true and false always are
  no_value      texts for "no value": ["unavailable", "nan"]; such a message is ignored
  ignore        paths that are not readings
  when          { method = ["NotifyStatus"] }: other messages are ignored
  empty         "refuse" (default) or "ignore" a message with none of the values
  id            path, or paths, of what identifies a message: a second copy then counts once

[[state]]       a device comes or goes: name, topic, except, device as above
  online, offline
                the payloads; with `path`, what is found there

ignore          topics that are nobody's: ["zigbee2mqtt/bridge/#"]
[limits]        devices = 1000 of one source, metrics = 1000 of one device

[[source.example]], [[state.example]]
                topic, payload, and what they must become: device, time, readings = { "name" =
                [21.5, "Cel"] }; or online = true, ignored = true, refused = "part of the reason".
                Also: received (the arrival, "2026-01-15T12:00:00Z"), retained = true
"""

"""What the traffic of foreign_traffic.py means, read plainly from its topics and payloads, without
the product: (device, metric, value, time in µs; None: that of its arrival)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from foreign_traffic import TASMOTA_ZONE, Sent

Meant = tuple[str, str, float, int | None]
_WORDS = {"ON": 1.0, "OFF": 0.0, "on": 1.0, "off": 0.0}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def of(sent: Sent) -> list[Meant]:
    return list(_KINDS[sent.kind](sent.topic.split("/"), sent.payload))


def _us(time: datetime) -> int:
    since = time - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _flat(document: dict, head: str = "") -> Iterator[tuple[str, float]]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{head}{name}.")
        elif isinstance(value, int | float):
            yield head + name, float(value)


def _tasmota(topic: list[str], payload: bytes) -> Iterator[Meant]:
    _, device, last = topic
    if last == "LWT":
        yield device, "online", float(payload == b"Online"), None
        return
    document = json.loads(payload)
    time = datetime.fromisoformat(document.pop("Time")).replace(tzinfo=ZoneInfo(TASMOTA_ZONE))
    if last == "STATE":
        document["POWER"] = _WORDS[document["POWER"]]
    for name, value in _flat(document):
        yield device, name, value, _us(time)


def _zigbee2mqtt(topic: list[str], payload: bytes) -> Iterator[Meant]:
    device = topic[1]
    document = json.loads(payload)
    if device == "bridge":
        return
    if topic[2:] == ["availability"]:
        yield device, "online", float(document["state"] == "online"), None
        return
    time = datetime.fromisoformat(document.pop("last_seen"))
    for name, value in _flat(document):
        yield device, name, value, _us(time)


def _shelly(topic: list[str], payload: bytes) -> Iterator[Meant]:
    device = topic[0]
    if topic[1] == "online":
        yield device, "online", float(payload == b"true"), None
        return
    document = json.loads(payload)
    if document["method"] == "NotifyStatus":
        power, ts = document["params"]["switch:0"]["apower"], document["params"]["ts"]
        yield device, "switch:0.apower", float(power), round(ts * 1_000_000)


def _esphome(topic: list[str], payload: bytes) -> Iterator[Meant]:
    text = payload.decode()
    if topic[1] == "status":
        yield topic[0], "online", float(text == "online"), None
    else:
        yield topic[0], topic[2], _WORDS[text] if text in _WORDS else float(text), None


def _chirpstack(topic: list[str], payload: bytes) -> Iterator[Meant]:
    if topic[-1] != "up":
        return
    event, device = json.loads(payload), topic[3]
    time = datetime.fromisoformat(event["time"][:26] + "+00:00")  # nanoseconds
    radio = {name: event["rxInfo"][0][name] for name in ("rssi", "snr")}
    for name, value in _flat(event["object"] | radio | {"fCnt": event["fCnt"]}):
        yield device, name, value, _us(time)


def _senml(topic: list[str], payload: bytes) -> Iterator[Meant]:
    pack = json.loads(payload)
    for one in pack:
        if "v" in one or "vb" in one:
            value = float(one["v"] if "v" in one else one["vb"])
            yield topic[1], one["n"], value, round(pack[0]["bt"] * 1_000_000)


def _homeassistant(topic: list[str], payload: bytes) -> Iterator[Meant]:
    text = payload.decode().strip('"')
    if topic[-1] == "state" and text != "unavailable":
        value = _WORDS[text] if text in _WORDS else float(text)
        yield topic[0], f"{topic[1]}.{topic[2]}", value, None


def _numbers(topic: list[str], payload: bytes) -> Iterator[Meant]:
    document = json.loads(payload)
    time_us = round(document.pop("time") * 1_000_000)
    for name, value in _flat(document):
        yield topic[1], name, value, time_us


_KINDS = {
    "tasmota": _tasmota, "zigbee2mqtt": _zigbee2mqtt, "shelly": _shelly, "esphome": _esphome,
    "chirpstack": _chirpstack, "senml": _senml, "homeassistant": _homeassistant,
    "numbers": _numbers,
}  # fmt: skip

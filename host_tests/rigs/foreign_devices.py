"""Fifty foreign devices of several kinds: what each publishes, and the readings that it means by
it, written from the same numbers as the payload. It must not know how the product decodes.

Tasmota plugs, Zigbee2MQTT sensors, Shelly meters, LoRaWAN nodes behind ChirpStack (with an
identifier), and nodes of ESPHome with plain numbers, half of them retained. All but the last two
also publish their availability, and a sensor of Zigbee2MQTT a document that is broken off.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from outpost_tools.readings.sources import ready_files

BY_ID, BY_TIME, AT_LEAST = "once by identifier", "once by time and contents", "at least once"
NOT_JSON = "zigbee2mqtt: not JSON"
_FILES = ("zigbee2mqtt", "tasmota", "shelly", "chirpstack", "esphome")  # the first has `ignore`


@dataclass(frozen=True)
class Said:
    """time_us: None: that of its arrival. refused: the reason that quarantine has."""

    topic: str
    payload: bytes
    device: str
    source: str
    readings: tuple[tuple[str, str | None, float], ...]
    guarantee: str = AT_LEAST
    time_us: int | None = None
    native_id: str = ""
    retain: bool = False
    refused: str = ""

    @property
    def identity(self) -> tuple | None:
        """The same for each copy; None: each arrival counts."""
        if self.guarantee == BY_ID:
            return self.source, self.device, self.native_id
        return (self.topic, self.payload) if self.guarantee == BY_TIME else None


def mapping() -> str:
    """The ready files in one. Sensors of Zigbee2MQTT could be called `online` and `status`."""
    text = "\n".join(map(ready_files.text, _FILES))
    for topic in ('topic = "{device}/online"', 'topic = "{device}/status"'):
        assert text.count(topic) == 1, topic
        text = text.replace(topic, f'{topic}\nexcept = ["zigbee2mqtt/+"]')
    return text


def wrong_mapping(text: str) -> str:
    """One source refuses all its messages, one has a wrong scale and unit, one a wrong unit."""
    for right, wrong in (
        ('"UptimeSec", "Heap", "LoadAvg"', '"Uptime", "Heap", "LoadAvg"'),
        ('"Wifi.Signal", "POWER", "POWER1"', '"Wifi.Signal", "POWER1"'),
        ('.apower", unit = "W"', '.apower", unit = "kW", scale = 7'),
        ('\ntemperature = "Cel"\ndevice', '\ntemperature = "Fahr"\ndevice'),
    ):
        assert text.count(right) == 1, right
        text = text.replace(right, wrong)
    return text


def half_mended(text: str) -> str:
    """The source that refused is mended; the values are still wrong."""
    state = text[text.index('name = "tasmota-state"') : text.index('name = "tasmota-lwt"')]
    wrong = wrong_mapping(text)
    broken = wrong[wrong.index('name = "tasmota-state"') : wrong.index('name = "tasmota-lwt"')]
    return wrong.replace(broken, state)


REFUSED = "tasmota-state: "  # how the reason of what wrong_mapping() refuses begins


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _of_time(now_s: float, digits: int) -> tuple[datetime, int]:
    us = round(round(now_s, digits) * 1_000_000)
    return datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000), us


def _plug(name: str, number: int, now_s: float, chance: random.Random) -> list[Said]:
    at, us = _of_time(int(now_s), 0)
    time_of = {"Time": at.replace(tzinfo=None).isoformat()}
    meter = {"Total": number / 8, "Power": number}
    values = ("ENERGY.Total", "kWh", number / 8), ("ENERGY.Power", "W", float(number))
    state = ("UptimeSec", "s", float(number)), ("POWER", "/", 1.0)
    of_state = _json(time_of | {"UptimeSec": number, "POWER": "ON"})
    said = {"guarantee": BY_TIME, "time_us": us}
    return [
        Said(f"tele/{name}/SENSOR", _json(time_of | {"ENERGY": meter}), name, "tasmota-sensor",
             values, **said),
        Said(f"tele/{name}/STATE", of_state, name, "tasmota-state", state, **said),
        *_online(f"tele/{name}/LWT", name, "tasmota-lwt", (b"Online", b"Offline"), chance),
    ]  # fmt: skip


def _sensor(name: str, number: int, now_s: float, chance: random.Random) -> list[Said]:
    at, us = _of_time(now_s, 3)
    topic, source = f"zigbee2mqtt/{name}", "zigbee2mqtt"
    document = {"temperature": number / 4, "linkquality": number % 200}
    payload = _json(document | {"last_seen": at.isoformat(timespec="milliseconds")})
    values = ("temperature", "Cel", number / 4), ("linkquality", None, float(number % 200))
    words = b'{"state":"online"}', b"offline"
    made = [Said(topic, payload, name, source, values, BY_TIME, us)]
    if chance.random() < 0.05:
        made.append(Said(topic, b'{"number": %d' % number, name, source, (), refused=NOT_JSON))
    more = _online(f"{topic}/availability", name, "zigbee2mqtt-availability", words, chance)
    return [*made, *more]


def _meter(name: str, number: int, now_s: float, chance: random.Random) -> list[Said]:
    _, us = _of_time(now_s, 2)
    params = {"ts": us / 1_000_000, "switch:0": {"id": 0, "apower": number / 2, "output": True}}
    payload = _json({"src": name, "method": "NotifyStatus", "params": params})
    values = ("switch:0.apower", "W", number / 2), ("switch:0.output", "/", 1.0)
    online = _online(f"{name}/online", name, "shelly-online", (b"true", b"false"), chance)
    return [Said(f"{name}/events/rpc", payload, name, "shelly", values, BY_TIME, us), *online]


def _node(name: str, number: int, now_s: float, chance: random.Random) -> list[Said]:
    """One uplink in three was heard by two gateways, and came twice under its identifier."""
    at, us = _of_time(now_s, 6)
    native_id = f"{name}-{number:08x}"
    event = {"deduplicationId": native_id, "time": at.isoformat(timespec="microseconds")}
    made = []
    for signal in (-97, -113)[: chance.choice((1, 1, 2))]:
        more = {"object": {"moisture": number / 2}, "rxInfo": [{"rssi": signal}]}
        values = ("moisture", None, number / 2), ("rssi", "dBm", float(signal))
        topic = f"application/6d0f/device/{name}/event/up"
        made.append(Said(topic, _json(event | more), name, "chirpstack", values, BY_ID, us,
                         native_id))  # fmt: skip
    return made


def _number(name: str, number: int, _now_s: float, _chance: random.Random) -> list[Said]:
    """Each value is published several times: these are several readings."""
    metric, unit = ("level", None) if number % 2 else ("water_temperature", "Cel")
    said = ((metric, unit, float(number // 5)),)
    topic, is_retained = f"{name}/sensor/{metric}/state", name.endswith("r")
    return [Said(topic, b"%d" % (number // 5), name, "esphome-sensor", said, retain=is_retained)]


def _online(
    topic: str, name: str, source: str, words: tuple[bytes, bytes], chance: random.Random
) -> list[Said]:
    """One time in ten."""
    if chance.random() > 0.1:
        return []
    is_online = chance.random() < 0.5
    said = (("online", "/", float(is_online)),)
    return [Said(topic, words[not is_online], name, source, said, retain=True)]


Kind = Callable[[str, int, float, random.Random], list[Said]]
DEVICES: dict[str, Kind] = {
    **{f"plug-{n}": _plug for n in range(12)},
    **{f"sensor {n}": _sensor for n in range(12)},
    **{f"shellyplus1pm-{n:012x}": _meter for n in range(10)},
    **{f"a81758fffe{n:06x}": _node for n in range(8)},
    **{f"gauge-{n}{'r' if n % 2 else ''}": _number for n in range(8)},
}

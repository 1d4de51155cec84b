"""A broker's traffic of all eight kinds of `outpost sources ready`, in our own words: what Tasmota,
Zigbee2MQTT, Shelly, ESPHome, ChirpStack, Home Assistant's statestream, a SenML sender and a sender
of plain objects publish.

    python host_tests/rigs/foreign_traffic.py 127.0.0.1:1883 [--seconds 60]

publishes it, a round a second. Tasmota's devices are in the zone TASMOTA_ZONE.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import paho.mqtt.client as mqtt

TASMOTA_ZONE = "Europe/Berlin"
KINDS = (
    "tasmota", "zigbee2mqtt", "shelly", "esphome", "chirpstack", "senml", "homeassistant",
    "numbers",
)  # fmt: skip


@dataclass(frozen=True)
class Sent:
    kind: str
    topic: str
    payload: bytes
    retain: bool = False


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def of_round(number: int, now_s: float) -> list[Sent]:
    """All messages of a round, at this time."""
    made = [
        *_tasmota(number, now_s), *_zigbee2mqtt(number, now_s), *_shelly(number, now_s),
        *_esphome(number), *_chirpstack(number, now_s), *_senml(number, now_s),
        *_homeassistant(number), *_numbers(number, now_s),
    ]  # fmt: skip
    assert {one.kind for one in made} == {*KINDS}
    return made


def _tasmota(number: int, now_s: float) -> list[Sent]:
    local = datetime.fromtimestamp(int(now_s), ZoneInfo(TASMOTA_ZONE)).replace(tzinfo=None)
    made = []
    for device in ("washer", "shed"):
        energy = {"Total": 61.3 + number / 1000, "Power": 38 + number, "Voltage": 229}
        air = {"Temperature": 7.4 + number / 10, "Humidity": 81.2}
        sensor = {"ENERGY": energy} if device == "washer" else {"AM2301": air, "TempUnit": "C"}
        time_of = {"Time": local.isoformat()}
        state = {"Uptime": "0T01:00:00", "UptimeSec": 3600 + number, "POWER": "ON"}
        made += [
            Sent("tasmota", f"tele/{device}/LWT", b"Online", True),
            Sent("tasmota", f"tele/{device}/SENSOR", _json(time_of | sensor)),
            Sent("tasmota", f"tele/{device}/STATE", _json(time_of | state)),
        ]
    return made


def _zigbee2mqtt(number: int, now_s: float) -> list[Sent]:
    seen = datetime.fromtimestamp(now_s, UTC).isoformat(timespec="milliseconds")
    climate = {"temperature": 11.2 + number / 100, "humidity": 61.3, "battery": 88}
    door = {"contact": number % 2 == 0, "battery": 100}
    bridge = {"level": "info", "message": "a device said something"}
    return [
        Sent("zigbee2mqtt", "zigbee2mqtt/bridge/state", b'{"state":"online"}', True),
        Sent("zigbee2mqtt", "zigbee2mqtt/bridge/logging", _json(bridge)),
        Sent("zigbee2mqtt", "zigbee2mqtt/cellar/availability", b'{"state":"online"}', True),
        Sent("zigbee2mqtt", "zigbee2mqtt/cellar", _json(climate | {"last_seen": seen})),
        Sent("zigbee2mqtt", "zigbee2mqtt/front door", _json(door | {"last_seen": seen})),
        Sent("zigbee2mqtt", "zigbee2mqtt/button", _json({"action": "single", "last_seen": seen})),
    ]


def _shelly(number: int, now_s: float) -> list[Sent]:
    name = "shellyplus1pm-0a1b2c3d4e5f"
    head = {"src": name, "dst": f"{name}/events"}
    power = {"ts": round(now_s, 2), "switch:0": {"id": 0, "apower": 41.7 + number}}
    press = {"ts": round(now_s, 2), "events": [{"component": "input:0", "event": "single_push"}]}
    return [
        Sent("shelly", f"{name}/online", b"true", True),
        Sent("shelly", f"{name}/events/rpc", _json(head | _call("NotifyStatus", power))),
        Sent("shelly", f"{name}/events/rpc", _json(head | _call("NotifyEvent", press))),
    ]


def _call(method: str, params: object) -> dict[str, object]:
    return {"method": method, "params": params}


def _esphome(number: int) -> list[Sent]:
    roof = b"%.2f" % (3.85 + number / 100)
    return [
        Sent("esphome", "attic/status", b"online", True),
        Sent("esphome", "attic/sensor/roof_temperature/state", roof, True),
        Sent("esphome", "attic/sensor/wifi_signal/state", b"-71", True),
        Sent("esphome", "attic/binary_sensor/hatch/state", b"ON", True),
        Sent("esphome", "attic/switch/fan/state", b"OFF", True),
    ]


def _chirpstack(number: int, now_s: float) -> list[Sent]:
    moment = datetime.fromtimestamp(now_s, UTC).isoformat(timespec="microseconds")
    event = {
        "deduplicationId": f"0c9a5a1e-58f0-4d1d-8f7e-{number:012x}",
        "time": moment.replace("+", "123+"),
        "deviceInfo": {"deviceName": "soil-3", "devEui": "a81758fffe0312c4"},
        "fCnt": 1200 + number, "fPort": 5, "data": "AQDhAmQ=",
        "object": {"temperature": 22.5, "soil": {"moisture": 31.4 - number / 10}},
        "rxInfo": [{"gatewayId": "00000000000000a1", "rssi": -97, "snr": 6.5}],
        "txInfo": {"frequency": 868300000},
    }  # fmt: skip
    topic = "application/6d0f0a52/device/a81758fffe0312c4/event"
    join = {"deduplicationId": "x", "time": event["time"], "devAddr": "01a2b3c4"}
    return [
        Sent("chirpstack", f"{topic}/up", _json(event)),
        Sent("chirpstack", f"{topic}/join", _json(join)),
    ]


def _senml(number: int, now_s: float) -> list[Sent]:
    made = []
    for device in ("greenhouse", "nursery"):
        first = {"bn": f"urn:dev:mac:{device}:", "bt": round(now_s, 3), "n": "air", "u": "Cel"}
        more = [{"n": "water", "u": "/", "vb": True}, {"n": "bed", "vs": "four"}]
        made.append(Sent("senml", f"senml/{device}", _json([first | {"v": 17.25 + number}, *more])))
    return made


def _homeassistant(number: int) -> list[Sent]:
    base = "homeassistant"
    warm = b"%.1f" % (21.7 + number / 10)
    return [
        Sent(base, f"{base}/sensor/kitchen_temperature/state", warm, True),
        Sent(base, f"{base}/sensor/heat_pump_power/state", b'"1480"', True),
        Sent(base, f"{base}/sensor/attic_humidity/state", b"unavailable", True),
        Sent(base, f"{base}/binary_sensor/garage_door/state", b'"on"', True),
        Sent(base, f"{base}/sensor/kitchen_temperature/unit_of_measurement", b'"\xc2\xb0C"', True),
    ]


def _numbers(number: int, now_s: float) -> list[Sent]:
    pump = {"power": 38 + number, "on": True}
    boiler = {"time": round(now_s, 1), "temperature": 61.25, "pump": pump, "mode": "auto"}
    tank = {"time": round(now_s, 1), "temperature": 40.5 + number, "level": 73}
    return [
        Sent("numbers", "sensors/boiler", _json(boiler)),
        Sent("numbers", "sensors/tank", _json(tank)),
    ]


class Publisher:
    """Publishes rounds to a broker, and keeps what it sent."""

    def __init__(self, host: str, port: int) -> None:
        self.sent: list[Sent] = []
        self._number = 0
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self._client.username_pw_set("anyone")
        self._client.connect(host, port)
        self._client.loop_start()

    def publish(self) -> None:
        """One round; returns when the broker has acknowledged it."""
        made = of_round(self._number, time.time())
        infos = [self._client.publish(one.topic, one.payload, 1, one.retain) for one in made]
        for one in infos:
            one.wait_for_publish(30)
        self.sent += made
        self._number += 1

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    host, _, port = args.address.rpartition(":")
    publisher, until = Publisher(host, int(port)), time.monotonic() + args.seconds
    while time.monotonic() < until:
        publisher.publish()
        time.sleep(1)
    publisher.close()
    print(f"{len(publisher.sent)} messages", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

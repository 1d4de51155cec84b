"""A form field for each key. Kind, range, default and unit come from the rules of the firmware and
the drivers. Only the labels on the page are written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from outpost_tools.boards.flash.held import FILES
from outpost_tools.boards.settings import sensor_drivers, settings_file
from outpost_tools.boards.settings.sensor_drivers import Driver
from outpost_tools.machine.firmware import settings_rules
from outpost_tools.text.words import unit_text

AUTOMATIC = "automatic"  # the choice for "not specified"
_UNITS = {"ohm": "Ω", "uohm": "µΩ", "mv": "mV", "ms": "ms", "s": "s", "m": "m"}

# In the order of the page. All other keys appear under "More settings".
WIFI = ("wifi_ssid", "wifi_password", "wifi_networks", "wifi_country")
BROKER = ("broker_host", "broker_port", "user", "password", "tls", "ca_file")
BROKER_TLS = ("server_name", "client_cert_file", "client_key_file")
LISTS = ("sensors", "wifi_networks", "alarms")
_FIRST = ("interval_ms", "series", "series_age_s", "encoding", "commands", "update_key",
          "deep_sleep", "connect_every", "wake_limit_ms")  # fmt: skip
_ALONE = ("device_id", "mode", "alpn")  # alpn: no board's MicroPython supports it

_LABELS = {
    "device_id": "Name, different for each board: A-Z a-z 0-9 _ . -",
    "mode": "Who confirms its messages",
    "wifi_ssid": "Network (2.4 GHz)",
    "wifi_password": "Password; empty for an open network",
    "wifi_country": "Country, two capital letters; the law of some countries requires it",
    "broker_host": "Broker's name or address",
    "broker_port": "Port; default with TLS 8883",
    "user": "User, if the broker requires one",
    "password": "Password of that user",
    "tls": "TLS: connect only if the broker's certificate is valid",
    "ca_file": "Certificate that signed the broker's",
    "server_name": "Name in the broker's certificate, if it is not the address above",
    "client_cert_file": "The board's certificate, if the broker requires one",
    "client_key_file": "Key of the board's certificate",
    "topic_prefix": "Topic prefix",
    "keep_alive_s": "Keep alive",
    "level": "MQTT: 4 is 3.1.1, 5 is 5.0, 3 is 3.1",
    "confirmation": "How the collector confirms",
    "say_state": "Publish online, offline and asleep",
    "confirm_timeout_ms": "Wait for a confirmation",
    "interval_ms": "Time between measurements; 60000 is a minute",
    "deep_sleep": "Deep sleep between measurements, for a battery",
    "connect_every": "In deep sleep: measurements between connections",
    "wake_limit_ms": "In deep sleep: longest time awake",
    "encoding": "Encoding of messages; cbor takes two thirds of the bytes",
    "series": "Series: many measurements in one message, each in flash at once",
    "series_age_s": "With series: longest time until a measurement is sent",
    "commands": "Accept commands from outpost send",
    "update_key": "Key for new firmware over the air (outpost update --new-key)",
    "outbox_blocks": "Blocks of the outbox, of 4,096 bytes; fixed by the first installation",
    "when_full": "When the outbox is full",
    "ntp_host": "Time server",
}


@dataclass(frozen=True, slots=True)
class Field:
    """kind: text, number, secret, flag, choice or file. default: what an empty field means."""

    name: str
    label: str
    kind: str
    default: str = ""
    limits: str = ""
    choices: tuple[str, ...] = ()
    is_required: bool = False


def of_keys(keys: tuple[str, ...]) -> list[Field]:
    return [of_key(key) for key in keys if key not in LISTS]


def more() -> list[Field]:
    """All keys without a place of their own, including keys that a later firmware adds."""
    placed = {*WIFI, *BROKER, *BROKER_TLS, *LISTS, *_ALONE}
    rest = [key for key in settings_rules() if key not in placed]
    return of_keys((*_FIRST, *(key for key in rest if key not in _FIRST)))


def of_key(key: str) -> Field:
    kind, default, least, most = settings_rules()[key]
    default = settings_file.defaults({}).get(key, default)
    label = _LABELS.get(key, key)
    if key == "series":
        choices = (AUTOMATIC, "true", "false")
        return Field(key, label, "choice", AUTOMATIC, choices=choices)
    if key in FILES:
        return Field(key, label, "file")
    if kind is bool:
        return Field(key, label, "flag", _text(default))
    if isinstance(kind, tuple):
        return Field(key, label, "choice", _text(default), choices=tuple(map(_text, kind)))
    if kind is int:
        return Field(key, _with_unit(label, key), "number", _text(default), f"{least} to {most}")
    if key in settings_file.SECRET_KEYS:
        return Field(key, label, "secret")
    limits, is_required = f"at most {most} characters", default is None
    return Field(key, label, "text", default or "", limits, is_required=is_required)


def of_driver(driver: Driver) -> list[Field]:
    return [_of_option(driver, key) for key in driver.keys]


def readings(driver: Driver) -> str:
    """What the driver measures, in readable form: `temperature °C, humidity %`."""
    found = [f"{one[0]} {unit_text(one[1])}".strip() for one in driver.readings]
    return ", ".join(one or "a number" for one in found)


def _of_option(driver: Driver, key: str) -> Field:
    rule = driver.keys[key]
    if isinstance(rule, str):
        return Field(key, key, "text", rule)
    if isinstance(rule[0], str):
        return Field(key, key, "choice", rule[0], choices=tuple(rule))
    least, most, default = rule[:3]
    is_needed = key in sensor_drivers.needed(driver)
    text = "" if default is None else _number(key, default)
    limits = f"{_number(key, least)} to {_number(key, most)}"
    return Field(key, _with_unit(key, key), "number", text, limits, is_required=is_needed)


def _number(key: str, value: int) -> str:
    """In decimal, except for an address on a bus: in hexadecimal, as in data sheets."""
    return hex(value) if key == "address" else f"{value}"


def _with_unit(label: str, key: str) -> str:
    unit = _UNITS.get(key.rpartition("_")[2]) if "_" in key else None
    return f"{label} ({unit})" if unit else label


def _text(value: Any) -> str:
    """As it is written in the form and in TOML."""
    return str(value).lower() if isinstance(value, bool) else str(value)

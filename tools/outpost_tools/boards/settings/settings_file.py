"""Turns a settings file (TOML) into what a board gets: settings.json and certificates. Everything
is checked before a board is touched.

The rules for keys, types and limits are the firmware's own (`firmware/station/settings.py`). This
module adds the checks that only the desktop can make, or that need the kind of board. Values of
secret keys are not printed.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outpost_tools.boards.files.inventory import SECRETS
from outpost_tools.boards.files.plan import SETTINGS
from outpost_tools.boards.port.kinds import Kind
from outpost_tools.boards.settings import (
    broker_part,
    memory_fit,
    pin_check,
    sensor_drivers,
    wifi_settings,
)
from outpost_tools.errors import ToolError
from outpost_tools.machine import board_json, exposure
from outpost_tools.machine.firmware import settings_module
from outpost_tools.messages import name_rules
from outpost_tools.mqtt import certificates
from outpost_tools.terminal.command_line import is_host
from outpost_tools.text import toml_file

SECRET_KEYS = ("password", "wifi_password", "wifi_networks", "update_key")
_MOST_TOPIC_BYTES = 255  # the outbox stores this length in one byte
_LONGEST_ENDING = "/durable"
_HIDDEN = "(hidden)"
_NO_BROKER = ", or give --credentials, where `outpost broker` made the broker"
_KEPT = "; for a board that has it already: outpost provision --keep-names"
_NO_MODE = (
    "{name}: no key 'mode': using the default, \"collector\". That needs `outpost collect` at this "
    'broker; without it write mode = "broker"'
)

EXAMPLE = """\
# Settings of one board. This checks them and writes them to it:
#     outpost provision --board RPI_PICO_W --port /dev/ttyACM0 THIS_FILE
# Keep this file to yourself: it holds passwords.

device_id = "kitchen"            # A-Z a-z 0-9 _ . -, at most 32; different for each board
# Who confirms its messages. "collector": `outpost collect`, which must run at this broker; the
# board keeps each message until the collector has it on disk. "broker": the broker alone.
mode = "collector"
broker_host = "192.168.1.10"     # name or address of the MQTT broker; broker.local works
# broker_port = 1883             # default 1883, or 8883 with TLS
# user = "board"                 # if the broker requires a user
# password = "..."

wifi_ssid = "Home"               # 2.4 GHz
wifi_password = "correct horse"  # leave it out for an open network
# For several networks or a fixed address, use wifi_networks instead (boards/README.md, "Wi-Fi")
# wifi_country = "DE"            # two letters; required by law in some countries
# ntp_host = "pool.ntp.org"      # the server that the board asks for the time

interval_ms = 60000              # a measurement every minute
# Default: all sensors of the chip. Others need a driver and its pins: boards/sensors/README.md
# sensors = ["temperature", {driver = "bme280", name = "attic", scl = 5, sda = 4}]
# topic_prefix = "outpost"       # messages go to outpost/kitchen/data
# outbox_blocks = 64             # of 4,096 bytes each; fixed by the first `outpost flash`
# when_full = "refuse"           # or "drop_oldest"; in mode "broker" also "newest_per_topic"
# say_state = true               # publish online, offline, asleep on outpost/kitchen/state
# level = 4                      # MQTT 3.1.1; 5: MQTT 5.0, 3: MQTT 3.1
# confirmation = "retained"      # "queued": if the broker refuses RETAIN; the collector too

# Series: each measurement is stored in flash at once, and many are sent as one message. This takes
# 5.1 to 6.5 bytes of flash each instead of 256. A message is sent before it is series_age_s old, or
# at once after an alarm. Use it with a collector, without deep sleep: firmware/station/SERIES.md
# On mains, 60 shows values that are a minute old; on a battery, 600 sends a tenth of the messages.
# series = true
# series_age_s = 60
# alarms = {temperature = {below = 5, above = 30}}

# encoding = "json"              # of messages; "cbor": two thirds of the bytes (boards/README.md)

# commands = true                # accept commands: `outpost send`; firmware/station/COMMANDS.md
# update_key = ""                # and new firmware: `outpost update --new-key` prints a key

# On a battery: deep sleep between measurements, which are stored in flash (boards/README.md).
# deep_sleep = true
# connect_every = 20             # connect and send everything at every 20th measurement
# wake_limit_ms = 30000          # if connecting takes longer, try again the next time

# TLS: the board connects only if the broker's certificate is valid. Files are PEM or DER, in the
# folder of this file.
# tls = true
# ca_file = "ca.pem"             # the certificate that signed the broker's
# server_name = "broker.home"    # the name in the broker's certificate, if not broker_host
# client_cert_file = "kitchen.pem"   # if the broker requires a client certificate
# client_key_file = "kitchen.key"
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """files: path on the board -> bytes, the certificates before settings.json, which names them.

    given: without defaults, except for `mode` and `say_state`. says_mode: whether `mode` was given.
    drivers: those of the sensors, by name. wired: the sensors that have pins, for pin_check.py.
    """

    given: dict[str, Any]
    full: dict[str, Any]
    files: dict[str, bytes]
    says_mode: bool = True
    drivers: dict[str, sensor_drivers.Driver] = field(default_factory=dict)
    wired: list[pin_check.Sensor] = field(default_factory=list)

    def lines(self) -> list[str]:
        """A line for each key, for people; secrets are hidden."""
        return [
            f"{key} = {_HIDDEN if key in SECRET_KEYS else json.dumps(self.given[key])}"
            for key in sorted(self.given)
        ]


def load(
    path: Path,
    kind: Kind | None = None,
    broker: Path | None = None,
    *,
    keep_names: bool = False,
) -> Settings:
    """Load and check a settings file. kind: None if it does not matter. broker: credentials for the
    keys that the file leaves out, see broker_part.py. keep_names: the board has these names
    already, so accept them. Raises ToolError: one line with file, key and remedy."""
    given = parsed(path)
    is_secret = any(given.get(key) for key in SECRET_KEYS)
    given, ca = broker_part.merged(given, broker, path.name)
    try:
        settings = check(given, path.name, path.parent, kind, ca, keep_names=keep_names)
    except ToolError as error:
        hint = _NO_BROKER if "'broker_host' is missing" in str(error) else ""
        raise ToolError(f"{error}{hint}") from None
    if is_secret:
        exposure.tell(exposure.to_readers(path, "settings"))
    for line in memory_fit.warnings(settings.full, kind) if kind else ():
        exposure.tell(f"{path.name}: {line}")
    warn(settings)
    return settings


def tell_mode(settings: Settings, name: str) -> None:
    """Say on stderr that `mode` is left at its default, if it is."""
    if not settings.says_mode:
        print(_NO_MODE.format(name=name), file=sys.stderr)


def warn(settings: Settings) -> None:
    """Print warning() on stderr, if there is one."""
    exposure.tell(warning(settings))


def warning(settings: Settings) -> str:
    """The warning about a password that others could read on its way to the broker; "" if there is
    none."""
    full = settings.full
    if not full["password"] or full["tls"]:
        return ""
    address = full["broker_host"], full["broker_port"]
    return exposure.on_the_way(address, "use the keys tls and ca_file, or --credentials")


def parsed(path: Path) -> dict[str, Any]:
    """The contents of the file, unchecked. Raises ToolError."""
    return toml_file.load(path, "outpost provision --example")


def check(
    given: dict[str, Any],
    name: str,
    folder: Path,
    kind: Kind | None,
    ca: bytes | None = None,
    *,
    keep_names: bool = False,
) -> Settings:
    """Check settings and prepare the files for the board. name: that of the file, for messages.
    folder: names of files are relative to it. ca: the authority's certificate, if it does not come
    from a file. Raises ToolError."""
    given = {**defaults(given), **given}
    try:
        full = settings_module().check(given, name)
    except settings_module().SettingsError as error:
        raise ToolError(str(error)) from None
    says_mode = "mode" in given
    given = {**given, "mode": full["mode"]}  # settings.json always has it
    faults = _faults(full, kind, folder)
    if kind is not None and not keep_names:
        faults += _name_faults(full, folder)
    for key, fault in faults:
        if fault:
            raise ToolError(f"{name}: key '{key}' {fault}")
    files = _files(given, name, folder, ca)
    on_board = given | {key: path for key, (path, _) in files.items()}
    text = board_json.encoded(on_board, sort_keys=True, indent=1)
    contents = {path: data for path, data in files.values()} | {SETTINGS: text}
    drivers = sensor_drivers.on_board(full["sensors"], folder)
    wired = sensor_drivers.wired(full["sensors"], folder)
    return Settings(given, full, contents, says_mode, drivers, wired)


def check_module(settings: Settings, kind: Kind, machine: str, name: str) -> None:
    """Check that no sensor uses a pin of the PSRAM, once the board has reported its module. Raises
    ToolError."""
    if fault := pin_check.psram_fault(settings.wired, kind.pinout, machine):
        raise ToolError(f"{name}: is {machine}: key 'sensors' has a sensor {fault}")


def defaults(given: dict[str, Any]) -> dict[str, Any]:
    """Defaults that differ from the firmware's: a board that is provisioned by this tool publishes
    its state, unless confirmations are queued. A board with older settings continues without it."""
    return {"say_state": given.get("confirmation") != "queued"}


# --- Faults: (key, "" or what is wrong and what to do) ---


def _faults(full: dict[str, Any], kind: Kind | None, folder: Path) -> list[tuple[str, str]]:
    found = [
        (key, _character_fault(value)) for key, value in full.items() if isinstance(value, str)
    ]
    found += [
        ("topic_prefix", _topic_fault(full)),
        ("broker_host", _host_fault(full["broker_host"])),
    ]
    if kind is None:
        return found
    found.append(("alpn", _alpn_fault(full["alpn"])))
    if full["sensors"] is not None:
        found += [("sensors", _sensor_fault(sensor, kind, folder)) for sensor in full["sensors"]]
    if not any(fault for _, fault in found):
        readings = sensor_drivers.readings(full["sensors"] or kind.sensors, folder)
        found.append(("sensors", sensor_drivers.double_name(readings)))
        faults = sensor_drivers.pin_faults(
            full["sensors"], folder, kind.pinout, deep_sleep=full["deep_sleep"]
        )
        found += [("sensors", fault) for fault in faults]
        found += sensor_drivers.series_faults(full, readings)
    if kind.has_wifi:
        found += wifi_settings.faults(full)
    return found + memory_fit.faults(full, kind)


def _name_faults(full: dict[str, Any], folder: Path) -> list[tuple[str, str]]:
    """Faults of the names that a board gets now. A board that was named earlier may keep its
    names."""
    driven = [one for one in full["sensors"] or () if isinstance(one, dict)]
    found = [
        ("device_id", name_rules.device_fault(full["device_id"])),
        ("topic_prefix", name_rules.prefix_fault(full["topic_prefix"])),
    ]
    for reading in sensor_drivers.readings(driven, folder):
        found.append(("sensors", name_rules.reading_fault(reading)))
    return [(key, fault and f"{fault}{_KEPT}") for key, fault in found]


def _character_fault(text: str) -> str:
    return (
        ""
        if all(ord(one) >= 32 and ord(one) != 127 for one in text)
        else "holds a control character; type it again"
    )


def _topic_fault(full: dict[str, Any]) -> str:
    prefix = full["topic_prefix"]
    length = len(f"{prefix}/{full['device_id']}{_LONGEST_ENDING}".encode())
    if length > _MOST_TOPIC_BYTES:
        return f"makes a topic of {length} bytes, and {_MOST_TOPIC_BYTES} is the most; shorten it"
    return ""


def _host_fault(host: str) -> str:
    if "://" in host or "/" in host:
        return "must be a name or an address alone, without mqtt:// and path"
    if re.fullmatch(r"[^:]+:\d*", host):
        return "must be a name or an address alone; the port has its own key, 'broker_port'"
    if not host.isascii() or " " in host or not is_host(host):
        return "must be a name or an address, of ASCII characters without blanks"
    return ""


def _alpn_fault(name: str) -> str:
    if not name:
        return ""
    return (
        "is for the handshake, and no board's MicroPython can send it; leave it out, and use a "
        "port of the broker's that needs none (8883)"
    )


def _sensor_fault(sensor: Any, kind: Kind, folder: Path) -> str:
    known = ", ".join([*kind.sensors, *(["adc@PIN", "ds18b20@PIN"] if kind.adc_pins else [])])
    if isinstance(sensor, dict):
        try:
            sensor_drivers.checked(sensor, folder)
        except ValueError as error:
            return str(error)
        return ""
    driver, _, pin = sensor.partition("@")
    if kind.adc_pins and driver == "adc" and pin.isdecimal() and int(pin) not in kind.adc_pins:
        return (
            f"names {sensor!r}; the pins that can measure are {', '.join(map(str, kind.adc_pins))}"
        )
    if sensor in kind.sensors or (
        kind.adc_pins and driver in ("adc", "ds18b20") and pin.isdecimal()
    ):
        return ""
    return f"names {sensor!r}, which this board does not have; known: {known}"


# --- Files ---


def _files(
    given: dict[str, Any], name: str, folder: Path, authority: bytes | None
) -> dict[str, tuple[str, bytes]]:
    """Return {key: (path on the board, DER)}. Raises ToolError.

    The name of each file depends on its content, so the old file stays as long as old settings need
    it.
    """
    found: dict[str, tuple[str, bytes]] = {}
    certificate = key = None
    if given.get("ca_file"):
        ca = (
            _authority(authority, name)
            if authority
            else read_file("ca_file", given, name, folder, certificates.certificate)
        )
        found["ca_file"] = _named("ca", certificates.der_of_certificate(ca))
    if given.get("client_cert_file"):
        certificate = read_file("client_cert_file", given, name, folder, certificates.certificate)
        key = read_file("client_key_file", given, name, folder, certificates.private_key)
        if not certificates.belong_together(certificate, key):
            raise ToolError(
                f"{name}: key 'client_key_file' names a key that is not the one of "
                "'client_cert_file'; give its own"
            )
        found["client_cert_file"] = _named("client", certificates.der_of_certificate(certificate))
        found["client_key_file"] = _named("key", certificates.der_of_key(key))
    return found


def read_file(
    key: str, given: dict[str, Any], name: str, folder: Path, parse: Callable[[bytes], Any]
) -> Any:
    """Return the result of `parse` for the file that the key names. Raises ToolError."""
    path = folder / given[key]
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise ToolError(
            f"{name}: key '{key}' names '{given[key]}', which cannot be read: {error.strerror}; "
            "put it there"
        ) from None
    except ValueError as error:
        raise ToolError(f"{name}: key '{key}' names '{given[key]}', {error}") from None


def _authority(text: bytes, name: str) -> Any:
    try:
        return certificates.certificate(text)
    except ValueError as error:
        raise ToolError(
            f"{name}: --credentials has a certificate of the authority, {error}"
        ) from None


def _named(what: str, der: bytes) -> tuple[str, bytes]:
    return f"{SECRETS}/{what}-{hashlib.sha256(der).hexdigest()[:8]}.der", der

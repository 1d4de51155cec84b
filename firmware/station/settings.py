"""The device's settings: one JSON file, whose keys are all checked before anything else happens.

A fault raises ValueError with one line that names the key.
"""

import json

# key: (type or allowed values, default, least, most); text and lists by length;
# default None = must be given
_KEYS = {
    "device_id": (str, None, 1, 32),
    "broker_host": (str, None, 1, 255),
    "broker_port": (int, 1883, 1, 65535),
    "user": (str, "", 0, 64),
    "password": (str, "", 0, 128),
    "topic_prefix": (str, "outpost", 1, 64),
    "keep_alive_s": (int, 60, 0, 65535),
    "level": ((3, 4, 5), 4, 0, 0),  # of MQTT: 3.1, 3.1.1 or 5.0
    "mode": (("collector", "broker"), "collector", 0, 0),
    # how the confirmation comes: as a retained message, or with QoS 1 from the session's queue
    "confirmation": (("retained", "queued"), "retained", 0, 0),
    # online, offline (its will) or asleep, retained, on <prefix>/<device>/state
    "say_state": (bool, False, 0, 0),
    "confirm_timeout_ms": (int, 10_000, 100, 86_400_000),
    "interval_ms": (int, 10_000, 1, 86_400_000),
    "deep_sleep": (bool, False, 0, 0),  # between measurements
    "connect_every": (int, 1, 1, 10_000),  # measurements, with deep_sleep
    "wake_limit_ms": (int, 30_000, 1000, 3_600_000),  # longest wake
    "encoding": (("json", "cbor"), "json", 0, 0),  # of messages; cbor: two thirds of the bytes
    # measurements as samples, each durable at once, many in a message: station/SERIES.md
    "series": (bool, False, 0, 0),
    "series_age_s": (int, 600, 1, 950_400),  # how long a sample may wait to be sent, when connected
    "alarms": (dict, None, 1, 16),  # reading: {"below": 5, "above": 30}; reported at once
    "commands": (bool, False, 0, 0),  # take them over MQTT: station/COMMANDS.md
    # 64 hex digits: updates over MQTT that are signed with it: station/UPDATES.md
    "update_key": (str, "", 0, 64),
    "sensors": (list, None, 1, 16),
    "outbox_blocks": (int, 64, 2, 4096),
    # a full outbox: refuse new messages, drop the oldest, or keep the newest (mode "broker" only)
    "when_full": (("refuse", "drop_oldest", "newest_per_topic"), "refuse", 0, 0),
    "tls": (bool, False, 0, 0),  # false: plain TCP
    "ca_file": (str, "", 0, 255),
    "client_cert_file": (str, "", 0, 255),
    "client_key_file": (str, "", 0, 255),
    "server_name": (str, "", 0, 255),  # in the server's certificate; default broker_host
    "alpn": (str, "", 0, 32),  # protocol name in the TLS handshake; stock MicroPython refuses it
    "wifi_ssid": (str, "", 0, 32),
    "wifi_password": (str, "", 0, 64),
    "wifi_networks": (list, None, 1, 8),  # in place of those two: boards/support/wifi_networks.py
    "wifi_country": (str, "", 0, 2),
    "ntp_host": (str, "pool.ntp.org", 1, 253),
}
_OPTIONAL = ("sensors", "wifi_networks", "alarms")
_TLS_PORT = 8883
_FAR = 1_000_000_000  # beyond every limit of an alarm; no NaN is within
_NAME_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_MOST_NAME = 24  # of a sensor
_LEAST_NEWEST = 4


class SettingsError(ValueError):
    """One line: the file, the key, what is wrong, what to do."""


def load(path):
    """The settings as a dict with every key present. Raises SettingsError."""
    try:
        with open(path) as file:
            text = file.read().strip()
        given = json.loads(text)
    except OSError:
        raise SettingsError(path + ": not found; write it with at least device_id and broker_host")
    except ValueError:
        raise SettingsError(path + ": not JSON; check quotes, commas and braces")
    # MicroPython's json accepts a file that ends too early
    if text[-1:] not in ("}", "]"):
        raise SettingsError(path + ": not JSON; it ends in the middle")
    if not isinstance(given, dict):
        raise SettingsError(path + ": must be one JSON object {...}")
    return check(given, path)


def check(given, path="settings"):
    """As load(), from a dict."""
    for key in given:
        if key not in _KEYS:
            raise SettingsError(
                path + ": unknown key '" + key + "'; known: " + ", ".join(sorted(_KEYS))
            )
    settings = {}
    for key, rule in _KEYS.items():
        if key in given:
            fault = _fault(given[key], rule) or _MORE.get(key, _no_fault)(given[key])
            if fault:
                raise SettingsError(path + ": key '" + key + "' " + fault)
        elif rule[1] is None and key not in _OPTIONAL:
            raise SettingsError(path + ": key '" + key + "' is missing; add it")
        settings[key] = given.get(key, rule[1])
    fault = _misfit(settings)
    if fault:
        raise SettingsError(path + ": " + fault)
    _fill_in(settings, given)
    return settings


def _fill_in(settings, given):
    """Set what follows from other keys."""
    if settings["tls"] and "broker_port" not in given:
        settings["broker_port"] = _TLS_PORT
    settings["server_name"] = settings["server_name"] or settings["broker_host"]


def _misfit(settings):
    """Returns which keys do not fit together, or "".

    A key for TLS without TLS is a fault too, because its writer believes the link to be safe.
    """
    for key in ("ca_file", "client_cert_file", "client_key_file", "server_name", "alpn"):
        if settings[key] and not settings["tls"]:
            return "key '" + key + "' needs 'tls': true; add it, or leave the key out"
    if settings["tls"] and not settings["ca_file"]:
        return (
            "key 'tls' is true, but 'ca_file' is missing; "
            "name the file with the certificate that signs the broker's"
        )
    if settings["wifi_networks"] and (settings["wifi_ssid"] or settings["wifi_password"]):
        return "key 'wifi_networks' has its own ssid and password; leave out those of one network"
    if bool(settings["client_cert_file"]) != bool(settings["client_key_file"]):
        return "key 'client_cert_file' and key 'client_key_file' belong together; give both or none"
    if settings["password"] and not settings["user"]:
        return "key 'password' needs 'user', without which no server takes it; add it"
    if settings["connect_every"] > 1 and not settings["deep_sleep"]:
        return "key 'connect_every' needs 'deep_sleep': true; add it, or leave the key out"
    return _series_misfit(settings) or _policy_misfit(settings) or _update_misfit(settings)


def _series_misfit(settings):
    if settings["series"]:
        return ""
    for key in ("series_age_s", "alarms"):
        if settings[key] != _KEYS[key][1]:
            return "key '" + key + "' needs 'series': true; add it, or leave the key out"
    return ""


def _policy_misfit(settings):
    if settings["when_full"] != "newest_per_topic":
        return ""
    if settings["mode"] == "collector":
        return (
            "key 'when_full' is 'newest_per_topic', which needs 'mode': 'broker': a collector "
            "follows each number; or use 'drop_oldest'"
        )
    for key in ("series", "commands"):
        if settings[key]:
            return (
                "key '" + key + "' needs another 'when_full', which keeps each number: "
                "'drop_oldest'"
            )
    if settings["outbox_blocks"] < _LEAST_NEWEST:
        return "key 'outbox_blocks' must be 4 or more with 'when_full': 'newest_per_topic'"
    return ""


def _update_misfit(settings):
    if settings["update_key"] and not settings["commands"]:
        return "key 'update_key' needs 'commands': true; add it, or leave the key out"
    return ""


def _fault(value, rule):
    kind, _, least, most = rule
    if isinstance(kind, tuple):
        return (
            ""
            if value in kind and type(value) is type(kind[0])  # 4.0 == 4
            else "must be one of " + ", ".join([repr(v) for v in kind]) + ", not " + repr(value)
        )
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        names = {
            int: "a whole number", str: "text", list: "a list", bool: "true or false",
            dict: "an object",
        }  # fmt: skip
        # text is not shown: it may be a password
        return "must be " + names[kind] + ("" if kind is str else ", not " + repr(value))
    if isinstance(value, bool):
        return ""
    size = value if kind is int else len(value)
    if not least <= size <= most:
        return (
            "must be "
            + ("" if kind is int else "of length ")
            + str(least)
            + " to "
            + str(most)
            + ", not "
            + str(size)
        )
    return ""


def _no_fault(value):
    return ""


def _id_fault(value):
    for character in value:
        if character not in _NAME_CHARACTERS:
            return "may hold A-Z a-z 0-9 _ . - only, not " + repr(character)
    return ""


def _prefix_fault(value):
    for character in "+#\0":
        if character in value:
            return "may not hold " + repr(character) + ", which no topic has"
    return ""


def _key_fault(value):
    if value and (len(value) != 64 or not _holds_only(value, "0123456789abcdef")):
        return "must be 64 hex digits; `outpost update --new-key` prints such a key"
    return ""


def _sensors_fault(sensors):
    """A sensor is a name, or an object for a driver file, which checks the rest of its keys."""
    names = []
    for sensor in sensors:
        given = sensor if isinstance(sensor, dict) else {"name": sensor, "driver": "a"}
        driver = given.get("driver")
        name = given.get("name", driver)
        if not isinstance(sensor, (dict, str)) or not isinstance(driver, str):
            return 'must hold names in quotes, or {"driver": ..., "name": ..., ...}, not ' + repr(
                sensor
            )
        if not driver or not _holds_only(driver, "abcdefghijklmnopqrstuvwxyz0123456789_"):
            return "names the driver " + repr(driver) + "; it may hold a-z 0-9 _ only"
        if not isinstance(name, str) or not 0 < len(name) <= _MOST_NAME:
            return "holds a sensor whose name is not text of 1 to 24 characters"
        if isinstance(sensor, dict) and not _holds_only(name, _NAME_CHARACTERS):
            return "names the sensor " + repr(name) + "; it may hold A-Z a-z 0-9 _ . - only"
        if name in names:
            return "has two sensors named " + repr(name) + "; give each a 'name' of its own"
        names.append(name)
    return ""


def _alarms_fault(alarms):
    """The board checks at its start whether it has these readings."""
    for name, limits in alarms.items():
        if not isinstance(limits, dict) or not limits:
            return 'must hold {"below": ..., "above": ...}, or one of them, for \'' + name + "'"
        for key, limit in limits.items():
            if key not in ("below", "above"):
                return "has '" + name + "' with the key '" + key + "'; known: above, below"
            if isinstance(limit, bool) or not isinstance(limit, (int, float)):
                return "must hold a number as '" + key + "' of '" + name + "'"
            if not -_FAR < limit < _FAR:
                return "has '" + name + "' with a '" + key + "' that no reading can have"
        if len(limits) == 2 and limits["below"] >= limits["above"]:
            return "has '" + name + "' with a 'below' that is not less than its 'above'"
    return ""


def _holds_only(text, characters):
    for character in text:
        if character not in characters:
            return False
    return True


_MORE = {
    "device_id": _id_fault, "topic_prefix": _prefix_fault, "sensors": _sensors_fault,
    "alarms": _alarms_fault, "update_key": _key_fault,
}  # fmt: skip

"""Home Assistant's rules for a discovery message of the device form, as its code has them: 2025.1,
homeassistant/components/mqtt (discovery.py: TOPIC_MATCHER; schemas.py: DEVICE_DISCOVERY_SCHEMA;
sensor.py, binary_sensor.py: DISCOVERY_SCHEMA; util.py: valid_topic) and components/sensor/const.py
(DEVICE_CLASS_UNITS, DEVICE_CLASS_STATE_CLASSES). These are the rules for the options that we use,
and any other option is a fault; the package itself runs in `make home-assistant`.
"""

import json
import re

TOPIC = re.compile(
    r"(?P<component>\w+)/(?:(?P<node_id>[a-zA-Z0-9_-]+)/)?(?P<object_id>[a-zA-Z0-9_-]+)/config"
)
DEVICE = {"identifiers", "name", "manufacturer", "model", "sw_version"}
TOP = {"device", "origin", "availability", "availability_mode", "components"}
SENSOR = {
    "platform", "name", "unique_id", "state_topic", "unit_of_measurement", "device_class",
    "state_class", "entity_category", "expire_after",
}  # fmt: skip
BINARY_SENSOR = {
    "platform", "name", "unique_id", "state_topic", "payload_on", "payload_off",
    "entity_category", "expire_after",
}  # fmt: skip
CLASS_UNITS = {
    "apparent_power": {"VA"},
    "battery": {"%"},
    "carbon_dioxide": {"ppm"},
    "current": {"A", "mA"},
    "data_size": {"bit", "B", "kB", "KiB", "MB", "MiB"},
    "distance": {"km", "m", "cm", "mm", "mi", "nmi", "yd", "in"},
    "duration": {"d", "h", "min", "s", "ms"},
    "energy": {"J", "kJ", "MJ", "GJ", "mWh", "Wh", "kWh", "MWh"},
    "frequency": {"Hz", "kHz", "MHz", "GHz"},
    "humidity": {"%"},
    "illuminance": {"lx"},
    "irradiance": {"W/m²", "BTU/(h⋅ft²)"},
    "ph": {None},
    "pm1": {"µg/m³"},
    "pm10": {"µg/m³"},
    "pm25": {"µg/m³"},
    "power": {"W", "kW", "MW", "GW", "TW"},
    "pressure": {"Pa", "hPa", "kPa", "bar", "cbar", "mbar", "mmHg", "inHg", "psi"},
    "reactive_power": {"var"},
    "signal_strength": {"dB", "dBm"},
    "speed": {"ft/s", "in/d", "in/h", "in/s", "km/h", "kn", "m/s", "mph", "mm/d", "mm/s"},
    "temperature": {"°C", "°F", "K"},
    "voltage": {"V", "mV", "µV", "kV", "MV"},
    "weight": {"kg", "g", "mg", "µg", "oz", "lb", "st"},
}
STATE_CLASSES = {"measurement", "total", "total_increasing"}


def check(topic: str, payload: bytes, prefix: str = "homeassistant") -> dict:
    """The message, when Home Assistant takes it; AssertionError says why not."""
    match = TOPIC.match(topic.removeprefix(f"{prefix}/"))
    assert match and match["component"] == "device" and not match["node_id"], topic
    given = json.loads(payload)
    assert set(given) <= TOP and {"device", "origin", "components"} <= set(given), set(given)
    device = given["device"]
    assert set(device) <= DEVICE and device["identifiers"], device
    assert all(isinstance(one, str) for one in (*device["identifiers"], device["name"]))
    assert isinstance(given["origin"]["name"], str)
    assert given["availability_mode"] in ("all", "any", "latest")
    for one in given["availability"]:
        assert set(one) <= {"topic", "value_template"}, one
        check_subscription(one["topic"])
    # a component that is removed has its platform alone (discovery.py)
    made = [one for one in given["components"].values() if set(one) != {"platform"}]
    ids = [check_sensor(one) for one in made]
    assert len(set(ids)) == len(ids)
    return given


def check_sensor(one: dict) -> str:
    platform = one["platform"]
    assert platform in ("sensor", "binary_sensor") and one["unique_id"]
    assert set(one) <= (SENSOR if platform == "sensor" else BINARY_SENSOR), set(one)
    if platform == "binary_sensor":
        assert all(isinstance(one[key], str) for key in ("payload_on", "payload_off"))
    check_subscription(one["state_topic"])
    assert isinstance(one["name"], str)
    unit, kind, state = (
        one.get(key) for key in ("unit_of_measurement", "device_class", "state_class")
    )
    assert kind is None or unit in CLASS_UNITS[kind], (kind, unit)
    assert state is None or state in STATE_CLASSES
    assert kind != "energy" or state != "measurement"
    assert one.get("entity_category") in (None, "diagnostic", "config")
    expire = one.get("expire_after", 1)
    assert type(expire) is int and expire > 0
    return one["unique_id"]


def check_subscription(topic: str) -> None:
    assert topic and len(topic.encode()) <= 65535 and "\0" not in topic
    assert not any(character in topic for character in "+#"), topic  # ours name one topic each

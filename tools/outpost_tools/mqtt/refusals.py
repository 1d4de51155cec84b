"""Why a broker refuses a connection (the code of its CONNACK) or ends one (the code of its
DISCONNECT), and what to do, in the words of all commands. Knows codes, no network.

paho maps the codes of MQTT 3.1.1 (1 to 5) to those of 5.0, which has more.
"""

from __future__ import annotations

from typing import Any

LOGIN = (
    "check --user and --password-file, or --credentials; has this user been revoked, or may it not "
    "use this --id? users of `outpost broker` need --credentials"
)
LEVEL = "it does not speak this version of MQTT"
# For a connection that serves a single request, and for brokers that refuse a longer one. No broker
# that we know allows less: mosquitto's max_keepalive is at least 10 s.
SHORT_KEEP_ALIVE_S = 10

UNSUPPORTED_VERSION, BAD_IDENTIFIER = 0x84, 0x85
_BAD_LOGIN, _NOT_AUTHORIZED = 0x86, 0x87
# In MQTT 3.1.1, mosquitto sends this code for a keep alive that is too long, because there is no
# other. It may also set session present, which [MQTT-3.2.2-4] forbids.
_IDENTIFIER = (
    "it does not take this client identifier, or its limit of the keep alive (mosquitto: "
    "max_keepalive) is lower than ours: see its log"
)
_LOG = "the broker's log may say why"
_OF_BOTH = {  # of CONNACK and DISCONNECT
    0x89: "it has too much to do, or too many clients",
    0x97: "a quota of the broker is used up: connections or messages of this user",
    0x9C: "it names another server for now: see its configuration",
    0x9D: "it has moved to another server: see its configuration",
    0x9F: "it limits how often clients connect: wait, and look for a client that reconnects often",
}
_HINTS = {
    **_OF_BOTH,
    0x80: _LOG,
    0x81: f"it could not read our CONNECT; {_LOG}",
    0x82: f"it calls our CONNECT a protocol error; {_LOG}",
    0x83: _LOG,
    BAD_IDENTIFIER: _IDENTIFIER,
    0x88: "the broker runs, but takes no clients now; see its log",
    0x8A: "it bans this client: see its configuration",
    0x8C: "it wants a login of another kind than user and password",
    0x90: "it does not allow the topic of our will: check the rights of this user",
    0x95: "our CONNECT or will is longer than its maximum packet size: raise that",
    0x99: "it does not take the payload of our will",
    0x9A: "it does not take retained messages, and our will is one: allow RETAIN there",
    0x9B: "it does not take the QoS of our will: allow QoS 1 there",
}

_MQTT_5 = 5
RETAIN_NOT_SUPPORTED, QOS_NOT_SUPPORTED = 0x9A, 0x9B  # in CONNACK: of our will
TAKEN_OVER = 0x8E
# Codes of DISCONNECT, MQTT 5.0 section 3.14.2.1. MQTT 3.1.1 has none of them.
_ENDS = {
    **_OF_BOTH,
    0x81: f"it could not read a packet of ours; {_LOG}",
    0x82: f"it calls a packet of ours a protocol error; {_LOG}",
    0x87: "this user may not do what we did: check its rights",
    0x8B: "it is being stopped",
    0x8D: "it did not hear from us in time: is the network slow?",
    TAKEN_OVER: "another client with this identifier has connected",
    0x90: "it does not allow a topic of ours: check the rights of this user",
    0x93: "it takes fewer messages at once than we sent",
    0x95: "a message of ours is longer than its maximum packet size: raise that",
    0x96: "it limits how many messages a client may send",
    0x98: "its administrator ended this connection",
    0x99: "it does not take the payload of a message of ours",
    RETAIN_NOT_SUPPORTED: "it does not take retained messages: allow RETAIN there",
    QOS_NOT_SUPPORTED: "it does not take the QoS of a message of ours: allow QoS 1 there",
    0x9E: "it has no shared subscriptions: leave --share out",
    0xA0: "it limits how long a connection may last",
    0xA1: "it has no subscription identifiers",
    0xA2: "it has no wildcard subscriptions",
}


def why_ended(reason: Any) -> str:
    """The reason of a DISCONNECT in words, and if possible what to do. reason: paho's; if it is not
    a code from the broker, it is all that is known."""
    more = _ENDS.get(reason.value) if getattr(reason, "value", 0) >= 0x80 else None
    return f"{reason}; {more}" if more else str(reason)


def why_code(code: int, mqtt_level: int, **words: str) -> str:
    """As why(), for the code in the bytes of a CONNACK. mqtt_level: 3, 4 or 5."""
    from paho.mqtt.client import convert_connack_rc_to_reason_code
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.reasoncodes import ReasonCode

    if mqtt_level != _MQTT_5:
        return why(convert_connack_rc_to_reason_code(code), **words)
    try:
        return why(ReasonCode(PacketTypes.CONNACK, identifier=code), **words)
    except (KeyError, ValueError):  # paho lacks some that the standard has
        return f"code {code:#x}; {_HINTS.get(code, _LOG)}"


def why(reason: Any, *, login: str = LOGIN, level: str = LEVEL) -> str:
    """The code in words, and what to do. reason: paho's ReasonCode. login: what to do if user or
    password is the reason. level: the same for the version of MQTT."""
    hints = {_BAD_LOGIN: login, _NOT_AUTHORIZED: login, UNSUPPORTED_VERSION: level}
    return f"{reason}; {(hints | _HINTS).get(reason.value, _LOG)}"

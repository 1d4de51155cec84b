"""What an MQTT 5.0 server allows, according to the properties of its CONNACK (section 3.2.2.3), and
what to report if we want more. Knows no network. A 3.1.1 server states no limits, so everything is
allowed.

The keep alive that the server states is not handled here, because paho obeys it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WORDS = {
    "retain": "it takes no retained messages (mosquitto: retain_available false), so ours go out "
    "without RETAIN and reach only those who are connected at that moment",
    "qos": "its maximum QoS is {maximum_qos}: a message is lost if the connection breaks",
    "size": "its maximum packet size is {packet_bytes} bytes: a message of {found} bytes on "
    "{topic} was not sent. Raise the limit there (mosquitto: max_packet_size)",
    "wildcard": "it has no wildcard subscriptions, so nothing will come on {topic}: allow them "
    "there, or use another broker",
    "shared": "it has no shared subscriptions, so nothing will come on {topic}: leave --share out",
}


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """packet_bytes: the largest packet; 0: no limit. receive_maximum: how many of our messages with
    QoS 1 or 2 may be in flight."""

    has_retain: bool = True
    maximum_qos: int = 2
    receive_maximum: int = 65535
    packet_bytes: int = 0
    has_wildcard: bool = True
    has_shared: bool = True

    def forbidden(self, name: str) -> str:
        """Why we must not subscribe to this filter, as a key of WORDS; "" if we may."""
        if not self.has_shared and name.startswith("$share/"):
            return "shared"
        return "wildcard" if not self.has_wildcard and ("+" in name or "#" in name) else ""

    def words(self, kind: str, topic: str = "", found: int = 0) -> str:
        """kind: a key of WORDS."""
        own = {"maximum_qos": self.maximum_qos, "packet_bytes": self.packet_bytes}
        return WORDS[kind].format(topic=topic, found=found, **own)


def of(properties: Any) -> ServerLimits:
    """properties: those of a CONNACK, as paho returns them; None in MQTT 3.1.1."""

    def value(name: str, default: int) -> int:
        return getattr(properties, name, default)

    return ServerLimits(
        bool(value("RetainAvailable", 1)),
        value("MaximumQoS", 2),
        value("ReceiveMaximum", 65535),
        value("MaximumPacketSize", 0),
        bool(value("WildcardSubscriptionAvailable", 1)),
        bool(value("SharedSubscriptionAvailable", 1)),
    )

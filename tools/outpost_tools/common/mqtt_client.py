"""paho's client, reading and writing many packets at a time.

paho made three system calls for each packet, wrote each PUBACK separately, and read as many packets
at once as it had messages of its own in flight, whatever the limit. `loop_read()` here reads ahead
and takes one packet from what it read. `read_publishes()` takes all PUBLISH packets at once and
leaves only the others to paho: it needs a tenth of paho's time per message.

They depend on paho's private names, so paho is pinned, and host_tests/tools/test_mqtt_connection.py
checks them.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

import paho.mqtt.client as mqtt

from outpost_tools.common import mqtt_packets, mqtt_properties
from outpost_tools.common.mqtt_packets import Publish

_READ_AHEAD_BYTES = 64 * 1024
_READ_BYTES = 256 * 1024


class Client(mqtt.Client):
    """paho's client with a read buffer: one packet per loop_read() or many PUBLISH packets per
    read_publishes(), and one write for many PUBACKs."""

    _ahead = b""
    _at = 0
    _begun: list[bytes]  # of a packet that has not arrived completely
    _begun_bytes = _wanted_bytes = 0
    # MQTT 5.0: called with topic, payload and properties of each message that has properties
    on_properties: Callable[[bytes, bytes, bytes], None] | None = None

    @property
    def is_5(self) -> bool:
        """True if it speaks MQTT 5.0."""
        return self._protocol == mqtt.MQTTv5

    @property
    def has_read_ahead(self) -> bool:
        """True if bytes wait here, or in the TLS layer, where select() does not see them."""
        socket = self.socket()
        return self._at < len(self._ahead) or (
            isinstance(socket, ssl.SSLSocket) and socket.pending() > 0
        )

    def reconnect(self) -> mqtt.MQTTErrorCode:
        self._ahead, self._at = b"", 0
        self._begin_with(b"", 0)
        return super().reconnect()

    def loop_read(self, max_packets: int = 1) -> mqtt.MQTTErrorCode:
        if self._sock is None:
            return mqtt.MQTT_ERR_NO_CONN
        status = self._packet_read()
        return self._loop_rc_handle(status) if status > 0 else mqtt.MQTT_ERR_SUCCESS

    def read_publishes(self) -> list[Publish] | None:
        """The PUBLISH packets that one read of the socket completed; all others go to paho. None
        when there was nothing to read, or the connection is gone."""
        data = self._read_some()
        if not data:
            return None
        self._begun.append(data)
        self._begun_bytes += len(data)
        if self._begun_bytes < self._wanted_bytes:
            return []
        data = b"".join(self._begun)
        try:
            found = mqtt_packets.split(data)
            publishes = found.publishes
            if self.is_5:
                publishes = [self._plain(one) for one in publishes]
        except mqtt_packets.MalformedError:
            self._loop_rc_handle(mqtt.MQTT_ERR_PROTOCOL)
            return None
        self._begin_with(data[found.end :], found.wanted)
        for packet in found.others:
            self._ahead, self._at = packet, 0
            self.loop_read()
        return None if self._sock is None else publishes

    def _plain(self, publish: Publish) -> Publish:
        """Removes the properties that MQTT 5.0 has before the payload. Raises MalformedError."""
        kind, topic, packet_id, data = publish
        properties, payload = mqtt_properties.cut(data)
        if properties and self.on_properties:
            self.on_properties(topic, payload, properties)
        return kind, topic, packet_id, payload

    def _read_some(self) -> bytes:
        """Empty when nothing is there; at the end of the stream it closes the connection."""
        if self._sock is None:
            return b""
        try:
            data = super()._sock_recv(_READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self._last_bytes_received = mqtt.time_func()  # for the keep alive
        if not data:
            self._loop_rc_handle(mqtt.MQTT_ERR_CONN_LOST)
        return data

    def _begin_with(self, data: bytes, wanted_bytes: int) -> None:
        self._begun, self._begun_bytes, self._wanted_bytes = [data], len(data), wanted_bytes

    def _sock_recv(self, bufsize: int) -> bytes:
        if self._at >= len(self._ahead):
            self._ahead, self._at = super()._sock_recv(max(bufsize, _READ_AHEAD_BYTES)), 0
        at = self._at
        self._at = min(at + bufsize, len(self._ahead))
        return self._ahead[at : self._at]

    def ack_all(self, packet_ids: list[bytes]) -> None:
        """PUBACK for each (an identifier as its two bytes), in one write."""
        self._send(mqtt_packets.pubacks(packet_ids))

    def publish_all(self, messages: list[tuple[bytes, bytes]], *, retain: bool = True) -> None:
        """Publish (topic, payload) pairs with QoS 0, in one write."""
        none = b"\0" if self.is_5 else b""  # properties
        packets = [mqtt_packets.publish(one, none + data, retain=retain) for one, data in messages]
        self._send(b"".join(packets))

    def say_goodbye(self) -> None:
        """DISCONNECT, but without closing the socket right after it, as paho does."""
        if self._sock is not None:
            self._send(b"\xe0\x00")

    def read_away(self) -> bool:
        """Read and discard; False at the end of the stream."""
        try:
            return self._sock is not None and bool(super()._sock_recv(_READ_AHEAD_BYTES))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _send(self, packets: bytes) -> None:
        if packets:
            # for paho this is one packet, of a kind that it only writes
            self._packet_queue(mqtt.PUBACK, packets, 0, 1)

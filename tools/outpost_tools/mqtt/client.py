"""paho's client, reading and writing many packets at a time.

By itself, paho makes three system calls for each packet, writes each PUBACK separately, and reads
as many packets at once as it has messages of its own in flight, whatever the limit. Here,
`loop_read()` reads ahead and takes one packet from what it read. `read_publishes()` takes all
PUBLISH packets at once and leaves only the others to paho: it needs a twentieth of paho's time per
message (host_tests/bench/paho_ways.py), which is why paho's private names are worth their risk.

So paho is pinned, host_tests/tools/mqtt/test_mqtt_connection.py checks these names, and
host_tests/repository/test_private_names.py lists them.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

import paho.mqtt.client as mqtt

from outpost_tools.mqtt import packets as mqtt_packets
from outpost_tools.mqtt import properties as mqtt_properties
from outpost_tools.mqtt.packets import Publish
from outpost_tools.mqtt.server_limits import ServerLimits

_READ_AHEAD_BYTES = 64 * 1024
_READ_BYTES = 256 * 1024
_BEGINNING_BYTES = 64
# The most that a PUBLISH has besides topic and payload: fixed header, lengths, identifier,
# properties.
_HEAD_BYTES = 10
_IN_FLIGHT = 20  # paho's default


class Client(mqtt.Client):
    """paho's client with a read buffer: one packet per loop_read() or many PUBLISH packets per
    read_publishes(), and one write for many PUBACKs.

    Obeys `server`, the limits that the broker's CONNACK states. began_with: the first bytes that
    came on this connection. end_error: the error that ended its stream."""

    _ahead = b""
    _at = 0
    _begun: list[bytes]  # of a packet that has not arrived completely
    _begun_bytes = _wanted_bytes = 0
    # MQTT 5.0: called with topic, payload and properties of each message that has properties
    on_properties: Callable[[bytes, bytes, bytes], None] | None = None
    # called if the broker does not allow what we want: with a key of server_limits.WORDS, the
    # topic, the size in bytes
    on_limit: Callable[[str, str, int], None] | None = None
    server = ServerLimits()
    began_with = b""
    end_error: OSError | None = None

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

    def speak(self, version: int) -> None:
        """Sets the version of MQTT, from the next connection on."""
        self._protocol = version

    def allow(self, server: ServerLimits) -> None:
        """Sets what the broker of this connection allows."""
        self.server = server
        # paho's own property refuses a change during a connection, but one from a value above 0 to
        # another is safe
        self._max_inflight_messages = min(server.receive_maximum, _IN_FLIGHT)

    def reconnect(self) -> mqtt.MQTTErrorCode:
        self._ahead, self._at = b"", 0
        self.began_with, self.end_error = b"", None
        self._begin_with(b"", 0)
        return super().reconnect()

    def loop_read(self, max_packets: int = 1) -> mqtt.MQTTErrorCode:
        if self._sock is None:
            return mqtt.MQTT_ERR_NO_CONN
        status = self._packet_read()
        return self._loop_rc_handle(status) if status > 0 else mqtt.MQTT_ERR_SUCCESS

    def read_publishes(self) -> list[Publish] | None:
        """The PUBLISH packets that one read of the socket completed; all others go to paho. None if
        there was nothing to read, or the connection is gone."""
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
        """Removes the properties that precede the payload in MQTT 5.0. Raises MalformedError."""
        kind, topic, packet_id, data = publish
        properties, payload = mqtt_properties.cut(data)
        if properties and self.on_properties:
            self.on_properties(topic, payload, properties)
        return kind, topic, packet_id, payload

    def _read_some(self) -> bytes:
        """What one read of the socket returns; empty if nothing is there. Closes the connection at
        the end of the stream."""
        if self._sock is None:
            return b""
        try:
            data = super()._sock_recv(_READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError as error:
            data, self.end_error = b"", error
        self._last_bytes_received = mqtt.time_func()  # for the keep alive
        if not data:
            self._loop_rc_handle(mqtt.MQTT_ERR_CONN_LOST)
        self._remember(data)
        return data

    def _remember(self, data: bytes) -> None:
        if len(self.began_with) < _BEGINNING_BYTES:
            self.began_with += data[:_BEGINNING_BYTES]

    def _begin_with(self, data: bytes, wanted_bytes: int) -> None:
        self._begun, self._begun_bytes, self._wanted_bytes = [data], len(data), wanted_bytes

    def _sock_recv(self, bufsize: int) -> bytes:
        if self._at >= len(self._ahead):
            try:
                self._ahead, self._at = super()._sock_recv(max(bufsize, _READ_AHEAD_BYTES)), 0
            except BlockingIOError:
                raise
            except OSError as error:
                self.end_error = error
                raise
            self._remember(self._ahead)
        at = self._at
        self._at = min(at + bufsize, len(self._ahead))
        return self._ahead[at : self._at]

    def ack_all(self, packet_ids: list[bytes]) -> None:
        """Sends a PUBACK for each packet identifier (its two bytes), in one write."""
        self._send(mqtt_packets.pubacks(packet_ids))

    def publish_all(self, messages: list[tuple[bytes, bytes]], *, retain: bool = True) -> None:
        """Publishes (topic, payload) pairs with QoS 0, in one write."""
        none = b"\0" if self.is_5 else b""  # properties
        retain = retain and self._may_retain()
        packets = [
            mqtt_packets.publish(one, none + data, retain=retain)
            for one, data in messages
            if self._fits(one, data)
        ]
        self._send(b"".join(packets))

    def publish(self, topic, payload=None, qos=0, retain=False, properties=None):
        """As paho's method, but within what the broker allows. A message that is too long is not
        sent; `rc` of the returned object is then MQTT_ERR_PAYLOAD_SIZE."""
        data = payload.encode() if isinstance(payload, str) else payload or b""
        if not self._fits(topic.encode(), data):
            refused = mqtt.MQTTMessageInfo(0)
            refused.rc = mqtt.MQTT_ERR_PAYLOAD_SIZE
            return refused
        if qos > self.server.maximum_qos:
            qos = self.server.maximum_qos
            self._tell_limit("qos")
        retain = retain and self._may_retain()
        return super().publish(topic, payload, qos, retain, properties)

    def subscribe(self, topic, qos=0, options=None, properties=None):
        """As paho's method, but without the filters that the broker does not allow. The packet
        identifier is None if no filter is left."""
        wanted = topic if isinstance(topic, list) else [(topic, qos)]
        allowed = [one for one in wanted if not self._is_forbidden(one[0])]
        if not allowed:
            return mqtt.MQTT_ERR_SUCCESS, None
        return super().subscribe(
            allowed if isinstance(topic, list) else topic, qos, options, properties
        )

    def _is_forbidden(self, name: str) -> bool:
        why = self.server.forbidden(name)
        if why:
            self._tell_limit(why, name)
        return bool(why)

    def _may_retain(self) -> bool:
        if not self.server.has_retain:
            self._tell_limit("retain")
        return self.server.has_retain

    def _fits(self, topic: bytes, payload: bytes) -> bool:
        found = len(topic) + len(payload) + _HEAD_BYTES
        if not self.server.packet_bytes or found <= self.server.packet_bytes:
            return True
        self._tell_limit("size", topic.decode("utf-8", "replace"), found)
        return False

    def _tell_limit(self, kind: str, topic: str = "", found: int = 0) -> None:
        if self.on_limit is not None:
            self.on_limit(kind, topic, found)

    def say_goodbye(self) -> None:
        """Sends DISCONNECT without closing the socket right after it. paho would close it."""
        if self._sock is not None:
            self._send(b"\xe0\x00")

    def read_away(self) -> bool:
        """Reads and discards what came; False at the end of the stream."""
        try:
            return self._sock is not None and bool(super()._sock_recv(_READ_AHEAD_BYTES))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _send(self, packets: bytes) -> None:
        if packets:
            # paho takes this for a single packet, of a kind that it only has to write
            self._packet_queue(mqtt.PUBACK, packets, 0, 1)

"""The collector's MQTT connection: paho-mqtt, MQTT 3.1.1, fixed client id, persistent session, QoS 1, manual PUBACK.

One thread: take() waits, reads what has arrived and returns it; nothing is acknowledged before ack() is called.
"""

from __future__ import annotations

import random
import re
import select
import sys
import time
from dataclasses import dataclass

import paho.mqtt.client as mqtt

from outpost_tools.collect.durable import Key, key_of
from outpost_tools.segments import MAX_PAYLOAD_BYTES, encode_frame

KEEP_ALIVE_S = 30
CONNACK_TIMEOUT_S = 10.0
BACKOFF_FIRST_S = 0.1
BACKOFF_LAST_S = 5.0
# One group, one fsync. A group ends when the socket is dry; the limits bound its memory and the wait for its PUBACKs.
GROUP_MESSAGES = 1000
GROUP_S = 0.1
# paho's 20 would hold back confirmations for a fleet of hundreds.
CONFIRMATIONS_IN_FLIGHT = 1000


@dataclass(frozen=True, slots=True)
class Received:
    """One PUBLISH, ready for the log. `connection` counts connections: an id means nothing on a later one."""

    mid: int
    qos: int
    connection: int
    frame: bytes
    key: Key | None


class Link:
    """Connects by itself, with backoff, whenever take() finds no connection."""

    def __init__(self, host: str, port: int, client_id: str, prefix: str, *, credentials: tuple[str, str | None] | None) -> None:
        self._address = (host, port)
        self._filter = f"{prefix}/+/data"
        self._ours = re.compile(re.escape(prefix.encode()) + rb"/[^/]*/data\Z")
        self._group: list[Received] = []
        self._connection = 0
        self._backoff_s = BACKOFF_FIRST_S
        self._retry_at = 0.0
        self._connack_by = 0.0
        self.connected = False
        self.fresh = False  # set at each connection; the loop clears it when it has confirmed everything again
        self._client = client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=False, manual_ack=True
        )
        if credentials is not None:
            client.username_pw_set(*credentials)
        client.max_inflight_messages_set(CONFIRMATIONS_IN_FLIGHT)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message

    def take(self, wait_s: float) -> list[Received]:
        """What has arrived, after at most `wait_s` (or one connection attempt); empty when nothing has."""
        self._group = []
        if self._client.socket() is None:
            self._reconnect(wait_s)
            return []
        socket = self._client.socket()
        writers = [socket] if self._client.want_write() else []
        readable, writable, _ = select.select([socket], writers, [], wait_s)
        if writable:
            self._client.loop_write()
        if readable:
            self._read_group()
        self._keep()
        return self._group

    def ack(self, received: list[Received]) -> None:
        """PUBACK, for those that came on this connection; the broker sends the others again."""
        for message in received:
            if message.qos == 1 and message.connection == self._connection and self.connected:
                self._client.ack(message.mid, 1)

    def publish(self, topic: str, payload: bytes) -> None:
        """QoS 1, retained. Only while connected."""
        self._client.publish(topic, payload, qos=1, retain=True)

    def idle(self) -> None:
        """Keep the connection alive without reading: for when nothing can be stored."""
        if self._client.socket() is not None:
            self._client.loop_write()
            self._keep()

    @property
    def everything_published(self) -> bool:
        """Every publish() was acknowledged by the broker."""
        return not self._client._out_messages  # paho has no public way to ask this of the client

    def close(self) -> None:
        """DISCONNECT. The broker keeps the session and what is not acknowledged."""
        self.connected = False  # an end that was asked for is not reported as a loss
        self._client.disconnect()
        while self._client.socket() is not None and self._client.want_write():
            self._client.loop_write()

    def _read_group(self) -> None:
        """Packets until the socket is dry (a read that brings no message), or a limit."""
        until = time.monotonic() + GROUP_S
        while len(self._group) < GROUP_MESSAGES and time.monotonic() < until:
            before = len(self._group)
            if self._client.loop_read() != mqtt.MQTT_ERR_SUCCESS or len(self._group) == before:
                return

    def _keep(self) -> None:
        self._client.loop_misc()
        if not self.connected and self._client.socket() is not None and time.monotonic() > self._connack_by:
            self._say("no CONNACK, trying again")
            self._drop()

    def _reconnect(self, wait_s: float) -> None:
        wait = self._retry_at - time.monotonic()
        if wait > 0:
            time.sleep(min(wait, wait_s))
            return
        # Jitter: the collectors of a shared subscription should not come back all at once.
        self._retry_at = time.monotonic() + self._backoff_s * random.uniform(0.5, 1.0)
        self._backoff_s = min(self._backoff_s * 2, BACKOFF_LAST_S)
        self._connack_by = time.monotonic() + CONNACK_TIMEOUT_S
        try:
            self._client.connect(*self._address, keepalive=KEEP_ALIVE_S)
        except OSError as error:
            self._say(f"{error}; trying again")

    def _drop(self) -> None:
        """Close without DISCONNECT; paho has no public way but a new connection, which _reconnect() makes."""
        self._client._sock_close()
        self.connected = False

    def _on_connect(self, client: mqtt.Client, _userdata, flags, reason, _properties) -> None:
        if reason.is_failure:
            self._say(f"refused: {reason}; check --user and --password-file")
            return
        self.connected = self.fresh = True
        self._connection += 1
        self._backoff_s = BACKOFF_FIRST_S
        # Also into a session that is there: it may have been made by a collector that died before it subscribed.
        client.subscribe(self._filter, qos=1)
        self._say("connected" + (", session resumed" if flags.session_present else ", new session"))

    def _on_subscribe(self, _client, _userdata, _mid, reasons, _properties) -> None:
        refused = any(reason.is_failure for reason in reasons)
        self._say(f"refused to let us subscribe to {self._filter}" if refused else f"subscribed to {self._filter}")

    def _on_disconnect(self, _client, _userdata, _flags, reason, _properties) -> None:
        if self.connected:
            self._say(f"connection lost: {reason}")
        self.connected = False

    def _on_message(self, client: mqtt.Client, _userdata, message: mqtt.MQTTMessage) -> None:
        topic, payload = message._topic, message.payload  # .topic raises when it is not UTF-8
        if not self._ours.match(topic):
            # amqtt gives a session that comes back the retained messages of everybody's topics: our own confirmations.
            client.ack(message.mid, message.qos)
            return
        frame = encode_frame(time.time_ns() // 1_000_000, topic, payload, retain=message.retain, dup=message.dup)
        counts = not message.retain and len(payload) <= MAX_PAYLOAD_BYTES  # as in log.frame_key()
        key = key_of(topic, payload) if counts else None
        self._group.append(Received(message.mid, message.qos, self._connection, frame, key))

    def _say(self, text: str) -> None:
        print(f"broker {self._address[0]}:{self._address[1]}: {text}", file=sys.stderr, flush=True)

"""One MQTT connection driven by one thread: paho-mqtt, persistent session, QoS 1, manual
acknowledgement, automatic reconnection.

The first failure is reported with its cause, which comes from the code of CONNACK or DISCONNECT
(refusals.py), or from what answers at the address (causes.py). If a broker ends 3.1.1 connections
without a reason, we try MQTT 5.0, which has reason codes; if the broker speaks it, we continue with
it. What the broker's CONNACK does not allow is not done (server_limits.py).

A caller waits, reads what has arrived, and acknowledges when it wants to. Back-pressure means not
reading: if a caller does not call take(), the rest stays in the kernel's buffers and the broker's
queue.

There are two kinds: `message_connection.py` delivers one message at a time, as paho reads it;
`servers/collect/link.py` reads whole batches. Both speak MQTT 3.1.1 or 5.0.
"""

from __future__ import annotations

import random
import select
import ssl
import sys
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from outpost_tools.mqtt import causes, refusals, server_limits
from outpost_tools.mqtt.client import Client
from outpost_tools.mqtt.takeover import ADVICE, UNKNOWN, Takeovers
from outpost_tools.terminal.notices import Folded

# The second is for a broker that refuses the first, see _with_other_keep_alive().
KEEP_ALIVES_S = (30, refusals.SHORT_KEEP_ALIVE_S)
CONNACK_TIMEOUT_S = 10.0
BACKOFF_FIRST_S = 0.1
BACKOFF_LAST_S = 5.0
_LOOK_AGAIN_S = 60.0  # how long the result of probing an address is used again
_MUTE = "the connection was made, and ended without an answer to CONNECT; its log may say why"
_ONLY_3 = (
    "it ends connections without a reason, and does not speak MQTT 5.0, which gives one: see its "
    "log"
)
_NO_SESSION = (
    "the broker no longer has the session of {id!r}, which it had: it lost its state, the session "
    "expired, or another client with this id ended it. What it had queued is gone: boards in "
    "collector mode send it again, but messages of boards in broker mode may be lost"
)
_FOR_EVER = 0xFFFFFFFF
_CODE_AT = 3  # of CONNACK, with a remaining length of one byte
_NO_REASON = 0x80  # paho's code for an end without a DISCONNECT
# At the end, we wait this long for a broker that does not read our DISCONNECT.
CLOSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """When take() stops reading. The limits bound the memory for the messages, and how long they
    wait for their PUBACKs."""

    messages: int
    seconds: float
    bytes: int


class Connection:
    """Connects by itself, with backoff, if _serve() finds no connection. A subclass reads."""

    keeps_session = True  # at the broker, while we are disconnected
    keep_alive_s = KEEP_ALIVES_S[0]
    receive_maximum = 0  # MQTT 5: messages that the broker may have in flight; 0: no limit
    login_hint, level_hint = refusals.LOGIN, refusals.LEVEL  # what to do if the broker refuses them
    limit_hints: ClassVar[dict[str, str]] = {}  # by keys of server_limits.WORDS: what else to do

    def __init__(
        self,
        address: tuple[str, int],
        client_id: str,
        limits: Limits,
        *,
        version: int = mqtt.MQTTv311,
        credentials: tuple[str, str | None] | None = None,
        tls: ssl.SSLContext | None = None,
        had_session: bool = False,
        ways: causes.Ways = causes.OPTIONS,
    ) -> None:
        """had_session: the broker should have a session from an earlier run. ways: the words of
        this command for what to change."""
        self.connected = False
        self.takeovers = Takeovers()
        self.lost_sessions = 0
        self._had_session = had_session
        self._connected_at = 0.0
        self._taken_over = Folded(self._say)
        self._client_id = client_id
        self._address = address
        self._place = causes.Place(*address, tls, ways)
        self._limits = limits
        self._version = self._asked_version = version
        self._cause, self._look_at = "", 0.0
        # the attempt has no CONNACK yet; a CONNACK refused it; MQTT 5.0 has been tried
        self._is_open = self._is_refused = self._has_asked_5 = False
        self._told_limits: set[str] = set()
        self._will: tuple[str, bytes | None, int, bool] | None = None
        self._connection = 0  # counts connections: a packet id means nothing on a later one
        self._waiting = Folded(self._say)
        self._keep_alive_s = self.keep_alive_s
        self._backoff_s = BACKOFF_FIRST_S
        self._retry_at = self._connack_by = 0.0
        self._client = self._make_client(client_id)
        if credentials is not None:
            self._client.username_pw_set(*credentials)
        if tls is not None:
            self._client.tls_set_context(tls)

    def _make_client(self, client_id: str) -> Client:
        # version 5 sets this in connect()
        clean = {"clean_session": not self.keeps_session}
        session = {} if self._version == mqtt.MQTTv5 else clean
        client = Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=self._version,
            manual_ack=True,
            **session,
        )
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_limit = self._on_limit
        return client

    def set_will(
        self, topic: str, payload: bytes | None, *, qos: int = 0, retain: bool = False
    ) -> None:
        """Sets what the broker publishes when our connection breaks, from the next one on."""
        self._will = topic, payload, qos, retain
        self._client.will_set(topic, payload, qos, retain)

    def _serve(self, wait_s: float) -> None:
        """Writes, and calls _read() if something has arrived, after at most `wait_s`; or makes one
        connection attempt."""
        socket = self._client.socket()
        if socket is None:
            self._reconnect(wait_s)
            return
        ahead = self._client.has_read_ahead
        writers = [socket] if self._client.want_write() else []
        readable, writable, _ = select.select([socket], writers, [], 0 if ahead else wait_s)
        if writable:
            self._client.loop_write()
        if readable or ahead:
            self._read()
        self._keep()
        self._look_at_beginning()

    def idle(self) -> None:
        """Keeps the connection alive without reading, while nothing can be stored or put."""
        if self._client.socket() is not None:
            self._client.loop_write()
            self._keep()

    def close(self) -> None:
        """Sends DISCONNECT. The broker keeps the session and what is not acknowledged.

        Then it reads and discards what the broker still sends until it closes the connection,
        because a socket closed with unread bytes is reset, and a reset may overtake the last
        PUBACKs.
        """
        self.connected = False  # so that a requested end is not reported as a loss
        until = time.monotonic() + CLOSE_S
        self._client.say_goodbye()
        while (socket := self._client.socket()) is not None and time.monotonic() < until:
            writers = [socket] if self._client.want_write() else []
            readable, writable, _ = select.select([socket], writers, [], 0.1)
            if writable:
                self._client.loop_write()
            if readable and not self._client.read_away():
                break
        self._drop()

    def _keep(self) -> None:
        self._client.loop_misc()
        if (
            not self.connected
            and self._client.socket() is not None
            and time.monotonic() > self._connack_by
        ):
            self._drop()
            text = f"no CONNACK came within {CONNACK_TIMEOUT_S:g} s: is it an MQTT broker?"
            self._on_mute(text, has_ended=False)

    def _look_at_beginning(self) -> None:
        """Notices an attempt that ended before its CONNACK, or was answered with something other
        than MQTT."""
        if self.connected or self._is_refused or not self._is_open:
            return
        began_with = self._client.began_with
        if self._client.socket() is None:
            self._on_mute(_MUTE)
        elif began_with and began_with[0] not in (0x20, 0xE0, 0xF0):  # CONNACK, DISCONNECT, AUTH
            self._drop()
            self._on_mute(_MUTE)

    def _on_mute(self, otherwise: str, *, has_ended: bool = True) -> None:
        """Reports an attempt without a CONNACK. otherwise: what to report if probing finds no
        cause. has_ended: the peer ended the connection."""
        self._is_open = False
        self.takeovers.failed()
        if self._client.began_with[:1] == b"\x20" and len(self._client.began_with) >= _CODE_AT + 1:
            self._on_odd_connack(self._client.began_with)
            return
        if time.monotonic() >= self._look_at:
            self._cause = causes.of_end(
                self._place, self._client.began_with, self._client.end_error
            )
            self._look_at = time.monotonic() + _LOOK_AGAIN_S
        if self._cause:
            self._on_no_connection(self._cause)
        elif not has_ended or not self._ask_in_5():
            self._speak(self._asked_version)
            self._on_no_connection(otherwise)

    def _on_odd_connack(self, data: bytes) -> None:
        """Handles a CONNACK in the form of 3.1.1, although we asked in 5.0, or with a code that
        paho does not know."""
        if self._is_question and data[1] == _CODE_AT - 1:
            self._withdraw_question()
        else:
            self._on_refused(refusals.why_code(data[_CODE_AT], 5 if self._client.is_5 else 4))

    @property
    def _is_question(self) -> bool:
        """True while we speak 5.0 only because 3.1.1 gave no reason."""
        return self._version != self._asked_version

    def _withdraw_question(self) -> None:
        self._speak(self._asked_version)
        self._on_no_connection(_ONLY_3)

    def _ask_in_5(self) -> bool:
        """Tries MQTT 5.0 at the next connection, because 3.1.1 gave no reason. False if this was
        tried before, or we speak 5.0 already."""
        if self._version == mqtt.MQTTv5 or self._has_asked_5:
            return False
        self._has_asked_5 = True
        self._speak(mqtt.MQTTv5)
        self._retry_at = 0.0
        return True

    def _speak(self, version: int) -> None:
        self._version = version
        self._client.speak(version)

    def _reconnect(self, wait_s: float) -> None:
        wait = self._retry_at - time.monotonic()
        if wait > 0:
            time.sleep(min(wait, wait_s))
            return
        # With jitter, because the collectors of a shared subscription should not all reconnect at
        # once.
        self._retry_at = time.monotonic() + self._backoff_s * random.uniform(0.5, 1.0)
        self._backoff_s = min(self._backoff_s * 2, BACKOFF_LAST_S)
        self._connack_by = time.monotonic() + CONNACK_TIMEOUT_S
        self._is_open, self._is_refused = True, False
        try:
            self._client.connect(*self._address, keepalive=self._keep_alive_s, **self._session())
        except (
            OSError
        ) as error:  # also ssl.SSLError: without a valid certificate there is no connection
            self._is_open = False
            self.takeovers.failed()
            self._on_no_connection(causes.of_error(error, self._place))
        else:
            self._look_at_beginning()  # the peer may have closed before CONNECT was written

    def _session(self) -> dict[str, Any]:
        """Additional arguments of CONNECT for MQTT 5.0; version 3.1.1 has clean_session instead.
        Without an expiry, the broker would end the session together with the connection."""
        if self._version != mqtt.MQTTv5:
            return {}
        properties = Properties(PacketTypes.CONNECT)
        if self.keeps_session:
            properties.SessionExpiryInterval = _FOR_EVER
        if self.receive_maximum:
            properties.ReceiveMaximum = self.receive_maximum
        return {"clean_start": not self.keeps_session, "properties": properties}

    def _drop(self) -> None:
        """Closes the connection without DISCONNECT. paho's only public way to do so is to open a
        new connection, which _reconnect() does later."""
        self._client._sock_close()
        self.connected = False

    def _on_connect(self, client: mqtt.Client, _userdata, flags, reason, properties) -> None:
        self._is_open = False
        if reason.is_failure:
            self._is_refused = True
            self.takeovers.failed()
            self._refused(reason)
            return
        self._client.allow(server_limits.of(properties))
        self._cause, self._look_at = "", 0.0
        self._accepted(client, flags)

    def _refused(self, reason: Any) -> None:
        if reason.value == refusals.UNSUPPORTED_VERSION and self._is_question:
            self._withdraw_question()
            return
        if self._with_other_will(reason.value):
            return
        why = refusals.why(reason, login=self.login_hint, level=self.level_hint)
        self._on_refused(why + self._with_other_keep_alive(reason))

    def _accepted(self, client: mqtt.Client, flags: Any) -> None:
        self.connected = True
        self._connected_at = time.monotonic()
        self._connection += 1
        if not self.takeovers.is_unsteady:  # otherwise two clients would disconnect each other
            self._backoff_s = BACKOFF_FIRST_S
        # Also in a resumed session: it may come from a process that died before it subscribed.
        self._subscribe(client)
        session = "session resumed" if flags.session_present else "new session"
        self._greet(f"connected{self._waiting.over()}, {session}")
        if self.keeps_session and self._had_session and not flags.session_present:
            self.lost_sessions += 1
            self._say(_NO_SESSION.format(id=self._client_id))
        self._had_session = True

    def _with_other_will(self, code: int) -> bool:
        """Changes the will if the broker refused it: to one without RETAIN, or with QoS 0. Returns
        whether it was changed."""
        if self._will is None:
            return False
        topic, payload, qos, retain = self._will
        if code == refusals.RETAIN_NOT_SUPPORTED and retain:
            self._on_limit("retain")
            self.set_will(topic, payload, qos=qos)
        elif code == refusals.QOS_NOT_SUPPORTED and qos:
            self.set_will(topic, payload, retain=retain)
        else:
            return False
        self._retry_at = 0.0
        return True

    def _with_other_keep_alive(self, reason) -> str:
        """MQTT 3.1.1 has no code for a keep alive that is too long, so the next attempt uses the
        other one. In 5.0 the broker says which one applies, and paho obeys. Returns an addition to
        the report; "" if nothing changes."""
        is_other = self._version == mqtt.MQTTv5 or reason.value != refusals.BAD_IDENTIFIER
        if is_other or self.keep_alive_s == KEEP_ALIVES_S[1]:
            return ""
        self._keep_alive_s = KEEP_ALIVES_S[self._keep_alive_s == KEEP_ALIVES_S[0]]
        return f"; next with a keep alive of {self._keep_alive_s} s"

    def _on_no_connection(self, reason: str) -> None:
        self._waiting.tell(f"{reason}; trying again until it answers; Ctrl-C stops")

    def _on_refused(self, reason: str) -> None:
        """reason: in words, with what to do."""
        self._waiting.tell(f"refused: {reason}; trying again")

    def _on_limit(self, kind: str, topic: str = "", found: int = 0) -> None:
        """Reports what the broker does not allow, once for each kind."""
        if kind in self._told_limits:
            return
        self._told_limits.add(kind)
        more = self.limit_hints.get(kind, "")
        self._say(self._client.server.words(kind, topic, found) + (more and f". {more}"))

    def _on_disconnect(self, _client, _userdata, _flags, reason, _properties) -> None:
        if self.connected:
            self._say(f"connection lost: {refusals.why_ended(reason)}")
            self._judge_end(reason)
        self.connected = False

    def _judge_end(self, reason: Any) -> None:
        if reason == "Keep alive timeout":
            self.takeovers.failed()
            return
        is_said = reason.value == refusals.TAKEN_OVER
        self.takeovers.ended(time.monotonic() - self._connected_at, is_said=is_said)
        if is_said:
            self._taken_over.tell(ADVICE.format(id=self._client_id))
        elif reason.value == _NO_REASON and self.takeovers.is_unsteady and not self._ask_in_5():
            self._taken_over.tell(UNKNOWN.format(id=self._client_id))

    def _greet(self, text: str) -> None:
        """Reports a connection."""
        self._say(text)

    def _say(self, text: str) -> None:
        print(
            f"{self._speaker()}broker {self._address[0]}:{self._address[1]}: {text}",
            file=sys.stderr,
            flush=True,
        )

    def _speaker(self) -> str:
        return ""

    def _subscribe(self, client: mqtt.Client) -> None:
        """Subscribes; called after each CONNACK."""
        raise NotImplementedError

    def _on_subscribe(self, client, userdata, packet_id, reasons, properties) -> None:
        """Reports what the broker granted."""
        raise NotImplementedError

    def _read(self) -> None:
        """Takes what has arrived, until the socket is empty or a limit is reached."""
        raise NotImplementedError

    def _on_message(self, client: mqtt.Client, userdata: Any, message: mqtt.MQTTMessage) -> None:
        """Called for each message that paho read."""
        raise NotImplementedError

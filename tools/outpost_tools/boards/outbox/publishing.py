"""Publishes messages from this machine to a board's broker, with the board's settings, one at a
time and acknowledged.

Over MQTT 3.1.1 a broker acknowledges also what it denies, and nobody gets it. In collector mode
messages are set aside for just that, so there this speaks MQTT 5.0, whose PUBACK has a reason.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from outpost_tools.boards.monitor import following
from outpost_tools.boards.outbox.shelf import Aside
from outpost_tools.errors import ToolError
from outpost_tools.mqtt import causes, refusals

_ANSWER_S = 15.0
_STEP_S = 0.05
_MQTT_5 = 5
_NO_SUBSCRIBER = 0x10
_NO_REASONS = (
    "in collector mode this needs MQTT 5.0, because over 3.1.1 a broker acknowledges also what it "
    "denies. Without it, take the messages into the tables (outpost outbox aside export "
    "--segments), then discard them here (aside give-up)"
)


class Broker:
    def __init__(self, client: Any, where: str, *, must_arrive: bool = False) -> None:
        """must_arrive: a message that nobody has subscribed to is a failure."""
        self._client, self._where, self._must_arrive = client, where, must_arrive
        self._is_lost = False
        self._reason: Any = None  # of the last acknowledgement; only MQTT 5.0 has failures
        client.on_disconnect = self._lost
        client.on_publish = self._on_published

    def _lost(self, *_: Any) -> None:
        self._is_lost = True

    def _on_published(
        self, _client: Any, _userdata: Any, _id: int, reason: Any, _more: Any
    ) -> None:
        self._reason = reason

    def close(self) -> None:
        self._client.disconnect()

    def wait(self, is_done: Any, what: str) -> None:
        """Raises ToolError."""
        until = time.monotonic() + _ANSWER_S
        while not is_done():
            if self._is_lost:
                needs_5 = f" ({_NO_REASONS})" if self._must_arrive else ""
                raise ToolError(
                    f"{self._where}: the broker closed the connection at {what}: the cause is not "
                    f"fixed yet; it stays set aside{needs_5}"
                )
            if time.monotonic() > until:
                raise ToolError(
                    f"{self._where}: no answer from the broker to {what} in {_ANSWER_S:g} s"
                )
            self._client.loop(_STEP_S)

    def send(self, message: Aside) -> None:
        """With QoS 1 at least, to get an acknowledgement. Not with QoS 2 in MQTT 5.0, where paho
        hides the reason code of PUBREC. Raises ToolError."""
        topic = message.topic.decode("utf-8", "surrogateescape")
        qos = 1 if self._client.protocol == _MQTT_5 else max(message.qos, 1)
        try:
            sent = self._client.publish(topic, message.payload, qos, message.retain)
        except ValueError as error:
            raise ToolError(f"message {message.seq}: no topic to publish to: {error}") from None
        name = f"message {message.seq}"
        self.wait(lambda: not sent.rc and sent.is_published(), name)  # rc: already disconnected
        reason = self._reason
        if reason is None:
            return
        if reason.is_failure or (self._must_arrive and reason.value == _NO_SUBSCRIBER):
            raise ToolError(
                f"{self._where}: the broker refuses {name}: {reason}; it stays set aside"
            )


@contextlib.contextmanager
def connected(settings: dict[str, Any], folder: Path) -> Iterator[Broker]:
    """settings: the board's; folder: where its certificates are. Raises ToolError.

    Does not use the board's own client identifier, which would disconnect the board, unless the
    broker binds its user to it (`outpost broker`). The board then reconnects by itself, and nothing
    is lost."""
    own = settings["device_id"]
    broker = _open(settings, folder, f"{own}-aside-{os.getpid()}") or _open(settings, folder, own)
    if broker is None:
        where = f"{settings['broker_host']}:{settings['broker_port']}"
        raise ToolError(
            f"{where}: the broker refuses the login: Not authorized; has the board's user been "
            "revoked, or its password changed?"
        )
    try:
        yield broker
    finally:
        broker.close()


def _open(settings: dict[str, Any], folder: Path, name: str) -> Broker | None:
    """None: this user may not use this client identifier, or has no access. Raises ToolError."""
    where = f"{settings['broker_host']}:{settings['broker_port']}"
    must_arrive = settings["mode"] == "collector"
    context = following.tls_context(settings, folder) if settings["tls"] else None
    address = settings["broker_host"], settings["broker_port"]
    place = causes.Place(*address, context, causes.SETTINGS)
    client = _client(settings, context, name, must_arrive=must_arrive)
    answers: list[Any] = []
    client.on_connect = lambda _c, _u, _f, reason, _p: answers.append(reason)
    try:
        client.connect(*address, keepalive=refusals.SHORT_KEEP_ALIVE_S)
    except OSError as error:
        why = causes.of_error(error, place)
        raise ToolError(f"{where}: the broker does not answer: {why}") from None
    except ValueError as error:
        raise ToolError(f"{where}: the broker does not answer: {error}") from None
    broker = Broker(client, where, must_arrive=must_arrive)
    try:
        broker.wait(lambda: bool(answers), "the connection")
    except ToolError:
        if why := causes.of_end(place):
            raise ToolError(f"{where}: {why}") from None
        raise
    if not answers[0].is_failure:
        return broker
    if answers[0] == "Not authorized":
        return None
    level = _NO_REASONS if must_arrive else refusals.LEVEL
    why = refusals.why(answers[0], level=level)
    raise ToolError(f"{where}: the broker refuses the login: {why}")


def _client(settings: dict[str, Any], context: Any, name: str, *, must_arrive: bool) -> Any:
    """Not yet connected. context: of TLS, or None."""
    import paho.mqtt.client as mqtt

    version = mqtt.MQTTv5 if must_arrive else following.version_of(settings)
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, name, protocol=version)
    if settings["user"]:
        client.username_pw_set(settings["user"], settings["password"] or None)
    if context is not None:
        client.tls_set_context(context)
    return client

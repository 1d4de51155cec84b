"""Follows the messages of one board or of all boards at the broker. Prints a line for each message,
and what may be wrong if none arrives: the broker refuses the user, the user may not read, or the
board does not send.

A broker with an ACL file may accept a subscription and yet deliver nothing, and MQTT 3.1.1 cannot
report that. So the confirmations are followed, too: if the collector confirms messages of a board
and none of them arrives here, the broker withholds them from us.
"""

from __future__ import annotations

import ssl
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt

from outpost_tools.attention import silence
from outpost_tools.boards.monitor.watching import ended, say
from outpost_tools.errors import ToolError
from outpost_tools.messages import message, series
from outpost_tools.mqtt import causes, refusals, tls
from outpost_tools.mqtt.connection import Limits
from outpost_tools.mqtt.credentials import Credentials
from outpost_tools.mqtt.message_connection import MessageConnection
from outpost_tools.text.visible import visible
from outpost_tools.text.words import duration, number

_POLL_S = 0.2
_LIMITS = Limits(messages=100, seconds=0.2, bytes=1 << 20)
# A confirmation this soon after SUBSCRIBE may be for messages from before it.
_SETTLED_S = 5.0
_ADVICE = (
    "A board's user reads its own confirmations alone: use a monitor's credentials, `outpost "
    "monitor --credentials DIR --device NAME`, or grant it"
)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Source:
    """Where to look, and as which user. device: "+" for all. login: user and password. version:
    that of MQTT; a board may speak 5.0 because its broker accepts nothing else. report_s: seconds
    between two reports of the board; 0: not known."""

    address: tuple[str, int]
    prefix: str
    device: str
    client_id: str
    login: tuple[str, str | None] | None
    tls: ssl.SSLContext | None
    version: int = mqtt.MQTTv311
    ways: causes.Ways = causes.OPTIONS
    report_s: float = 0.0

    @property
    def user(self) -> str:
        return f"user {self.login[0]!r}" if self.login else "a client without a user"


def of_settings(settings: dict[str, Any], folder: Path) -> Source:
    """settings: those of the board, checked. folder: that of its certificates. Raises ToolError."""
    address = settings["broker_host"], settings["broker_port"]
    login = (settings["user"], settings["password"] or None) if settings["user"] else None
    tls = tls_context(settings, folder) if settings["tls"] else None
    # not the board's own client identifier: the broker would disconnect the board
    where = address, settings["topic_prefix"], settings["device_id"]
    how = version_of(settings), causes.SETTINGS, report_s(settings)
    return Source(*where, "", login, tls, *how)


def report_s(settings: dict[str, Any]) -> float:
    """Seconds between two reports, as the board announces them (firmware/station/about.py)."""
    every_s = settings["interval_ms"] * settings["connect_every"] / 1000
    is_series = settings["series"] and not settings["deep_sleep"]
    return max(every_s, settings["series_age_s"]) if is_series else every_s


def version_of(settings: dict[str, Any]) -> int:
    """The board's MQTT version as paho's number: its broker may accept no other."""
    return {3: mqtt.MQTTv31, 4: mqtt.MQTTv311, 5: mqtt.MQTTv5}[settings["level"]]


def of_credentials(found: Credentials, device: str | None) -> Source:
    where = found.address, found.topic_prefix, device or "+"
    return Source(*where, found.client_id, found.login, found.tls())


def follow(source: Source, until: float | None, tell: Say = say) -> None:
    """Follow until the time is over. Raises ToolError if the first connection fails, if the broker
    refuses the user or the subscription, or if it has not answered when the time is over."""
    follower = Follower(source, tell)
    print("connecting to {}:{}".format(*source.address), file=sys.stderr, flush=True)
    while not ended(until) and not follower.fault:
        follower.take(_POLL_S)
        follower.look()
    follower.close()
    if not follower.fault and not follower.was_connected:
        follower.fault = "{}:{}: the broker has not answered in this time".format(*source.address)
    if follower.fault:
        raise ToolError(follower.fault)


class Follower(MessageConnection[None]):
    """fault: why following cannot continue; "" while it can."""

    keeps_session = False
    keep_alive_s = refusals.SHORT_KEEP_ALIVE_S
    login_hint = (
        "is the password right, and has the user not been revoked? A broker made by `outpost "
        "broker` lets a board's user in from the board alone: use --credentials"
    )

    def __init__(self, source: Source, tell: Say) -> None:
        super().__init__(
            source.address, source.client_id, _LIMITS, credentials=source.login, tls=source.tls,
            version=source.version, ways=source.ways,
        )  # fmt: skip
        self._source, self._tell = source, tell
        self._report_s = source.report_s
        self.data = f"{source.prefix}/{source.device}/data"
        self._durable = f"{source.prefix}/{source.device}/durable"
        self.fault = ""
        self._where = "{}:{}".format(*source.address)
        self._data_id: int | None = None  # packet identifier of its SUBSCRIBE
        self._since = self._last_at = time.monotonic()
        self._seen: set[str] = set()  # devices with a message, or reported as having none

    @property
    def was_connected(self) -> bool:
        """Whether the broker has accepted us at least once."""
        return self._connection > 0

    def look(self) -> None:
        """Say, once, that a report is overdue."""
        due_s = silence.due_s(self._report_s)
        if time.monotonic() - self._last_at < due_s or not self.connected:
            return
        self._last_at = float("inf")
        self._say(
            f"nothing on {self.data} in {duration(1000 * due_s)}{self._every()}: does the board "
            f"send, under this name, to this broker, and may {self._source.user} read it? (not "
            "said again)"
        )

    def _every(self) -> str:
        return f" (it reports every {duration(1000 * self._report_s)})" if self._report_s else ""

    def _subscribe(self, client: mqtt.Client) -> None:
        self._since = time.monotonic()
        self._data_id = client.subscribe(self.data, 0)[1]
        client.subscribe(self._durable, 0)

    def _on_subscribe(self, _client, _userdata, mid, reasons, _properties) -> None:
        if mid != self._data_id:
            return
        if not any(reason.is_failure for reason in reasons):
            print(f"following {self.data}{self._every()}", file=sys.stderr)
        else:
            self.fault = (
                f"{self._where}: {self._source.user} may not read {self.data}, says the broker. "
                + _ADVICE
            )

    def _on_no_connection(self, reason: str) -> None:
        if self._connection:
            super()._on_no_connection(reason)
        else:
            self.fault = f"{self._where}: the broker does not answer: {reason}"

    def _on_refused(self, reason: str) -> None:
        if self._connection:
            super()._on_refused(reason)
            return
        self.fault = f"{self._where}: the broker refused {self._source.user}: {reason}"

    def _on_message(self, _client, _userdata, found: mqtt.MQTTMessage) -> None:
        device, _, kind = found.topic.removeprefix(f"{self._source.prefix}/").rpartition("/")
        if kind == "data":
            self._last_at = time.monotonic()
            self._seen.add(device)
            tell_message(found, self._tell, device if self._source.device == "+" else "")
        elif not found.retain and device not in self._seen:
            self._on_unseen(device)

    def _on_unseen(self, device: str) -> None:
        """Report a confirmation of messages that did not arrive here."""
        if time.monotonic() - self._since < _SETTLED_S:
            return
        self._seen.add(device)
        self._say(
            f"the collector confirms messages of {visible(device)}, and none of them arrives here: "
            f"may {self._source.user} read {self.data}? {_ADVICE}"
        )


def tls_context(settings: dict[str, Any], folder: Path) -> ssl.SSLContext:
    """A context that expects the server's name in the settings, as the board does. Raises
    ToolError."""
    from outpost_tools.mqtt import certificates

    ca = certificates.certificate((folder / settings["ca_file"]).read_bytes())
    context = tls.context(cadata=certificates.der_of_certificate(ca))
    context.server_name = settings["server_name"]
    if settings["client_cert_file"]:
        try:
            context.load_cert_chain(
                folder / settings["client_cert_file"], folder / settings["client_key_file"]
            )
        except OSError:
            raise ToolError(
                "keys 'client_cert_file', 'client_key_file': here they must be PEM files that fit"
            ) from None
    return context


def tell_message(found: Any, tell: Say, device: str = "") -> None:
    """Print a line for a message. device: its name, if several boards are followed; else ""."""
    try:
        one = message.decode(found.topic, found.payload, retained=found.retain)
    except message.Malformed as error:
        tell(visible(f"{found.topic}: no Outpost message: {error}"))
        return
    readings = _shown(one.readings)
    if series.is_series(found.payload):
        readings = _series_shown(series.decode(found.payload), one.readings)
    if one.left_out:
        readings += f"; {message.left_out_reason(one)}"
    held = one.seq - one.held
    readings += _unheard(one.readings)
    name = f"{device}: " if device else ""
    tell(visible(f"{name}message {one.seq}, boot {one.boot}, {held} held before it: {readings}"))


def _unheard(readings: list[message.Reading]) -> str:
    """The advice for a board that waits for a collector; "" if it does not."""
    hours = max((one.value for one in readings if one.name == "unheard"), default=0)
    if hours < 1:
        return ""
    return (
        f"; no collector has confirmed its messages for {hours:g} h: run `outpost collect` at this "
        'broker, or give the board mode = "broker"'
    )


def _shown(readings: list[message.Reading]) -> str:
    return ", ".join(
        f"{one.name} {number(one.value)}{f' {one.unit}' if one.unit else ''}" for one in readings
    )


def _series_shown(found: series.Series, readings: list[message.Reading]) -> str:
    """How many samples, and the newest value of each sensor."""
    newest = {one.name: one for one in readings}
    span_s = (found.samples[-1].time_ms - found.samples[0].time_ms) / 1000
    count = len(found.samples)
    what = f"{count} samples in {span_s:g} s, the last ones" if count > 1 else "1 sample"
    return f"{what}: {_shown(list(newest.values()))}"

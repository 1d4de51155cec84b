"""The loop: take, map, put (durably), acknowledge. In this order, so that a stop at any moment
loses nothing.

Messages that MQ cannot hold are written to the list of refused messages, also durably, before they
are acknowledged; otherwise they would be sent again indefinitely. When the output fails, the batch
is kept and retried, and nothing new is taken meanwhile.
"""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from outpost_tools.servers.mq.mapping import Options, Outgoing, Publication, to_mq
from outpost_tools.servers.mq.reasons import MqError
from outpost_tools.servers.mq.storage import Lines, Sink, SinkError, Unputtable
from outpost_tools.terminal.ending import Ending

_TAKE_S = 0.2
RETRY_FIRST_S = 0.2
RETRY_LAST_S = 10.0
DAMAGED = "damaged"  # the fault of bytes that the source could not read


@dataclass(frozen=True, slots=True)
class Incoming:
    """One publication and the token that acknowledges it.

    `fault` is set when the source already knows that the publication is incomplete.
    """

    publication: Publication
    received_ms: int
    token: Any
    fault: MqError | None = None


class Source(Protocol):
    """take() waits at most about `wait_s`.

    `is_finished`: nothing more will come. idle() keeps the connection alive.
    """

    is_finished: bool

    def take(self, wait_s: float) -> list[Incoming]: ...

    def ack(self, received: Sequence[Incoming]) -> None: ...

    def idle(self) -> None: ...

    def close(self) -> None: ...


class Bridge:
    """Runs until `ending` is set, the source is finished, or nothing came for `until_idle_s`."""

    def __init__(
        self,
        source: Source,
        sink: Sink,
        refused: Lines,
        options: Options,
        *,
        until_idle_s: float = 0.0,
    ) -> None:
        self._source = source
        self._sink = sink
        self._refused = refused
        self._options = options
        self._until_idle_s = until_idle_s
        self.ending = Ending()
        self.forwarded = self.refusals = self.damaged = 0

    def run(self) -> int:
        """0; or 1 when messages that were taken could not be put (their source still has them), or
        the source was damaged."""
        last = time.monotonic()
        status = 0
        while not self.ending.is_set() and not self._source.is_finished:
            received = self._source.take(_TAKE_S)
            if received:
                if not self._forward(received):
                    status = 1
                    break
                last = time.monotonic()
            elif self._until_idle_s and time.monotonic() - last > self._until_idle_s:
                break
        self._source.close()
        self._say(f"{self.forwarded} messages put, {self.refusals} refused")
        return status or int(self.damaged > 0)

    def _forward(self, received: Sequence[Incoming]) -> bool:
        messages: list[tuple[Incoming, Outgoing]] = []
        refused: list[tuple[Incoming, MqError]] = []
        for incoming in received:
            try:
                messages.append((incoming, self._map(incoming)))
            except MqError as error:
                refused.append((incoming, error))
        if not self._persist(lambda: self._put(messages, refused)) or not self._persist(
            lambda: self._refuse(refused)
        ):
            self._say(f"{len(received)} messages not acknowledged; their source keeps them")
            return False
        self._source.ack(received)
        self.forwarded += len(messages)
        self.refusals += len(refused)
        self.damaged += sum(error.name == DAMAGED for _, error in refused)
        return True

    def _map(self, incoming: Incoming) -> Outgoing:
        if incoming.fault is not None:
            raise incoming.fault
        return to_mq(incoming.publication, self._options, incoming.received_ms)

    def _put(
        self, messages: list[tuple[Incoming, Outgoing]], refused: list[tuple[Incoming, MqError]]
    ) -> None:
        """Put all; a message that the queue manager will never take moves to `refused`.

        Raises SinkError.
        """
        while messages:
            try:
                self._sink.put([message for _, message in messages])
                return
            except Unputtable as error:
                refused.append((messages.pop(error.index)[0], error.error))

    def _refuse(self, refused: list[tuple[Incoming, MqError]]) -> None:
        if refused:
            self._refused.append([_refusal(incoming, error) for incoming, error in refused])
            self._say(
                f"refused: {refused[-1][1]}"
                + (f" (and {len(refused) - 1} more)" if len(refused) > 1 else "")
            )

    def _persist(self, action: Callable[[], None]) -> bool:
        """Retry until it works; False when the end was requested first.

        Prints each new complaint once.
        """
        wait_s, complaint = RETRY_FIRST_S, ""
        while True:
            try:
                action()
            except SinkError as error:
                if str(error) != complaint:
                    self._say(f"{error}; acknowledging nothing, trying again")
                complaint = str(error)
            else:
                if complaint:
                    self._say("putting again")
                return True
            if self._wait(wait_s):
                return False
            wait_s = min(wait_s * 2, RETRY_LAST_S)

    def _wait(self, seconds: float) -> bool:
        """True when the end was requested. The source's connection is kept alive meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.ending.wait(min(left, 0.5)):
                return True
            self._source.idle()
        return self.ending.is_set()

    def _say(self, text: str) -> None:
        print(f"mq bridge: {text}", file=sys.stderr, flush=True)


def _refusal(incoming: Incoming, error: MqError) -> dict[str, Any]:
    packet = incoming.publication
    return {
        "name": error.name,
        "reason": error.reason,
        "text": error.fault.text,
        "topic": packet.topic.decode("utf-8", "replace"),
        "topic_base64": base64.b64encode(packet.topic).decode(),
        "payload_base64": base64.b64encode(packet.payload).decode(),
        "qos": packet.qos,
        "retain": packet.retain,
        "received_ms": incoming.received_ms,
    }

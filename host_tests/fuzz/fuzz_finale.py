"""The end of a fuzzed scenario: everything works again, and the server is honest. Whatever came
before, the client must recover, every held message must arrive, a message from the server must be
accepted, and the outbox must accept another.
"""

from __future__ import annotations

from typing import Any

from fuzz_facts import CONNECTED, decode, require
from scripted_server import answer, encode

_STEPS = 500
_STEP_MS, _WAIT_MS = 250, 5000
_HELLO = encode("PUBLISH", topic=b"a/b", payload=b"at last", qos=1, packet_id=40_000)


class _Server:
    """Answers what arrives on one connection after the other."""

    def __init__(self, world: Any, session_present: int) -> None:
        self.world, self.session_present = world, session_present
        self.stream: Any = None
        self.read = 0
        self.took_hello = False

    def serve(self) -> None:
        stream = self.world.stream
        if stream is not self.stream:
            self.stream, self.read = stream, 0
        if not stream:
            return
        data = bytes(stream.written[self.read :])
        while (step := decode(data)) is not None:
            self.read += len(data) - len(step[2])
            data = step[2]
            stream.incoming += self._answer(step[0], step[1])

    def _answer(self, kind: str, fields: dict[str, Any]) -> bytes:
        if kind == "CONNECT":
            return encode("CONNACK", session_present=self.session_present) + _HELLO
        if kind == "PUBACK" and fields["packet_id"] == 40_000:
            self.took_hello = True
        return answer(kind, fields)


def play(world: Any, session_present: int) -> None:
    world.room = world.chunk = 1 << 16
    world.handler = world.link_fails = world.fails = 0
    if world.flash:
        world.flash.cut_at = 0
    if world.stream:
        world.stream.broken = True
    world.poll()
    server = _Server(world, session_present)
    _drain(world, server)
    require(world.publish(1, 3) == 0, "a drained outbox refuses")
    _drain(world, server)


def _drain(world: Any, server: _Server) -> None:
    for _ in range(_STEPS):
        world.now_ms += _STEP_MS if world.stream else _WAIT_MS
        world.rest()
        server.serve()
        if world.client.is_drained() and server.took_hello and world.session.state == CONNECTED:
            return
        if world.mode == "durable" and world.stream and world.session.base == world.outbox.next_seq:
            world.stream.incoming += world.word_of(world.outbox.next_seq - 1)
    held = len(world.model.messages)
    require(
        False,
        "stuck: %d messages held, hello taken: %d, state %d",
        held,
        server.took_hello,
        world.session.state,
    )

"""The words of the fuzzer's language, as functions of the world: see `fuzz_program.py`."""

from __future__ import annotations

from typing import Any

from fuzz_facts import id_of
from fuzz_finale import play
from scripted_server import encode, frame

FILTERS = (b"a/b", b"c/#", b"+")


class Ops:
    """The words of the language: functions of the world, a number and bytes."""

    @staticmethod
    def start(world: Any, number: int, data: bytes) -> None:
        pass

    @staticmethod
    def say(world: Any, number: int, data: bytes) -> None:
        """The server sends this; then a poll, unless number is 1."""
        if world.stream:
            world.stream.incoming += data
        if not number:
            world.poll()

    @staticmethod
    def near(world: Any, number: int, data: bytes) -> None:
        """An acknowledgement (its first byte in data) of an identifier near the window's start:
        number - 2 after it.
        """
        packet_id = id_of(max(0, world.session.base + number - 2))
        Ops.say(world, 0, (data[:1] or b"\x40") + b"\x02" + packet_id.to_bytes(2, "big") + data[1:])

    @staticmethod
    def ask(world: Any, number: int, data: bytes) -> None:
        """The answer to SUBSCRIBE or UNSUBSCRIBE, with its identifier off by number. data: the
        codes, if other than requested.
        """
        one = world.model.connection
        if one and one.asked:
            kind, packet_id, count = one.asked
            body = ((packet_id + number) & 0xFFFF).to_bytes(2, "big")
            if kind == "SUBSCRIBE":
                body += data or bytes(count)
            Ops.say(world, 0, frame(0x90 if kind == "SUBSCRIBE" else 0xB0, body))

    @staticmethod
    def acks(world: Any, number: int, data: bytes) -> None:
        """PUBACK of the first messages in flight, in one segment."""
        one = world.model.connection
        found = sorted(one.flight.values(), key=lambda message: message.seq)[:number] if one else []
        Ops.say(
            world, 0, b"".join(encode("PUBACK", packet_id=id_of(message.seq)) for message in found)
        )

    @staticmethod
    def word(world: Any, number: int, data: bytes) -> None:
        """The collector's confirmation: number - 8 from the newest message. data: other bytes in
        its middle.
        """
        Ops.say(world, 0, world.word_of(world.outbox.next_seq - 1 + number - 8, data))

    @staticmethod
    def pub(world: Any, number: int, data: bytes) -> None:
        world.publish(
            number & 3, (0, 7, 70, 80, 200)[number >> 2 & 7 if number < 20 else 0], number == 13
        )

    @staticmethod
    def burst(world: Any, number: int, data: bytes) -> None:
        qos = 2 if world.mode == "exactly_once" and not data else 1
        for _ in range(min(number, 255)):
            if world.publish(qos, 70 if world.flash else 1):
                break

    @staticmethod
    def poll(world: Any, number: int, data: bytes) -> None:
        for _ in range(min(number, 40)):
            world.poll()

    @staticmethod
    def time(world: Any, number: int, data: bytes) -> None:
        world.now_ms += min(number, 70_000)
        world.poll()

    @staticmethod
    def drop(world: Any, number: int, data: bytes) -> None:
        """The link breaks, or (1) the server closes."""
        if world.stream:
            setattr(world.stream, "ended" if number else "broken", True)
        world.poll()

    @staticmethod
    def room(world: Any, number: int, data: bytes) -> None:
        """How much one write accepts; 255: all."""
        world.room = number if number < 255 else 1 << 16

    @staticmethod
    def chunk(world: Any, number: int, data: bytes) -> None:
        """How many bytes one read returns; 0: all."""
        world.chunk = number or 1 << 16

    @staticmethod
    def handler(world: Any, number: int, data: bytes) -> None:
        """0 returns, 1 raises, 2 raises once, 3 publishes, 4 raises on pieces only."""
        world.handler = number

    @staticmethod
    def sub(world: Any, number: int, data: bytes) -> None:
        world.session.subscribe(FILTERS[number % 3], number // 3 % 2)

    @staticmethod
    def unsub(world: Any, number: int, data: bytes) -> None:
        world.session.unsubscribe(FILTERS[number % 3])

    @staticmethod
    def fail(world: Any, number: int, data: bytes) -> None:
        """The next few writes to flash fail."""
        world.fails = number

    @staticmethod
    def reboot(world: Any, number: int, data: bytes) -> None:
        """A power cut. 1: acknowledgements that no record carries are lost, as on flash."""
        if number and hasattr(world.outbox, "forget"):
            world.outbox.forget()
        world.boot()

    @staticmethod
    def cut(world: Any, number: int, data: bytes) -> None:
        """The power goes in the number-th program or erase from now on."""
        if world.flash and number:
            world.flash.cut_at = world.flash.operations + number
            world.flash.cut_mode = ("nothing", "all", "first", "last")[number % 4]

    @staticmethod
    def link(world: Any, number: int, data: bytes) -> None:
        """The next few calls of link() raise; from 16 on they return None."""
        world.link_fails, world.link_gives_none = number & 15, number > 15

    @staticmethod
    def close(world: Any, number: int, data: bytes) -> None:
        world.client.close()
        world.watch()

    @staticmethod
    def hello(world: Any, number: int, data: bytes) -> None:
        """Connect: wait, CONNACK (1: with the session), and (2) the answer to SUBSCRIBE."""
        for _ in range(16):
            if world.stream:
                break
            world.now_ms += 4000
            world.poll()
        Ops.say(world, 0, b"\x20\x02" + bytes((number & 1, 0)))
        world.poll()
        if number & 2:
            Ops.ask(world, 0, b"")
            world.poll()

    @staticmethod
    def finale(world: Any, number: int, data: bytes) -> None:
        """From now on all is well and the server is honest: everything must arrive. 1: it kept the
        session.
        """
        play(world, number & 1)

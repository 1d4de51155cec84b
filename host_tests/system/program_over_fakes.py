"""A program of one's own on a board over the fakes of its port, several times: the flash stays.
MicroPython only.

    micropython program_over_fakes.py KIND FOLDER RUNS PROGRAM [WORD ...] [!PAYLOAD]

FOLDER holds the payload's files, settings.json and PROGRAM. The server sends a WORD to whoever has
subscribed, each after the acknowledgement of the one before. It is silent about a message
with !PAYLOAD.
Prints what each run sent, as JSON.
"""

import asyncio
import json
import os
import sys

from fake_machine import PORTS, Chip, Filesystem, Reset, flash_of, modules_of
from fake_network import FakeSelect, FakeSocketModule, Net, Radio, Ticks
from shipped_board import packets

_CONNECT, _PUBLISH, _PUBACK, _SUBSCRIBE, _PINGREQ = 0x10, 0x30, 0x40, 0x80, 0xC0
_OURS = ("board", "outpost", "station", "support")


def power_on():
    """No module of the run before is left."""
    for name in list(sys.modules):
        if name.split(".")[0] in _OURS:
            sys.modules.pop(name)


class Server:
    """What a broker would say. words: to the first subscriber."""

    def __init__(self, words):
        self.messages, self._topic = [], b""
        self._words = [word.encode() for word in words if word[0] != "!"]
        self._refused = [word[1:].encode() for word in words if word[0] == "!"]

    def answer(self, stream):
        for kind, body in packets(stream.take()):
            if kind == _CONNECT:
                stream.say(b"\x20\x02\0\0")
            elif kind == _PUBLISH:
                end = 2 + (body[0] << 8 | body[1])
                if body[end + 2 :] in self._refused:
                    continue
                stream.say(b"\x40\x02" + body[end : end + 2])
                self.messages.append((body[2:end].decode(), body[end + 2 :].decode()))
            elif kind == _SUBSCRIBE:
                self._topic = body[2:-1]
                stream.say(b"\x90\x03" + body[:2] + b"\x01")
                self._next(stream)
            elif kind == _PUBACK:
                self._next(stream)
            elif kind == _PINGREQ:
                stream.say(b"\xd0\0")

    def _next(self, stream):
        if self._words:
            body = self._topic + b"\0\x07" + self._words.pop(0)
            stream.say(bytes([0x32, len(body)]) + body)


def in_other_time(ticks, pause):
    """asyncio's own loop, over the time of the fakes."""
    sleep = asyncio.sleep

    async def sleep_and_pass(seconds):
        pause(int(seconds * 1000))
        await sleep(0)

    asyncio.sleep = sleep_and_pass
    return sleep


def run(name, program, flash, words):
    ticks = Ticks()
    net, server, chip = Net(ticks), Server(words), Chip(ticks)
    port = modules_of(name, chip, flash, Radio(PORTS[name], ticks))
    sleep_ms = port["time"].sleep_ms

    def sleep_and_answer(ms):
        server.answer(net.stream)
        sleep_ms(ms)

    port["time"].sleep_ms = sleep_and_answer
    real_sleep = in_other_time(ticks, sleep_and_answer)
    power_on()
    sys.modules.update(port)
    sys.modules.update({"socket": FakeSocketModule(net, PORTS[name]), "select": FakeSelect()})
    try:
        exec(program, {"__name__": "__main__"})
    except Reset:  # a sleep ends so
        pass
    finally:
        asyncio.sleep = real_sleep
    return {"messages": server.messages, "open": net.open, "slept_ms": chip.slept_ms}


if __name__ == "__main__":
    kind, folder, runs, program, *words = sys.argv[1:]
    os.chdir(folder)
    sys.path.insert(0, "")
    with open(program) as file:
        source = file.read()
    chip = flash_of(kind)
    with Filesystem(kind, chip):
        print(json.dumps([run(kind, source, chip, words) for _ in range(int(runs))]))

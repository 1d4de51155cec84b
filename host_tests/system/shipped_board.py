"""A board as `outpost flash` leaves it, over the fakes of its port: main.py's own loop, with the
watchdog fed. MicroPython only.

    micropython shipped_board.py KIND FOLDER TURNS [break]

FOLDER holds the files of the payload, and settings.json.
The loop turns until a reading is acknowledged and TURNS turns of 5 ms have passed. Prints what the
board did as JSON; what leaves main() ends this with its traceback, where the board's own handler
would reset. break: after the first reading the stream raises what no stream should.
"""

import json
import os
import sys

from fake_machine import PORTS, Chip, Filesystem, flash_of, modules_of
from fake_network import FakeSelect, FakeSocketModule, Net, Radio, Ticks

_CONNECT, _PUBLISH = 0x10, 0x30


def packets(data):
    """(type, rest after the fixed header) of each packet in the bytes."""
    at = 0
    while at < len(data):
        kind, length, shift, more = data[at] & 0xF0, 0, 0, 0x80
        while more:
            at += 1
            more = data[at] & 0x80
            length |= (data[at] & 0x7F) << shift
            shift += 7
        yield kind, data[at + 1 : at + 1 + length]
        at += 1 + length


def answer(stream):
    """Says what a broker would; the topics and payloads that came, QoS 1 all."""
    came = []
    for kind, body in packets(stream.take()):
        if kind == _CONNECT:
            stream.say(b"\x20\x02\0\0")
        elif kind == _PUBLISH:
            end = 2 + (body[0] << 8 | body[1])
            stream.say(b"\x40\x02" + body[end : end + 2])
            came.append((body[2:end].decode(), body[end + 2 :].decode()))
    return came


class Broken:
    """In place of a stream."""

    def take(self):
        return b""

    def readinto(self, buf):
        return None

    def write(self, buf, offset, length):
        raise ValueError("as an example")


def run(name, turns, breaks):
    """Everything below board.py is in place before the first import, as on a board."""
    ticks = Ticks()
    chip, net, flash = Chip(ticks), Net(ticks), flash_of(name)
    sys.modules.update(modules_of(name, chip, flash, Radio(PORTS[name], ticks)))
    sys.modules.update({"socket": FakeSocketModule(net, PORTS[name]), "select": FakeSelect()})
    import main

    board = main.board
    messages, turned, wait = [], [0], board.idle

    def idle(client):
        turned[0] += 1
        messages.extend(answer(net.stream))
        if breaks and messages:
            net.stream = Broken()
        wait(client)

    board.idle, board.stopping = idle, lambda: messages and turned[0] >= turns
    with Filesystem(name, flash):
        main.main()
    return {
        "files": [sys.modules[module].__file__ for module in ("board", "main", "outpost")],
        "messages": messages,
        "watchdog_ms": chip.watchdog_ms,
        "feeds": chip.feeds,
        "longest_hunger_ms": chip.longest_hunger_ms,
        "open": net.open,
    }


if __name__ == "__main__":
    kind, folder, turns, *more = sys.argv[1:]
    os.chdir(folder)
    sys.path.insert(0, "")
    print(json.dumps(run(kind, int(turns), more == ["break"])))

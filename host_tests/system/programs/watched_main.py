"""main.py's own loop on a shipped board, with its watchdog watched: until a reading is acknowledged
and TURNS turns have passed. Prints what the board did as JSON; or, where BREAKS, the traceback of
what no stream should raise.
"""

import io
import json
import os
import sys
import time

import machine

TURNS = 2000  # of 5 ms: longer than the watchdog's 8 s


class Watched(machine.WDT):
    feeds = longest_ms = last_ms = 0

    def __init__(self, timeout):
        Watched.timeout_ms, Watched.last_ms = timeout, time.ticks_ms()
        machine_wdt.__init__(self, timeout=timeout)

    def feed(self):
        now_ms = time.ticks_ms()
        Watched.feeds += 1
        Watched.longest_ms = max(Watched.longest_ms, time.ticks_diff(now_ms, Watched.last_ms))
        Watched.last_ms = now_ms
        machine_wdt.feed(self)


class Broken:
    """In place of a stream."""

    def readinto(self, buf):
        return None

    def write(self, buf, offset, length):
        raise ValueError("as an example")


machine_wdt, machine.WDT = machine.WDT, Watched
BREAKS = "breaks" in os.listdir()

import main  # noqa: E402 - after the watchdog is watched

board = main.board
turned = [0, None]
wait = board.idle


def idle(client):
    turned[0] += 1
    turned[1] = client
    if BREAKS and client.session.acknowledged:
        client._stream = Broken()
    wait(client)


def is_done():
    return turned[0] >= TURNS and turned[1].session.acknowledged


board.idle, board.stopping = idle, is_done
try:
    main.main()
    files = [sys.modules[name].__file__ for name in ("board", "main", "outpost")]
    print(json.dumps([files, Watched.timeout_ms, Watched.feeds, Watched.longest_ms]))
except Exception as error:
    text = io.StringIO()
    sys.print_exception(error, text)
    print(text.getvalue())

"""The board of `rig_console.py`: outbox in pinned blocks of its own littlefs, a counter as its sensor.

Prints a line when it is connected, as a board's program may.
"""

import os
import random
import socket
import sys
import time

import machine

import rig
from support import crash_log
from support.pinned import NotPinned, open_blocks

ALIGN = 256
PAGE_BYTES = 256
IN_FLIGHT_BYTES = 0

_IDLE_MS = 5
_told = [False]
ticks_ms = time.ticks_ms


class Counter:
    """A reading that nobody can confuse with another one."""

    name, unit, exponent = b"count", b"", 0

    def __init__(self):
        self.count = 0

    def read(self):
        self.count += 1
        return self.count


def outbox_device(settings):
    board = machine.unique_id()
    try:
        return open_blocks(rig.state["flash"], "/outbox", board)
    except NotPinned:
        from support.pinning import create, say

        blocks = settings["outbox_blocks"]
        return create(rig.state["flash"], "/outbox", blocks, os.urandom(8), board, say)


def link(settings):
    address = socket.getaddrinfo(settings["broker_host"], settings["broker_port"], 0, socket.SOCK_STREAM)[0]

    def open_socket():
        sock = socket.socket()
        try:
            sock.connect(address[-1])
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
        return sock

    if not settings["tls"]:
        return open_socket
    from support.tls_link import TlsLink, client_context

    return TlsLink(open_socket, client_context(settings), settings["server_name"], lambda: True, ticks_ms)


def set_clock(clock, now_ms):
    seconds = int(time.time())
    clock.set(seconds // 86400, seconds % 86400 * 1000, now_ms)


def keep_time(clock, now_ms):
    pass


def sensors(settings):
    return [Counter()]


def random_bits():
    return random.getrandbits(16)


def random_hex():
    return ("%02x%02x%02x%02x" % tuple(os.urandom(4))).encode()


def idle(client):
    if client.is_connected() and not _told[0]:
        _told[0] = True
        print("connected", client.connects)
    time.sleep_ms(_IDLE_MS)


def begin():
    pass


feed_watchdog = release_watchdog = give_up = begin


def stopping():
    return False


def started(client):
    print("started, boot", client.outbox.boot)


def published(station):
    pass


stopped = published


def crashed(error):
    text = crash_log.text_of(error)
    print(text)
    crash_log.keep("crash.txt", text)
    sys.exit(1)


def sleep(ms):
    machine.reset()

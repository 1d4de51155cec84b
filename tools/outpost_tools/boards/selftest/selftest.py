"""A board tests itself: its outbox opens, messages are stored and sent without heap, and the broker
answers.

The outbox is opened as main.py opens it, and only read; opening pins the blocks of a stock board,
if they are not pinned yet. The messages go into an outbox in RAM, and to a server of a few lines in
the script. The link is opened as main.py opens it, in an interpreter as fresh as main.py's.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from outpost_tools.boards.port.connection import Board
from outpost_tools.boards.selftest import flash_time
from outpost_tools.errors import ToolError
from outpost_tools.machine.firmware import status_numbers
from outpost_tools.mqtt import causes, refusals

LINK_S = 60.0
_MESSAGES = 8
_STEP = re.compile(r"pinning (\d+) of (\d+)")  # boards/support/pinning.py prints it
_ERROR = re.compile(r"E (-?\d+)")
ShowSteps = Callable[[int, int], None]
_HINTS = {
    "REFUSED": ": the broker does not take 'user' and 'password', or not this 'device_id'",
    "PROTOCOL_ERROR": ": what listens at 'broker_host', 'broker_port' is no MQTT broker",
    "TAKEN_OVER": ": another client uses this 'device_id', and the broker keeps the newest: "
    "give each board its own",
    "TLS_UNTRUSTED": ": 'ca_file' did not sign the broker's certificate, "
    "or 'server_name' is not in it",
    "TLS_REFUSED": ": the broker may want 'client_cert_file', or another one",
    "WIFI_WRONG_PASSWORD": ": see 'wifi_password'",
    "WIFI_NO_AP": ": see 'wifi_ssid'; boards know 2.4 GHz alone",
    "DNS_FAILED": ": see 'broker_host'",
    "NTP_FAILED": ": see 'ntp_host'",
    "LINK_LOST": ": what listens at 'broker_host', 'broker_port' closed the connection; does it "
    "want TLS ('tls', 'ca_file', or --credentials), or is it no broker?",
    "ECONNREFUSED": ": nothing listens at 'broker_host', 'broker_port'",
    "ENOMEM": ": the heap has no piece that is long enough (TLS takes 17 KB in one): leave out "
    "some of 'series', 'commands', 'update_key', 'level' 5, or take a board with more memory",
}
_LEVEL = "it does not speak this version of MQTT: see 'level'"
# Errors that a look at the broker from here does not explain.
_ELSEWHERE = (
    "REFUSED", "TAKEN_OVER", "TLS_UNTRUSTED", "WIFI_WRONG_PASSWORD", "WIFI_NO_AP", "NTP_FAILED",
    "ENOMEM",
)  # fmt: skip
_AT = re.compile(r"A \S+ \d+ [01] \d")

_BEGIN = """
from board import Board
from outpost.outbox import Outbox
from station.settings import load

def opened():
    global reason
    try:
        settings = load("settings.json")
        device = board.open(settings).device
    except ValueError as error:
        reason = error
        return print("X", error)
    outbox = Outbox(device, align=board.align, page_bytes=board.page_bytes)
    result = outbox.mount()
    if result == -12:  # newer: it may hold series
        outbox = with_series(device) or outbox
        result = outbox.mount()
    held = outbox.next_seq - outbox.oldest_seq if result == 0 else 0
    out, aside = getattr(outbox, "left_out", 0), getattr(outbox, "aside", 0)
    stream = str(outbox.stream, "ascii") or "-"
    print("O", result, device.ioctl(4, 0), held, outbox.boot, stream, out, aside)
    return settings

def with_series(device):
    try:
        from outpost.series_outbox import over
    except ImportError:
        return None
    return over(Outbox)(device, 1024, align=board.align, page_bytes=board.page_bytes)

reason = ""
board = Board()
settings = opened()
"""
_BLOCKS = """
import os

def blocks():
    count = 0
    try:
        count = len(os.listdir("/outbox"))
    except OSError:
        pass
    try:
        from station.settings import load
        return max(count, load("settings.json")["outbox_blocks"])
    except ValueError:
        return count

print("B", blocks())
"""
# The functions are small, because a frame of more than 11 words would allocate.
_HEAP = """
import gc
import micropython
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session

def copy(target, at, source, start, count):
    while count:
        count -= 1
        target[at + count] = source[start + count]

def program(target, at, source, count):
    while count:
        count -= 1
        target[at + count] &= source[count]

def erase(block):
    for i in range(4096):
        block[i] = 255

class Ram:
    def __init__(self):
        self.blocks = [bytearray(4096), bytearray(4096)]
        for block in self.blocks:
            erase(block)

    def readblocks(self, block, buf, offset=0):
        copy(buf, 0, self.blocks[block], offset, len(buf))

    def writeblocks(self, block, buf, offset=0):
        program(self.blocks[block], offset, buf, len(buf))

    def ioctl(self, op, arg):
        if op == 6:
            erase(self.blocks[arg])
        return 2 if op == 4 else 4096 if op == 5 else 0

class Server:
    def __init__(self):
        self.answer = bytearray(4)
        self.count = 0

    def write(self, buf, offset, length):
        if buf[offset] == 0x10:
            copy(self.answer, 0, b"\\x20\\x02\\x00\\x00", 0, 4)
        else:
            copy(self.answer, 0, b"\\x40\\x02", 0, 2)
            offset += 4 + buf[offset + 3]
            copy(self.answer, 2, buf, offset, 2)
        self.count = 4
        return length

    def readinto(self, buf):
        if not self.count:
            return None
        copy(buf, 0, self.answer, 0, 4)
        self.count = 0
        return 4

    def close(self):
        pass

def send(client, count):
    while count and not client.publish(b"t", payload):
        count -= 1
    count = 200
    while count and not client.is_drained():
        client.poll(0)
        count -= 1

payload = bytearray(16)

def heap_free(count):
    outbox = Outbox(Ram())
    outbox.format(b"00000000")
    client = Client(Server, Session(outbox, b"t"))
    while not client.is_connected():
        client.poll(0)
    send(client, count)
    gc.collect()
    before = gc.mem_alloc()
    micropython.heap_lock()
    try:
        send(client, count)
    finally:
        micropython.heap_unlock()
    print("M", client.session.acknowledged - count, gc.mem_alloc() - before)
"""
_LINK = """
from board import Board
from outpost.client import Client
from station.clock import Clock
from outpost.outbox import Outbox
from outpost.session import Session
from station.settings import load

def of_level(level):
    if level != 5:
        return Session
    from outpost.level5 import over
    return over(Session)

def link(limit_ms):
    board = Board()
    try:
        settings = load("settings.json")
        board.open(settings)
    except ValueError as error:
        return print("X", error)
    who = settings["device_id"].encode()
    options = {"in_flight_bytes": board.in_flight_bytes}
    options["user"] = settings["user"].encode() or None
    options["password"] = settings["password"].encode() or None
    options["level"] = level = settings.get("level", 4)  # a firmware from before has none
    print("A", settings["broker_host"], settings["broker_port"], int(settings["tls"]), level)
    outbox = Outbox(board.device, align=board.align, page_bytes=board.page_bytes)
    session = of_level(level)(outbox, who, **options)  # not mounted, it has nothing to send
    client = Client(board.link, session, board.random_bits)
    since = tick = board.ticks_ms()
    clock = Clock(since)
    board.set_clock(clock, since)
    printed = 0
    while not client.is_connected() and (board.ticks_ms() - since & 0x3fffffff) < limit_ms:
        now = board.ticks_ms()
        board.keep_time(clock, now)
        if not client.poll(now):
            board.idle(client)
        board.feed_watchdog()
        if client.last_error != printed:
            printed = client.last_error
            print("E", printed)
        if (now - tick & 0x3fffffff) > 1000:
            tick = now
            print(".")
    print("L", int(client.is_connected()), client.last_error, session.return_code)
    client.close()
"""


@dataclass(frozen=True, slots=True)
class Outbox:
    """held: messages that wait. status: that of mount(), BLANK before the first start. left_out:
    number of blocks that failed. aside: number of messages that the server refused."""

    status: int
    blocks: int
    held: int
    boot: int
    stream: str
    left_out: int = 0
    aside: int = 0

    @property
    def troubles(self) -> str:
        """The end of a line about the outbox; "" if there is no trouble."""
        text = f"; {self.left_out} blocks failed and left out" if self.left_out else ""
        return f"{text}; {self.aside} messages set aside" if self.aside else text


def outbox(
    board: Board, show: ShowSteps = lambda done, total: None, answer_s: float = 0.0
) -> Outbox | str:
    """Open the outbox, which pins its blocks if they are not pinned yet. Returns the reason if it
    cannot be opened. Raises ToolError.

    show: called with the steps of pinning, done and in all. answer_s: how long to wait for each; 0:
    the time of `flash_time.py`.
    """

    def take(line: str) -> None:
        if step := _STEP.fullmatch(line):
            show(int(step[1]), int(step[2]))

    answer_s = answer_s or board.answer_s + flash_time.silence_s(_blocks(board))
    found = _answer(board, board.run(_BEGIN, take, answer_s), "O")
    if isinstance(found, str):
        return found
    result, blocks, held, boot = map(int, found[:4])
    if result not in (status_numbers().OK, status_numbers().BLANK):
        return f"cannot be mounted: {name_of(result)}; nothing was changed"
    return Outbox(result, blocks, held, boot, found[4], *map(int, found[5:7]))


def _blocks(board: Board) -> int:
    """The number of blocks that are pinned, or that the settings ask for, whichever is greater."""
    found = _answer(board, board.run(_BLOCKS), "B")
    return 0 if isinstance(found, str) else int(found[0])


def heap_free(board: Board) -> str:
    """Send messages with the heap locked. Returns what to report. Raises ToolError if the board
    needs heap for it, or loses a message."""
    found = _answer(board, board.run(f"{_HEAP}\nheap_free({_MESSAGES})"), "M")
    if [*found] != [str(_MESSAGES), "0"]:
        raise ToolError(
            f"{board.port}: self-test: {_MESSAGES} messages published under a locked heap: "
            f"{' '.join(found)}"
        )
    return f"{_MESSAGES} messages stored, sent, acknowledged with the heap locked"


def link(
    board: Board, limit_s: float = LINK_S, show: Callable[[str], None] = lambda state: None
) -> tuple[bool, str]:
    """Return whether the broker let the board in, and what to report. Call this after outbox(),
    which says more about a board that does not open. The interpreter is restarted, so no earlier
    script can continue after it.

    show: called with each reason why the broker does not accept the board, as it comes up.
    """
    since = time.monotonic()
    seen: list[str] = []

    def take(line: str) -> None:
        if (state := _ERROR.fullmatch(line)) and int(state[1]):
            seen.append(name_of(int(state[1])))
            show(seen[-1] + _HINTS.get(seen[-1].split()[0], ""))

    board.renew()
    lines = board.run(f"{_LINK}\nlink({int(limit_s * 1000)})", take)
    found = _answer(board, lines, "L")
    if isinstance(found, str):
        return False, found
    if found[0] == "1":
        return True, f"the broker answered after {time.monotonic() - since:.1f} s"
    code = int(found[2]) if len(found) > 2 else 0
    hint = _cause(seen[-1].split()[0] if seen else "", _address(lines), code)
    return (
        False,
        f"not accepted within {limit_s:g} s: {', then '.join(seen) or 'nothing heard'}{hint}",
    )


def _address(lines: list[str]) -> list[str]:
    """Host, port, TLS (0 or 1) and level, as the board has them; [] if it did not say."""
    return next((line.split()[1:] for line in lines if _AT.fullmatch(line)), [])


def _cause(name: str, at: list[str], code: int) -> str:
    """What a board cannot see: why it was refused (code: that of CONNACK), or what answers at the
    address, seen from this computer. Otherwise a hint at what to check."""
    hint = _HINTS.get(name, "")
    if not at:
        return hint
    if name == "REFUSED" and code:
        login = "see 'user', 'password' and 'device_id'; has this board been revoked?"
        return f": {refusals.why_code(code, int(at[3]), login=login, level=_LEVEL)}"
    context = causes.unverified() if at[2] == "1" else None
    if name in _ELSEWHERE:
        return hint
    found = causes.look(causes.Place(at[0], int(at[1]), context, causes.SETTINGS))
    return f": seen from this computer, {found}" if found else hint


def name_of(number: int) -> str:
    """The name and number of a status of the firmware, of an error number of the port (those of
    POSIX), or of one of mbedTLS's, which are below -256."""
    names = {value: name for name, value in vars(status_numbers()).items() if value < 0}
    name = names.get(number) or errno.errorcode.get(number, "error")
    return f"{name} ({number})"


def _answer(board: Board, lines: list[str], letter: str) -> list[str] | str:
    """The words after the letter; a text if the board printed a reason instead. Raises
    ToolError."""
    for line in lines:
        if line.startswith("X "):
            return line[2:]
        if line.startswith(letter + " "):
            return line.split()[1:]
    raise ToolError(f"{board.port}: self-test: no result; it said: {' / '.join(lines)[-200:]}")

"""Messages that a board still holds when new settings change its name, topic or broker.

A held message keeps its topic, and the board sends it to the broker in its settings. So before
settings rename or move a board that holds messages, the user must say what becomes of them; there
is no default. No choice loses a message: it is sent first, it is sent later under its old name or
to the new broker, or it is saved in a file here before it is removed from the board.
"""

from __future__ import annotations

import ast
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from outpost_tools.boards.files import install
from outpost_tools.boards.files.plan import SETTINGS
from outpost_tools.boards.flash import outbox_image
from outpost_tools.boards.port.connection import Board
from outpost_tools.boards.port.progress import Progress
from outpost_tools.boards.selftest import selftest
from outpost_tools.boards.selftest.health import MOST_SETTINGS
from outpost_tools.boards.settings.settings_file import Settings
from outpost_tools.errors import ToolError
from outpost_tools.machine import board_json, files
from outpost_tools.machine.firmware import settings_module

SEND, KEEP, ASIDE, MOVE = "send", "keep", "aside", "move"
CHOICES = (SEND, KEEP, ASIDE, MOVE)
HELP = (
    "what becomes of messages that the board holds, if the settings change its name, topic or "
    "broker: `send` them first, with the settings that the board has; `keep` its name and broker, "
    "and change the other settings; set them `aside`: save them in a file here, and remove them "
    "from the board; or, if only the broker changes, let them `move` to the new one. Without this, "
    "the command asks at a terminal, and refuses elsewhere"
)
_PLACE = ("device_id", "topic_prefix", "broker_host", "broker_port")
_OF_NAME = ("device_id", "topic_prefix")
FILES = ("ca_file", "client_cert_file", "client_key_file")
# The board as the broker knows it, and how the board reaches the broker.
_IDENTITY = (*_PLACE, "user", "password", "tls", "server_name", "alpn", *FILES)
_MOST_TOPICS = 3  # that a text names
_COUNT_S = 60.0  # to open the outbox, and between two signs of life
_TURN_S = 10.0

_COUNT = """
def count():
    outbox, status = mount(device)
    if status:
        return print("N", status)
    topics, seq, loaded = {}, outbox.oldest_seq, 0
    while outbox.load(seq) == 0:
        topic = bytes(outbox.buffer[outbox.topic_at : outbox.topic_at + outbox.topic_length])
        topics[topic] = topics.get(topic, 0) + 1
        seq = outbox.loaded_seq + 1
        loaded += 1
        if loaded % 100 == 0:
            board.feed_watchdog()
            print(".")
    for topic in topics:
        print("T", topics[topic], topic)
    print("N", status, str(outbox.stream, "ascii"), outbox.next_seq)

device = find()
if device:
    count()
"""
# Runs as main.py does, but does not measure. Deep sleep is off, because after a sleep a new reading
# comes first.
_SEND = """
import main

def send(quiet_ms):
    board, settings = main.board, main.load_settings()
    settings["deep_sleep"] = False
    board.open(settings)
    station = main.build(settings)
    client = station.client
    outbox = client.session.outbox
    board.started(client)
    since = tick = board.ticks_ms()
    oldest, printed = outbox.oldest_seq, 0
    now = since
    while outbox.oldest_seq < outbox.next_seq and (now - since & 0x3fffffff) < quiet_ms:
        now = board.ticks_ms()
        board.keep_time(station.clock, now)
        if not client.poll(now):
            board.idle(client)
        board.feed_watchdog()
        if outbox.oldest_seq != oldest:
            oldest, since = outbox.oldest_seq, now
        if client.last_error != printed:
            printed = client.last_error
            print("E", printed)
        if (now - tick & 0x3fffffff) > 1000:
            tick = now
            print("H", outbox.next_seq - oldest)
    client.close()
    board.stopped(client)
    print("D", outbox.next_seq - outbox.oldest_seq)

def guarded(quiet_ms):
    try:
        send(quiet_ms)
    except ValueError as error:
        print("X", error)
    finally:
        main.board.release_watchdog()
"""
_REMOVE = """
def remove(stream, next_seq):
    outbox, status = mount(device)
    if not status and (outbox.stream, outbox.next_seq) != (stream, next_seq):
        return print("changed")
    if not status:
        outbox.discard_through(next_seq - 1)
        status = outbox.save_state()
    print("D", status)

device = find()
if device:
    remove({stream!r}, {next_seq!r})
"""


@dataclass(frozen=True, slots=True)
class Held:
    """topics: topic -> number of messages. stream, next_seq: those of the outbox."""

    topics: dict[str, int]
    stream: str
    next_seq: int

    @property
    def count(self) -> int:
        return sum(self.topics.values())

    def __str__(self) -> str:
        named = [*self.topics.items()][:_MOST_TOPICS]
        text = ", ".join(f"{count:,} of {topic}" for topic, count in named)
        rest = self.count - sum(count for _, count in named)
        return f"{text}, {rest:,} of others" if rest else text


@dataclass(frozen=True, slots=True)
class Old:
    """The settings on the board. given: as stored there. full: with defaults."""

    given: dict[str, Any]
    full: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """choice: one of CHOICES, "" if the user has made none. folder: where a file is saved. quiet_s:
    after this time without progress, sending has failed."""

    choice: str = ""
    folder: Path = Path()
    quiet_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """settings: those for the board. text: for the report; "" if nothing was held or nothing moves.
    in_use: files on the board that these settings still name."""

    settings: Settings
    text: str = ""
    in_use: tuple[str, ...] = ()


def settle(
    board: Board, settings: Settings, asked: Asked, progress: Progress, *, dry_run: bool
) -> Outcome:
    """Settle what becomes of held messages, before any file on the board is changed. Raises
    ToolError, also if the user must choose and has not."""
    old = on_board(board)
    moved = [key for key in _PLACE if old and old.full[key] != settings.full[key]]
    if not old or not moved:
        return Outcome(settings)
    progress.note("other settings for its name or broker: which messages does the board hold?")
    found = held(board)
    if found is None:
        return Outcome(settings, "not known: the outbox cannot be opened as it is now")
    if not found.count:
        return Outcome(settings)
    choices = (SEND, KEEP, ASIDE) if {*moved} & {*_OF_NAME} else CHOICES
    if dry_run:
        return Outcome(settings, f"{found}; {' and '.join(moved)} would change: {_flags(choices)}")
    choice = _chosen(asked.choice, _why(board.port, found, moved, old.full), choices)
    if choice == SEND:
        return Outcome(settings, _send(board, found, asked, progress))
    if choice == ASIDE:
        return Outcome(settings, _set_aside(board, found, old.full["device_id"], asked, progress))
    if choice == KEEP:
        return _keep(settings, found, old)
    return Outcome(settings, f"{found}; they go to {_address(settings.full)}")


def held(board: Board) -> Held | None:
    """What the board's outbox holds; None if it cannot be opened. Raises ToolError."""
    board.renew()
    lines = board.run(outbox_image.OPEN + outbox_image.MOUNT + _COUNT, answer_s=_COUNT_S)
    ends = [line.split()[1:] for line in lines if line.startswith("N ")]
    if not ends or ends[0][0] != "0":
        return None
    topics = {}
    for line in lines:
        if line.startswith("T "):
            _, count, topic = line.split(" ", 2)
            topics[ast.literal_eval(topic).decode("utf-8", "replace")] = int(count)
    return Held(topics, ends[0][1], int(ends[0][2]))


def on_board(board: Board) -> Old | None:
    """The settings on the board; None if it has none, or invalid ones, with which it cannot
    start."""
    try:
        given = json.loads(install.read_text(board, SETTINGS, MOST_SETTINGS))
        return Old(given, settings_module().check(given))
    except (ValueError, TypeError):
        return None


# --- What the user is told ---


def _why(port: str, found: Held, moved: list[str], old: dict[str, Any]) -> str:
    return (
        f"{port}: the board holds messages: {found}. They keep their topic, and these settings "
        f"change {' and '.join(moved)} (now it is {old['device_id']} at {_address(old)})"
    )


_WAYS = {
    SEND: "send them first, as the board is set now",
    KEEP: "keep its name and broker, and change the rest",
    ASIDE: "set them aside: in a file here, and off the board",
    MOVE: "let them go to the new broker",
}


def _flags(choices: tuple[str, ...]) -> str:
    return "say one of: " + "; ".join(f"--held {one} ({_WAYS[one]})" for one in choices)


def _chosen(choice: str, why: str, choices: tuple[str, ...]) -> str:
    """Return the choice, as given or asked for. Raises ToolError if there is none or if it does not
    apply."""
    if choice and choice not in choices:
        raise ToolError(f"{why}. --held {choice} is for settings that change only the broker")
    found = choice or _ask(why, choices)
    if not found:
        raise ToolError(f"{why}. {_flags(choices)}")
    return found


def _ask(why: str, choices: tuple[str, ...]) -> str:
    """Ask the user. Returns "" for an empty answer, or if there is no terminal."""
    if not sys.stdin.isatty():
        return ""
    print(why + ".", *(f"  {one:5}  {_WAYS[one]}" for one in choices), sep="\n", file=sys.stderr)
    while True:
        print(f"{', '.join(choices)}; empty ends: ", end="", file=sys.stderr, flush=True)
        word = sys.stdin.readline().strip()
        if not word or word in choices:
            return word


def _address(full: dict[str, Any]) -> str:
    return f"{full['broker_host']}:{full['broker_port']}"


# --- Three ways ---


def _send(board: Board, found: Held, asked: Asked, progress: Progress) -> str:
    """Let the board send all messages with the program and settings that it has. Raises
    ToolError."""
    progress.note(f"sending what is held ({found}), until nothing moves for {asked.quiet_s:g} s")
    errors: list[str] = []

    def take(line: str) -> None:
        if line.startswith("H "):
            progress.note(f"still held: {line[2:]}")
        elif line.startswith("E ") and line != "E 0":
            errors.append(selftest.name_of(int(line[2:])))

    board.renew()
    lines = board.run(f"{_SEND}\nguarded({int(asked.quiet_s * 1000)})", take, _TURN_S + 20)
    board.renew()
    if lines[-1:] != ["D 0"]:
        left = next((line[2:] for line in lines if line.startswith(("D ", "X "))), "")
        why = f" ({', then '.join(dict.fromkeys(errors))})" if errors else ""
        raise ToolError(
            f"{board.port}: --held {SEND}: not all were taken{why}: {left or 'some'} still held. "
            "Nothing else was changed; see that the broker, and in collector mode `outpost "
            f"collect`, is there, or say --held {KEEP} or --held {ASIDE}"
        )
    return f"{found}; sent before the change"


def _set_aside(board: Board, found: Held, device: str, asked: Asked, progress: Progress) -> str:
    """Save the messages durably in a file, then remove them from the board. Raises ToolError."""
    path = asked.folder / f"held-{device}-{found.stream}-{found.next_seq}.img"
    board.renew()
    with progress.bar("reading the outbox", "block") as show:
        data = outbox_image.read_from(board.console, board.port, show).data
    try:
        with files.replaced(path, is_private=True) as file:
            file.write(data)
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}; nothing was changed on the board") from None
    board.renew()
    script = _REMOVE.format(stream=found.stream.encode(), next_seq=found.next_seq)
    lines = board.run(outbox_image.OPEN + outbox_image.MOUNT + script, answer_s=_COUNT_S)
    board.renew()
    if lines[-1:] != ["D 0"]:
        said = " / ".join(lines)[-200:]
        raise ToolError(f"{board.port}: the board did not remove them: {said}; they are in {path}")
    return (
        f"{found}; saved in {path} and removed from the board (`outpost outbox export {path} "
        "--segments log --id held-1` brings them into the tables)"
    )


def _keep(settings: Settings, found: Held, old: Old) -> Outcome:
    """The new settings, but with the name, broker and certificates that the board has. Raises
    ToolError."""
    given = {key: value for key, value in settings.given.items() if key not in _IDENTITY}
    given |= {key: old.given[key] for key in _IDENTITY if key in old.given}
    try:
        full = settings_module().check(given, SETTINGS)
    except ValueError as error:
        raise ToolError(f"--held {KEEP}: {error}") from None
    text = board_json.encoded(given, sort_keys=True, indent=1)
    kept = replace(settings, given=given, full=full, files={SETTINGS: text})
    in_use = tuple(full[key] for key in FILES if full[key])
    return Outcome(kept, f"{found}; it stays {full['device_id']} at {_address(full)}", in_use)

"""The three ways to watch a board: listen to its port, stop it and look, or follow its messages at
the broker."""

from __future__ import annotations

import json
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outpost_tools.common import message
from outpost_tools.common.errors import ToolError
from outpost_tools.common.visible import visible
from outpost_tools.device import install, kinds, plan, selftest
from outpost_tools.device.connection import Board, connected
from outpost_tools.device.console import check_port

_POLL_S = 0.2
_KEEP_ALIVE_S = 30
_SPACE = (
    "import gc, os\ngc.collect()\ns = os.statvfs('/')\nprint(gc.mem_free(), s[0] * s[3], s[0] * "
    "s[2])"
)
_NOT_INSTALLED = "not installed by `outpost flash`"
Say = Callable[[str], None]


def say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


def _ended(until: float | None) -> bool:
    return until is not None and time.monotonic() > until


# --- Listen ---


def listen(port: str, until: float | None, tell: Say = say) -> None:
    """Print what the board prints; send nothing. Raises ToolError when the port goes away."""
    import serial

    check_port(port)
    rest = b""
    try:
        with serial.Serial(port, timeout=_POLL_S, exclusive=True) as line:
            while not _ended(until):
                *lines, rest = (rest + line.read(max(1, line.in_waiting))).split(b"\n")
                for one in lines:
                    tell(visible(one.rstrip(b"\r")))
    except (serial.SerialException, OSError) as error:
        if "exclusively lock" in str(error):
            raise ToolError(
                f"{port}: in use by another program; close it (a terminal, mpremote, an IDE)"
            ) from None
        raise ToolError(f"{port}: connection lost; is the board still plugged in?") from None


# --- Stop and look ---


def probe(port: str, answer_s: float) -> list[tuple[str, str]]:
    """What the board is, and whether Outpost is on it.

    The program is stopped and restarted. Raises ToolError.
    """
    with connected(port, answer_s) as board:
        return _who(board)


def _who(board: Board) -> list[tuple[str, str]]:
    return [
        ("board", str(kinds.ask(board))),
        ("outpost", _version(install.read_text(board, plan.RECORD))),
    ]


def look(port: str, answer_s: float) -> list[tuple[str, str]]:
    """Rows of a table. The program is stopped and restarted. Raises ToolError."""
    with connected(port, answer_s) as board:
        rows = _who(board)
        heap, free, size = board.run(_SPACE)[-1].split()
        rows.append(
            (
                "free",
                f"{int(heap):,} bytes of heap, {int(free):,} of {int(size):,} in the filesystem",
            )
        )
        crash = install.read_text(board, "/crash.txt")
        if rows[1][1] != _NOT_INSTALLED:
            found = selftest.outbox(board)
            rows.append(("outbox", found if isinstance(found, str) else _fill(found)))
    lines = crash.strip().splitlines()
    rows += [
        ("crash.txt" if not number else "", visible(line))
        for number, line in enumerate(lines or ["none"])
    ]
    return rows


def _version(record: str) -> str:
    try:
        about = json.loads(record)
        return visible(f"{about['version']} for {about['board']}")
    except (ValueError, KeyError, TypeError):
        return _NOT_INSTALLED


def _fill(outbox: selftest.Outbox) -> str:
    return (
        f"{outbox.held} messages held in {outbox.blocks} blocks, stream {outbox.stream}, boot "
        f"{outbox.boot - 1}{outbox.troubles}"
    )


# --- Follow at the broker ---


def follow(settings: dict[str, Any], folder: Path, until: float | None, tell: Say = say) -> None:
    """A line for each message of the board: what its counters say.

    settings: of the board, checked. Raises ToolError.
    """
    import paho.mqtt.client as mqtt

    topic = f"{settings['topic_prefix']}/{settings['device_id']}/data"
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv311)
    client.on_connect = lambda *_: client.subscribe(topic, 0)
    client.on_message = lambda _c, _u, found: _tell_message(found, tell)
    if settings["user"]:
        client.username_pw_set(settings["user"], settings["password"] or None)
    if settings["tls"]:
        client.tls_set_context(tls_context(settings, folder))
    try:
        client.connect(settings["broker_host"], settings["broker_port"], _KEEP_ALIVE_S)
    except (OSError, ValueError) as error:
        raise ToolError(
            f"{settings['broker_host']}:{settings['broker_port']}: the broker does not answer: "
            f"{error}"
        ) from None
    print(f"following {topic}", file=sys.stderr)
    while not _ended(until):
        client.loop(_POLL_S)
    client.disconnect()


def tls_context(settings: dict[str, Any], folder: Path) -> ssl.SSLContext:
    from outpost_tools.device import certificates

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and name
    ca = certificates.certificate((folder / settings["ca_file"]).read_bytes())
    context.load_verify_locations(cadata=certificates.der_of_certificate(ca))
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


def _tell_message(found: Any, tell: Say) -> None:
    try:
        one = message.decode(found.topic, found.payload, retained=found.retain)
    except message.Malformed as error:
        tell(visible(f"{found.topic}: no Outpost message: {error}"))
        return
    readings = ", ".join(
        f"{one.name} {one.value:g}{f' {one.unit}' if one.unit else ''}" for one in one.readings
    )
    if one.left_out:
        readings += f"; {message.left_out_reason(one)}"
    held = one.seq - one.held
    tell(visible(f"message {one.seq}, boot {one.boot}, {held} held before it: {readings}"))

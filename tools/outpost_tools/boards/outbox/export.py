"""Exports messages from an image: as JSON lines, or as one sealed segment that the pipeline reads
like a collector's.

Frames are the same for the same image and time, so exporting twice changes nothing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path

from outpost_tools.boards.outbox.image import Image, Message, State
from outpost_tools.boards.outbox.show import message_json
from outpost_tools.errors import ToolError
from outpost_tools.log import segments

_ONE_SEGMENT_BYTES = 1 << 40  # an image yields one segment: it is sealed completely, or missing


def chosen(image: Image, *, with_freed: bool, prefix: str | None) -> list[Message]:
    """The messages still held; with_freed: all that can be read. prefix: only topics below it."""
    start = None if prefix is None else prefix.encode() + b"/"
    messages = image.messages if with_freed else image.held
    return [
        message for message in messages if start is None or message.record.topic.startswith(start)
    ]


def json_lines(image: Image, messages: Iterable[Message]) -> str:
    return "".join(json.dumps(message_json(image, message)) + "\n" for message in messages)


def write_new(path: Path, text: str) -> None:
    """Writes a file that must not exist yet. Raises ToolError."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ToolError(f"{path} exists already: name another file, or remove it") from None
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None


def write_segment(messages: list[Message], directory: Path, received_ms: int) -> bool:
    """Seal them as the one segment of `directory`.

    False: it exists already, with exactly these messages. Raises ToolError.
    """
    # A message whose number was given up has the same key as another message: the two must not meet
    # in the tables.
    texts = [
        (message.record.topic, message.record.payload)
        for message in messages
        if message.state is not State.SUPERSEDED
    ]
    return write_texts(texts, directory, received_ms)


def write_texts(texts: list[tuple[bytes, bytes]], directory: Path, received_ms: int) -> bool:
    """As write_segment(): (topic, payload) of each."""
    # Never RETAIN: a broker forwards a new message without it, and the pipeline treats one with it
    # as a stale copy.
    frames = [segments.encode_frame(received_ms, topic, payload) for topic, payload in texts]
    if directory.exists() and any(directory.iterdir()):
        _check_same(directory, frames)
        return False
    if not frames:
        return False
    try:
        writer = segments.SegmentWriter(directory, max_bytes=_ONE_SEGMENT_BYTES)
        for frame in frames:
            writer.append(frame)
        writer.seal()
    except OSError as error:
        raise ToolError(f"{directory}: {error.strerror}; nothing was exported") from None
    return True


def _check_same(directory: Path, frames: list[bytes]) -> None:
    """Raises ToolError unless the directory contains one sealed segment with these messages, at any
    arrival time."""
    wanted = [
        (frame.topic, frame.payload) for frame in segments.scan(segments.sealed_bytes(frames))
    ]
    sealed = segments.sealed_segments(directory)
    if sealed == sorted(directory.iterdir()) and len(sealed) == 1:
        with contextlib.suppress(ValueError, OSError):
            found = segments.contents(sealed[0])
            if wanted == [(frame.topic, frame.payload) for frame in found.frames()] and not (
                found.damage
            ):
                return
    raise ToolError(
        f"{directory} holds something else: choose another --id (or remove it, if an export was "
        "cut off there)"
    )

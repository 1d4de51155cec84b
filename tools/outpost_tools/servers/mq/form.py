"""The forms that `outpost mq` reads and prints: message bytes, their hex digits, or JSON lines with
queue and MQMD."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from outpost_tools.errors import ToolError
from outpost_tools.servers.mq import storage
from outpost_tools.servers.mq.descriptor import Descriptor
from outpost_tools.servers.mq.folder import Element
from outpost_tools.servers.mq.header import (
    STRUC_ID,
    STRUC_ID_EBCDIC,
    Folder,
    Header,
    Message,
    parse,
)
from outpost_tools.servers.mq.mapping import DEFAULT_QUEUE, Outgoing
from outpost_tools.servers.mq.reasons import MqError

FORMS = ("json", "hex", "raw")
_HEX = re.compile(rb"[0-9A-Fa-f\s]*\Z")


def read_file(name: str) -> bytes:
    """A file's bytes; `-` is standard input. Raises ToolError."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise ToolError(f"{name}: {error.strerror}") from None


def read_messages(name: str, form: str, encoding: int) -> list[Outgoing | MqError]:
    """The messages in a file, at least one. Raises ToolError."""
    found = list(messages(read_file(name), form, encoding))
    if not found:
        raise ToolError(f"{name}: no message in it")
    return found


def messages(data: bytes, form: str, encoding: int) -> Iterator[Outgoing | MqError]:
    """The messages in `data`; `auto` guesses the form.

    Bytes and hex have no MQMD, so its Encoding is an argument.
    """
    chosen = _guess(data) if form == "auto" else form
    if chosen == "json":
        for line in data.splitlines():
            if line.strip():
                try:
                    yield storage.from_line(line)
                except MqError as error:
                    yield error
        return
    if chosen == "hex":
        if not _HEX.match(data) or len(b"".join(data.split())) % 2:
            yield MqError("hex", 2334, "not pairs of hex digits")
            return
        data = bytes.fromhex(data.decode("ascii"))
    yield Outgoing(DEFAULT_QUEUE, Descriptor(encoding=encoding), data)


def _guess(data: bytes) -> str:
    if data[:4] in (STRUC_ID, STRUC_ID_EBCDIC):
        return "raw"
    if data.lstrip()[:1] == b"{":
        return "json"
    return "hex" if _HEX.match(data) else "raw"


def write(message: Outgoing, form: str) -> bytes:
    """The message in one of FORMS."""
    if form == "raw":
        return message.data
    text = message.data.hex() if form == "hex" else json.dumps(storage.to_json(message))
    return text.encode() + b"\n"


def describe(outgoing: Outgoing) -> dict[str, Any]:
    """Everything in a message, as JSON.

    A folder that cannot be read has `error`. Raises MqError for bad headers.
    """
    message = parse(outgoing.data, encoding=outgoing.md.encoding, format=outgoing.md.format)
    headers = [_header(header) for header in message.headers]
    return {
        "queue": outgoing.queue,
        "md": outgoing.md.to_json(),
        "headers": headers,
        "body": _body(message),
    }


def _header(header: Header) -> dict[str, Any]:
    return {
        "StrucLength": header.length,
        "Encoding": header.encoding,
        "CodedCharSetId": header.ccsid,
        "Format": header.format,
        "Flags": header.flags,
        "NameValueCCSID": header.name_value_ccsid,
        "folders": [_folder(folder) for folder in header.folders],
    }


def _folder(folder: Folder) -> dict[str, Any]:
    try:
        root = folder.root()
    except MqError as error:
        return {"error": str(error), "base64": base64.b64encode(folder.data).decode()}
    return {
        "name": root.name,
        "values": [_element(child) for child in root.children],
        "text": folder.text,
    }


def _element(element: Element) -> list[Any]:
    """[name, value], and the attributes when there are any."""
    value = [_element(child) for child in element.children] if element.children else element.text
    return (
        [element.name, value, dict(element.attributes)]
        if element.attributes
        else [element.name, value]
    )


def _body(message: Message) -> dict[str, Any]:
    try:
        return {"length": len(message.body), "text": message.body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"length": len(message.body), "base64": base64.b64encode(message.body).decode()}

"""A message as words and as JSON, for the alerts that wait for a channel. Control characters in
text from others (names of boards and sensors) are shown as escapes, so that they cannot break a
line or a header."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from outpost_tools.servers.alerts.ledger import BEGIN, END, MORE, TEST, Event
from outpost_tools.text.visible import visible

_MOST_TITLE = 120
_SAYS = {BEGIN: "", MORE: "more: ", END: "over: "}


@dataclass(frozen=True, slots=True)
class Message:
    """id: stays the same when the message is sent again."""

    id: str
    title: str
    text: str
    document: dict[str, Any]


def message(
    events: list[Event], dropped: dict[str, int] | None = None, rest: dict[str, int] | None = None
) -> Message:
    """dropped: how many older alerts will not be sent; rest: how many wait for a later message;
    both by board, "" for alerts without a board."""
    dropped, rest = dropped or {}, rest or {}
    lines = [_line(one) for one in events]
    lines += [f"and {count} more{_of(board)}: they wait" for board, count in sorted(rest.items())]
    lines += [
        f"{count} older alerts{_of(board)} are not sent: too many were waiting"
        for board, count in sorted(dropped.items())
    ]
    title = _title(events)
    text = "\n".join(lines)
    name = "|".join(f"{one['id']}{one['state']}" for one in events)
    document = {"text": text, "title": title, "alerts": events}
    document |= {"dropped": sum(dropped.values()), "waiting": sum(rest.values())}
    return Message(hashlib.sha256(name.encode()).hexdigest()[:20], title, text, document)


def _of(board: str) -> str:
    return f" of {visible(board)}" if board else ""


def _line(one: Event) -> str:
    began, when = _local(one["began"]), _local(one["time"])
    times = {BEGIN: f"since {began}", TEST: when}.get(one["state"], f"{when}, since {began}")
    text = f"{_SAYS.get(one['state'], '')}{visible(one['text'])} ({times})"
    return text + (f"\n    {one['todo']}" if one.get("todo") else "")


def _title(events: list[Event]) -> str:
    first = events[0]
    text = _SAYS.get(first["state"], "") + visible(first["text"])
    if len(text) > _MOST_TITLE:
        text = text[: _MOST_TITLE - 1] + "…"
    return text + (f" (and {len(events) - 1} more)" if len(events) > 1 else "")


def _local(time: str) -> str:
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")

"""The user's actions on an outbox in a scope of the proof: for each name, the actions that a state
offers, as (label, function of the explorer).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prove_outbox import Explorer

TOPIC = b"t"
OTHER_STREAM = b"01234567"
Act = Callable[["Explorer"], Any]


def _append(size: int | None, filler: int = -1) -> Callable[[Explorer], list]:
    def offer(explorer: Explorer) -> list:
        if len(explorer.promise.held) >= explorer.scope.most_held:
            return []
        return [(f"append {size or 'large'} {filler}", act)]

    def act(explorer: Explorer) -> None:
        data = explorer.payload(size or explorer.scope.largest, filler)
        explorer.promise.append(explorer.outbox, TOPIC, data)

    return offer


def _free(place: int) -> Callable[[Explorer], list]:
    def offer(explorer: Explorer) -> list:
        held = sorted(set(explorer.promise.held) - explorer.open_record())
        if len(held) <= place:
            return []
        return [(f"free {held[place]}", lambda e: e.promise.discard(e.outbox, held[place]))]

    return offer


def _save(explorer: Explorer) -> list:
    return [("save", lambda e: e.promise.save(e.outbox))]


def _erase_ahead(explorer: Explorer) -> list:
    return [("erase ahead", lambda e: e.outbox.erase_ahead())]


def _off(explorer: Explorer) -> list:
    return [("off", lambda e: e.power_off("off"))]


def _load(is_first: bool) -> Callable[[Explorer], list]:
    def offer(explorer: Explorer) -> list:
        if not is_first and explorer.outbox.loaded_seq < 0:
            return []
        return [("load first" if is_first else "load next", act)]

    def act(explorer: Explorer) -> None:
        outbox = explorer.outbox
        seq = 0 if is_first else outbox.loaded_seq + 1
        explorer.promise.load(outbox, seq, explorer.chip.is_settled())

    return offer


def _load_newest(explorer: Explorer) -> list:
    def act(explorer: Explorer) -> None:
        outbox = explorer.outbox
        explorer.promise.load(outbox, outbox.next_seq - 1, explorer.chip.is_settled())

    return [("load newest", act)] if explorer.outbox.next_seq else []


def _format(explorer: Explorer) -> list:
    return [("format", lambda e: e.format_again(OTHER_STREAM))]


def _note(explorer: Explorer) -> list:
    notes = (b"", b"note 1", b"longer note 2")
    return [
        (f"note {note!r}", lambda e, note=note: e.promise.set_note(e.outbox, note))
        for note in notes
        if note != explorer.promise.note
    ]


def _add(explorer: Explorer) -> list:
    return [("add", lambda e: e.add_sample())]


def _close(explorer: Explorer) -> list:
    return [("close", lambda e: e.ram.series.close())] if explorer.open_record() else []


ACTIONS: dict[str, Callable[[Explorer], list]] = {
    "append small": _append(4),
    "append large": _append(None),
    "append FF": _append(None, 0xFF),
    "append 00": _append(None, 0),
    "free first": _free(0),
    "free second": _free(1),
    "save": _save,
    "erase ahead": _erase_ahead,
    "off": _off,
    "load first": _load(True),
    "load next": _load(False),
    "load newest": _load_newest,
    "format": _format,
    "note": _note,
    "add": _add,
    "close": _close,
}

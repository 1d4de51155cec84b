"""The condition of an outbox's flash, for people and programs: pure, from an image that was read
and examined.

A trouble is something that somebody should look at. Torn records and mended headers alone are not
troubles: power cuts and time cause them, and nothing was lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from outpost_tools.boards.outbox import wear
from outpost_tools.boards.outbox.faults import Findings
from outpost_tools.boards.outbox.image import Image, Kind, Status
from outpost_tools.boards.outbox.layout import BLOCK_BYTES, HEADER_BYTES
from outpost_tools.boards.outbox.shelf import Shelf
from outpost_tools.text.visible import visible

_TOPICS = 3  # named in a row
WORN_PART = 0.8  # of the erases that a block survives


@dataclass
class Health:
    """rows: names and values. troubles: what is wrong, and what to do; empty: it is sound."""

    rows: list[tuple[str, str]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def examine(
    image: Image, findings: Findings, shelf: Shelf, pins: str = "", endurance: int = 0
) -> Health:
    """pins: what is wrong with the files that should own a board's outbox."""
    found = Health()
    if image.status is not Status.OUTBOX:
        found.rows.append(("outbox", f"none: {image.status.value}"))
        found.troubles += findings.faults
    else:
        _numbers(image, found)
        _room(image, found)
        _wear(image, found, endurance or wear.ENDURANCE)
        _flash(image, found)
        _faults(image, findings, found)
    _aside(shelf, found)
    _pins(pins, found)
    return found


def as_json(name: str, found: Health) -> dict[str, Any]:
    sound = not found.troubles
    return {"image": name, "sound": sound} | found.facts | {"troubles": found.troubles}


def _of(number: int, one: str) -> str:
    """1 block, 2 blocks."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def _numbers(image: Image, found: Health) -> None:
    header, held = image.head.header, len(image.held)
    found.rows.append(
        (
            "outbox",
            f"stream {image.stream}, {len(image.blocks)} blocks, format {header.version}, "
            f"boot {image.boot}",
        )
    )
    span = f", numbers {image.held[0].seq:,} to {image.held[-1].seq:,}" if held else ""
    found.rows.append(("held", f"{_of(held, 'message')}{span}; the next is {image.next_seq:,}"))
    found.facts |= {
        "stream": image.stream,
        "format": header.version,
        "blocks": len(image.blocks),
        "boot": image.boot,
        "held": held,
        "oldest": image.oldest,
        "next_seq": image.next_seq,
    }


def _room(image: Image, found: Health) -> None:
    """How full it is, and how many more messages of the same size fit."""
    ring = len(image.blocks) - len(image.left_out) - len(image.lent)
    oldest = image.held[0].block if image.held else image.head.number
    used = next(
        (len(image.chain) - at for at, one in enumerate(image.chain) if one.number == oldest), 1
    )
    sizes = [message.record.size_bytes for message in image.messages]
    size = sum(sizes) / len(sizes) if sizes else 0.0
    text = f"{used} of {ring} blocks in use"
    found.facts |= {"ring_blocks": ring, "used_blocks": used}
    if size:
        more = int(max(ring - used, 0) * ((BLOCK_BYTES - HEADER_BYTES) // size))
        text += f"; room for {more:,} more messages of {size:.0f} bytes"
        found.facts["room_messages"] = more
    found.rows.append(("room", text))


def _wear(image: Image, found: Health, endurance: int) -> None:
    _, most = wear.erases_so_far(image)
    part = most / endurance
    text = f"{_of(most, 'erase')} of a block so far, {100 * part:.2g} % of {endurance:,}"
    found.rows.append(("wear", text))
    found.facts["erases_of_a_block"] = most
    if part >= WORN_PART:
        found.troubles.append(f"the flash is worn ({text}): replace the board soon")


def _flash(image: Image, found: Health) -> None:
    """The flash's failures, whether something was lost or not."""
    out = ", ".join(map(str, image.left_out))
    count = _of(len(image.left_out), "block")
    found.rows.append(("left out", f"{count}: {out}" if out else "no block"))
    if out:
        found.troubles.append(
            f"{count} failed and are no longer used ({out}): the outbox holds less; replace the "
            "board when more blocks fail"
        )
    torn = sum(block.is_sector and not block.rest_is_erased for block in image.blocks)
    found.rows.append(("torn", f"{_of(torn, 'sector')} with a torn record at the end: power cuts"))
    mended = sum(block.kind is Kind.REPAIRED for block in image.blocks)
    found.rows.append(("mended", f"{_of(mended, 'header')} with a wrong bit, read anyway"))
    found.rows.append(("unreadable", _of(image.unreadable, "message")))
    found.facts |= {
        "left_out": image.left_out,
        "torn": torn,
        "mended": mended,
        "unreadable": image.unreadable,
    }
    if image.unreadable:
        found.troubles.append(
            f"{_of(image.unreadable, 'message')} can no longer be read: lost by the flash"
        )


def _faults(image: Image, findings: Findings, found: Health) -> None:
    """The faults that are not reported above."""
    told = {f"block {number}: " for number in image.left_out}
    told |= {f"block {one.number}: bad header" for one in image.blocks if one.kind is Kind.REPAIRED}
    faults = [line for line in findings.faults if not line.startswith(tuple(told))]
    found.facts["faults"] = faults
    if faults:
        found.rows.append(("faults", f"{len(faults)}: outpost outbox check names them"))
        found.troubles.append(f"{_of(len(faults), 'fault')}: outpost outbox check names them")


def _aside(shelf: Shelf, found: Health) -> None:
    count, topics = len(shelf.messages), _topics(shelf)
    found.facts |= {"aside": count, "aside_topics": topics}
    if count or shelf.damaged:
        damaged = f", {_of(shelf.damaged, 'place')} damaged" if shelf.damaged else ""
        more = ", ..." if len(topics) > _TOPICS else ""
        on = f" on {', '.join(topics[:_TOPICS])}{more}" if topics else ""
        found.rows.append(("set aside", _of(count, "message") + on + damaged))
        found.troubles.append(
            f"{_of(count, 'message')} set aside: the server would not take them, or (in collector "
            "mode) the broker takes these messages and does not pass them on: check the board's "
            "rights on the topic, and the size limit; outpost outbox aside list"
        )


def _topics(shelf: Shelf) -> list[str]:
    return sorted({visible(one.topic.decode("utf-8", "replace")) for one in shelf.messages})


def _pins(pins: str, found: Health) -> None:
    found.facts["pins"] = pins
    if pins:
        found.rows.append(("files", pins))
        found.troubles.append(
            "files that reserve the outbox's blocks are gone: save the messages (outpost outbox "
            "export), then make a new outbox (outpost outbox new)"
        )

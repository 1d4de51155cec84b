"""How an outbox's flash is, for people and programs: pure, from an image that was read and
examined.

A trouble is what somebody should look at. Torn records and wrong bits in headers alone are none:
power cuts and time cause them, and nothing was lost by them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from outpost_tools.outbox import wear
from outpost_tools.outbox.faults import Findings
from outpost_tools.outbox.image import Image, Kind, Status
from outpost_tools.outbox.layout import BLOCK_BYTES, HEADER_BYTES

WORN_PART = 0.8  # of the erases that a block stands


@dataclass
class Health:
    """rows: what, and how it is. troubles: what it comes to, and what to do; none: it is sound."""

    rows: list[tuple[str, str]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def examine(image: Image, findings: Findings, pins: str = "", endurance: int = 0) -> Health:
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
        _faults(findings, found)
    _pins(pins, found)
    return found


def as_json(name: str, found: Health) -> dict[str, Any]:
    sound = not found.troubles
    return {"image": name, "sound": sound} | found.facts | {"troubles": found.troubles}


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
    found.rows.append(("held", f"{held:,} messages{span}; the next is {image.next_seq:,}"))
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
    """How full, and how many more messages like those that are there fit."""
    ring = len(image.blocks)
    oldest = image.held[0].block if image.held else image.head.number
    used = next(
        (len(image.chain) - at for at, one in enumerate(image.chain) if one.number == oldest), 1
    )
    sizes = [message.record.size_bytes for message in image.messages]
    size = sum(sizes) / len(sizes) if sizes else 0.0
    text = f"{used} of {ring} blocks in use"
    found.facts["used_blocks"] = used
    if size:
        more = int(max(ring - used, 0) * ((BLOCK_BYTES - HEADER_BYTES) // size))
        text += f"; room for {more:,} more messages of {size:.0f} bytes"
        found.facts["room_messages"] = more
    found.rows.append(("room", text))


def _wear(image: Image, found: Health, endurance: int) -> None:
    _, most = wear.erases_so_far(image)
    part = most / endurance
    text = f"{most:,} erases of a block so far, {100 * part:.2g} % of {endurance:,}"
    found.rows.append(("wear", text))
    found.facts["erases_of_a_block"] = most
    if part >= WORN_PART:
        found.troubles.append(f"the flash is worn ({text}): replace the board soon")


def _flash(image: Image, found: Health) -> None:
    """What went wrong with it, and was survived or not."""
    torn = sum(block.is_sector and not block.rest_is_erased for block in image.blocks)
    found.rows.append(("torn", f"{torn} sectors end in a record that a power cut left torn"))
    mended = sum(block.kind is Kind.REPAIRED for block in image.blocks)
    found.rows.append(("mended", f"{mended} headers with a wrong bit, read all the same"))
    found.rows.append(("unreadable", f"{image.unreadable:,} messages"))
    found.facts |= {
        "torn": torn,
        "mended": mended,
        "unreadable": image.unreadable,
    }
    if image.unreadable:
        found.troubles.append(
            f"{image.unreadable:,} messages cannot be read any more: lost by the flash"
        )


def _faults(findings: Findings, found: Health) -> None:
    count = len(findings.faults)
    found.facts["faults"] = findings.faults
    if count:
        found.rows.append(("faults", f"{count}: outpost outbox check names them"))
        found.troubles.append(f"{count} faults of the flash: outpost outbox check names them")


def _pins(pins: str, found: Health) -> None:
    found.facts["pins"] = pins
    if pins:
        found.rows.append(("files", pins))
        found.troubles.append(
            "files that reserve the outbox's blocks are gone: save the messages (outpost outbox "
            "export), then make a new outbox (outpost outbox new)"
        )

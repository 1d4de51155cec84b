"""An image for people (text) and for programs (JSON).

Everything from the flash is escaped, because it may be anything.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from outpost_tools.boards.outbox import series_show
from outpost_tools.boards.outbox.faults import Findings
from outpost_tools.boards.outbox.image import Block, Image, Kind, Message, Status
from outpost_tools.boards.outbox.layout import BLOCK_BYTES, Record

_COLUMNS = "{:>6} {:>9} {:<8} {:>10} {:>10} {:>6} {:>8} {:>6} {:>6}  {}"


def text_fields(name: str, data: bytes) -> dict[str, str]:
    """{name: text} if the bytes are UTF-8, otherwise {name_hex: digits}."""
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_hex": data.hex()}


def shown(data: bytes) -> str:
    """The text itself if every character is printable; control characters could manipulate the
    terminal."""
    text = data.decode("utf-8", "replace")
    return text if text.isprintable() and "\ufffd" not in text else f"hex {data.hex()}"


def sector_lines(image: Image, *, with_records: bool) -> Iterator[str]:
    """One line per block, followed by one per record."""
    yield _COLUMNS.format(
        "block",
        "sector_no",
        "stream",
        "first_seq",
        "oldest",
        "boot",
        "messages",
        "held",
        "free",
        "",
    ).rstrip()
    messages = _by_place(image)
    held = Counter(message.block for message in image.held)
    for is_erased, run in itertools.groupby(image.blocks, lambda block: block.kind is Kind.ERASED):
        if is_erased:
            yield _erased_line(list(run))
            continue
        for block in run:
            yield _block_line(block, held[block.number])
            if with_records:
                yield from (
                    _record_line(image, record, messages.get((block.number, record.offset)))
                    for record in block.walk.records
                )


def _by_place(image: Image) -> dict[tuple[int, int], Message]:
    return {(message.block, message.record.offset): message for message in image.messages}


def _erased_line(run: list[Block]) -> str:
    first, last = run[0].number, run[-1].number
    return f"{first:>6} erased" if first == last else f"{first:>6} to {last} erased"


def _block_line(block: Block, held: int) -> str:
    if not block.is_sector:
        return f"{block.number:>6} {block.kind.value}"
    header, walk = block.header, block.walk
    stream = json.dumps(header.stream.decode("ascii", "backslashreplace"))[1:-1]
    boot = walk.records[-1].boot if walk.records else header.boot
    messages = sum(record.is_message for record in walk.records)
    fields = (
        block.number,
        header.sector_no,
        stream,
        header.first_seq,
        header.oldest,
        boot,
        messages,
        held,
        free_bytes(block),
    )
    return _COLUMNS.format(*fields, "; ".join(block_marks(block))).rstrip()


def free_bytes(block: Block) -> int:
    """The bytes that a board could still append here: none after a torn record."""
    return BLOCK_BYTES - block.walk.end if block.rest_is_erased else 0


def block_marks(block: Block) -> list[str]:
    marks = ["header repaired"] if block.wrong_byte >= 0 else []
    return marks if block.rest_is_erased else [*marks, f"torn at 0x{block.walk.end:04x}, sealed"]


def _record_line(image: Image, record: Record, message: Message | None) -> str:
    start = f"       0x{record.offset:04x}"
    if message is None:
        note = f" note hex {record.payload.hex()}" if record.payload else ""
        kind = "state" if record.kind == 2 else f"kind {record.kind}"
        return (
            f"{start} {kind} before {record.seq}, oldest {record.oldest}, acked "
            f"{record.acked:016b}{note}"
        )
    flags = f"QoS {record.qos}{' retain' if record.retain else ''}"
    sort, text = "message", shown(record.payload)
    if record.series is not None:
        is_open = series_show.may_be_open(image, message)
        sort, text = "series", series_show.line(record, is_open=is_open)
    state = message.state.value
    return f"{start} {sort} {record.seq} {flags} {state} {shown(record.topic)} {text}"


def summary(image: Image) -> str:
    if image.status is not Status.OUTBOX:
        return f"no outbox: {image.status.value}"
    return (
        f"{len(image.held)} messages held{_series_in(image)}, oldest {image.oldest}, next "
        f"{image.next_seq}, boot {image.boot}, "
        f"{image.unreadable} unreadable, stream {image.stream}"
    )


def _series_in(image: Image) -> str:
    found = [one.record.series for one in image.held if one.record.series is not None]
    samples = sum(one.samples for one in found)
    return f" ({len(found)} of them series, with {samples} samples)" if found else ""


def as_json(name: str, image: Image, findings: Findings, *, with_records: bool) -> dict[str, Any]:
    """The whole image; numbers and names as in `firmware/OUTBOX_FORMAT.md`."""
    head: dict[str, Any] = {
        "image": name,
        "status": image.status.value,
        "blocks": len(image.blocks),
    }
    if image.status is Status.OUTBOX:
        head |= {
            "stream": image.stream,
            "align": image.head.header.align,
            "oldest": image.oldest,
            "next_seq": image.next_seq,
        }
        head |= {
            "boot": image.boot,
            "messages_held": len(image.held),
            "unreadable": image.unreadable,
        }
    messages = _by_place(image)
    head |= {"faults": findings.faults, "notes": findings.notes}
    sectors = [_block_json(image, block, messages, with_records) for block in image.blocks]
    return head | {"sectors": sectors}


def _block_json(
    image: Image, block: Block, messages: dict[tuple[int, int], Message], with_records: bool
) -> dict[str, Any]:
    fields: dict[str, Any] = {"block": block.number, "kind": block.kind.value}
    if not block.is_sector:
        return fields
    header = block.header
    fields |= {
        "sector_no": header.sector_no,
        "stream": header.stream.decode("ascii", "backslashreplace"),
        "align": header.align,
    }
    fields |= {
        "first_seq": header.first_seq,
        "oldest": header.oldest,
        "acked": header.acked,
        "boot": header.boot,
    }
    fields |= {
        "free_bytes": free_bytes(block),
        "torn": not block.rest_is_erased,
        "marks": block_marks(block),
    }
    if with_records:
        records = block.walk.records
        fields["records"] = [
            _record_json(image, record, messages.get((block.number, record.offset)))
            for record in records
        ]
    return fields


def _record_json(image: Image, record: Record, message: Message | None) -> dict[str, Any]:
    if message is not None:
        return message_json(image, message)
    fields = {
        "offset": record.offset,
        "kind": "state" if record.kind == 2 else record.kind,
        "next_seq": record.seq,
    }
    fields |= {"oldest": record.oldest, "acked": record.acked, "boot": record.boot}
    return fields | ({"note_hex": record.payload.hex()} if record.payload else {})


def message_json(image: Image, message: Message) -> dict[str, Any]:
    """One message, as in the JSON lines of `export`. For a series, the payload is what a board
    would send."""
    record = message.record
    fields: dict[str, Any] = {
        "stream": message.stream,
        "seq": record.seq,
        "state": message.state.value,
        "boot": record.boot,
    }
    fields |= {"qos": record.qos, "retain": record.retain}
    fields |= text_fields("topic", record.topic) | text_fields("payload", record.payload)
    fields |= {"block": message.block, "offset": record.offset}
    if record.series is not None:
        is_open = series_show.may_be_open(image, message)
        fields["series"] = series_show.as_json(record, is_open=is_open)
    return fields

"""`outpost outbox`: arguments in, what the other modules found out."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path

from outpost_tools.errors import ToolError

SUMMARY = "look into a copy of a board's outbox: show, check, rescue the messages, wear"
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}\Z")
_ALIGNMENTS = ("auto", "4", "8", "16", "32", "64", "128", "256")

_DESCRIPTION = """\
Look into a copy of a board's outbox, the ring of flash blocks in which it keeps what it has not yet delivered. IMAGE is a
file with the bytes of the region, from its first block on: `flash.img` of a simulated board (outpost simulate), or what a
flash reader took from a dead one. No board is needed, and the image is only read.

In place of IMAGE, --live PORT reads a board that is alive, over its serial port: --live /dev/ttyACM0 --save copy.img. Its
program is stopped for that (a few seconds) and started anew; nothing is written to its flash. What it held in RAM is lost as
at a reset: acknowledgements that were not yet in the flash, so that some messages are shown as held that have arrived.
"""
_EXAMPLES = """\
examples:
  outpost outbox show flash.img                     a line a block, and what is held
  outpost outbox show flash.img --records           every record, with topic and payload
  outpost outbox check flash.img                    what is wrong with it; status 1 when something is
  outpost outbox export flash.img --json-lines -    the messages not yet delivered
  outpost outbox export flash.img --segments log --id rescue-1
                                                    ... into the tables: outpost pipeline run --log log --tables tables
  outpost outbox wear flash.img                     how often its blocks were erased so far
  outpost outbox wear --blocks 64 --interval 10 --topic-bytes 24 --payload-bytes 64
                                                    how long the flash will last
  outpost outbox wear --table                       the same for typical loads, in Markdown
"""
_EXPORT_NOTE = """\
Without --all: the messages that the board has not freed. Some of them may have arrived already (the word of it lay in the board's
RAM); the tables take each message once, so exporting too much does no harm. Messages behind damage are exported where their own
checksum proves them. Status 1 when the image has faults, although all that could be read was exported.
"""


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "outbox", help=SUMMARY, description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    jobs = parser.add_subparsers(title="jobs", metavar="JOB", required=True)
    _add_show(jobs)
    _add_check(jobs)
    _add_export(jobs)
    _add_wear(jobs)


def _add_job(jobs, name: str, summary: str, run, description: str | None = None) -> argparse.ArgumentParser:
    parser = jobs.add_parser(name, help=summary, description=description or f"{summary[0].upper()}{summary[1:]}.")
    parser.set_defaults(func=run)
    return parser


def _add_show(jobs) -> None:
    parser = _add_job(jobs, "show", "print it block by block; status 1 when it is no outbox", _show)
    _add_image(parser)
    parser.add_argument("--records", action="store_true", help="every record too")
    parser.add_argument("--json", action="store_true", help="for programs")


def _add_check(jobs) -> None:
    parser = _add_job(jobs, "check", "name what is wrong with it: status 0 sound, 1 not", _check)
    _add_image(parser)


def _add_image(parser: argparse.ArgumentParser) -> None:
    _add_source(parser)
    what = "the alignment that the board is set to; auto (default): whatever the image says"
    parser.add_argument("--align", choices=_ALIGNMENTS, default="auto", help=what)


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", metavar="IMAGE", type=Path, nargs="?")
    parser.add_argument("--live", metavar="PORT", help="a live board's serial port, in place of IMAGE")
    parser.add_argument("--save", metavar="FILE", type=Path, help="with --live: keep the image in a new file")
    what = "with --live: seconds that the board has for each answer, default 10"
    parser.add_argument("--timeout", type=_number(float, 0.1, 600), metavar="S", default=10.0, help=what)


def _add_export(jobs) -> None:
    parser = _add_job(jobs, "export", "rescue the messages", _export, _EXPORT_NOTE)
    _add_source(parser)
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--json-lines", metavar="FILE", help="one JSON object a message; - is standard output")
    target.add_argument("--segments", metavar="DIR", type=Path, help="a collector's log: a sealed segment goes to DIR/ID")
    parser.add_argument("--id", help="with --segments: a name that no collector has, such as rescue-1")
    parser.add_argument("--prefix", metavar="TOPIC", help="only topics below TOPIC/")
    parser.add_argument("--all", action="store_true", help="freed messages too, as far as they are still there")


def _add_wear(jobs) -> None:
    note = "Of an IMAGE: the erases so far. Without: the model for a message rate, a size and a number of blocks."
    parser = _add_job(jobs, "wear", "erases so far, or the years to come", _wear, note)
    _add_source(parser)
    parser.add_argument("--table", action="store_true", help="typical loads, as a Markdown table")
    parser.add_argument("--blocks", type=_number(int, 2, 4096), metavar="N", help="blocks of 4,096 bytes, 2 to 4096")
    parser.add_argument("--rate", type=_number(float, 1e-9, 1e6), metavar="R", help="messages a second, or ...")
    parser.add_argument("--interval", type=_number(float, 1e-6, 1e9), metavar="S", help="... seconds between two messages")
    parser.add_argument("--topic-bytes", type=_number(int, 0, 255), default=24, metavar="N", help="default 24")
    parser.add_argument("--payload-bytes", type=_number(int, 0, 4048), default=200, metavar="N", help="default 200")
    what = "state records a message: default 0; 1 where messages are over 10 minutes apart, or a board sleeps after each"
    parser.add_argument("--saves", type=_number(float, 0, 1), metavar="F", help=what)
    parser.add_argument("--align", choices=_ALIGNMENTS[1:], default="4", help="default 4")
    what = "erases that a block stands, default 100000 (NOR flash); see the chip's data sheet"
    parser.add_argument("--endurance", type=_number(int, 1, 10**9), default=100_000, metavar="N", help=what)


def _number(kind, least: float, most: float):
    def convert(text: str):
        try:
            value = kind(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least:g} to {most:g}")
        return value

    return convert


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}; name a file with the bytes of the outbox's flash region") from None


def _data_of(args: argparse.Namespace) -> bytes:
    """The bytes of IMAGE, or of the board at PORT."""
    if (args.image is None) == (args.live is None):
        raise ToolError("give an IMAGE or --live PORT" + (", not both" if args.live else ""))
    if args.live is None:
        if args.save is not None:
            raise ToolError("--save goes with --live")
        return _bytes_of(args.image)
    data = _read_live(args)
    args.image = args.save or Path(args.live)
    return data


def _read_live(args: argparse.Namespace) -> bytes:
    from outpost_tools.outbox import live

    if args.save is not None and args.save.exists():  # before the wait for the board
        raise ToolError(f"{args.save} is there already: name another file, or remove it")
    with live.progress_bar() as show:
        data = live.read_outbox(args.live, args.timeout, show)
    if args.save is not None:
        _save(args.save, data)
    return data


def _save(path: Path, data: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(data)
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None


def _examined(args: argparse.Namespace):
    from outpost_tools.outbox import faults, image

    data = _data_of(args)
    found = image.read_image(data)
    align = getattr(args, "align", "auto")
    return found, faults.examine(data, found, None if align == "auto" else int(align))


def _show(args: argparse.Namespace) -> int:
    from outpost_tools.outbox import show
    from outpost_tools.outbox.image import Status

    image, findings = _examined(args)
    if args.json:
        print(json.dumps(show.as_json(args.image.name, image, findings, with_records=args.records), indent=1))
    else:
        for line in show.sector_lines(image, with_records=args.records):
            print(line)
        _print_findings(findings, sys.stdout)
        print(show.summary(image))
    return 0 if image.status is Status.OUTBOX else 1


def _print_findings(findings, stream) -> None:
    for line in findings.faults:
        print(f"fault: {line}", file=stream)
    for line in findings.notes:
        print(f"note: {line}", file=stream)


def _check(args: argparse.Namespace) -> int:
    from outpost_tools.outbox import show

    image, findings = _examined(args)
    _print_findings(findings, sys.stdout)
    count = len(findings.faults)
    verdict = "sound" if not count else f"{count} fault{'s' if count > 1 else ''}"
    print(f"{args.image}: {verdict}; {show.summary(image)}")
    return 1 if count else 0


def _export(args: argparse.Namespace) -> int:
    from outpost_tools.outbox import export

    if args.segments is not None and not _ID.match(args.id or ""):
        raise ToolError("--segments needs --id, a name of letters, digits, '_', '-', '.': such as --id rescue-1")
    if args.segments is None and args.id is not None:
        raise ToolError("--id goes with --segments")
    image, findings = _examined(args)
    _print_findings(findings, sys.stderr)
    messages = export.chosen(image, with_freed=args.all, prefix=args.prefix)
    if args.json_lines == "-":
        sys.stdout.write(export.json_lines(messages))
    elif args.json_lines is not None:
        export.write_new(Path(args.json_lines), export.json_lines(messages))
    else:
        _to_segments(args, messages)
    left = len(image.messages) - len(messages)
    print(f"outbox: {len(messages)} messages exported, {left} left out (freed, or not asked for)", file=sys.stderr)
    return 1 if findings.faults else 0


def _to_segments(args: argparse.Namespace, messages: list) -> None:
    from outpost_tools.outbox import export

    directory = args.segments / args.id
    if not export.write_segment(messages, directory, _received_ms(args)) and messages:
        print(f"outbox: {directory} holds them already, nothing was changed", file=sys.stderr)


def _received_ms(args: argparse.Namespace) -> int:
    """A live board's messages arrive now."""
    from outpost_tools.outbox import export

    return export.received_ms(args.image) if args.live is None else time.time_ns() // 1_000_000


def _wear(args: argparse.Namespace) -> int:
    from outpost_tools.outbox import wear

    if args.table:
        lines = wear.table(args.endurance, int(args.align))
    elif args.image is not None or args.live is not None:
        args.align = "auto"
        image, _ = _examined(args)
        if not image.chain:
            raise ToolError(f"{args.image}: no outbox is here ({image.status.value}), so no wear can be told")
        lines = wear.image_report(image, args.endurance)
    else:
        lines = wear.report(_load(args), args.endurance)
    print("\n".join(lines))
    return 0


def _load(args: argparse.Namespace):
    from outpost_tools.outbox import wear

    if args.blocks is None or (args.rate is None) == (args.interval is None):
        raise ToolError("wear: give an IMAGE or --live PORT, or --table, or --blocks with one of --rate and --interval")
    interval_s = args.interval if args.interval is not None else 1 / args.rate
    saves = args.saves if args.saves is not None else wear.saves_of(interval_s)
    load = wear.Load(args.blocks, interval_s, args.topic_bytes, args.payload_bytes, int(args.align), saves)
    if load.messages_per_block == 0:
        raise ToolError(f"wear: a record of {load.record_bytes} bytes does not fit into a block: send less at a time")
    return load

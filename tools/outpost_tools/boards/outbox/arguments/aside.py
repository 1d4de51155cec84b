"""`outpost outbox aside`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outpost_tools.boards.outbox.arguments import options
from outpost_tools.errors import ToolError
from outpost_tools.terminal.command_line import add_command

SUMMARY = "messages set aside because the server refused them: list, export, send, give up"
_DESCRIPTION = """\
Handle messages that a board has set aside: the server closed the connection at each of them, so the
board put them on a shelf in its flash and continued with the others. In collector mode these are
also messages that the broker takes and does not pass on. Typical causes are the broker's limit on
the size of a message, a topic that it does not allow (a board that was renamed still holds messages
with its earlier topic), or firmware that sends something the broker does not support.

  list      print one line for each: number, stream, QoS, size, topic and payload
  export    write them to JSON lines, or to a segment for the tables; they stay set aside
  send      send them again, after the cause is fixed. With --settings, this machine sends a message
            to the board's broker and releases it when the broker has acknowledged it (in collector
            mode over MQTT 5.0, which tells whether the broker denies it). Otherwise the
            board stores it again and sends it itself (not in collector mode, where a message keeps
            its number)
  give-up   discard them permanently; needs --yes

send and give-up change the board's flash, or the image: one message (--number, as listed) or --all.
Status 0: done; list: none is set aside. 1: list found some. 2: not done.
"""
_EXAMPLES = """\
examples:
  outpost outbox aside list --live /dev/ttyACM0
  outpost outbox aside export flash.img --json-lines aside.jsonl
  outpost outbox aside send --live /dev/ttyACM0 --all --settings kitchen.toml
  outpost outbox aside give-up --live /dev/ttyACM0 --number 1234 --yes
"""
_ACTIONS = ("list", "export", "send", "give-up")


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "aside", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument("action", choices=_ACTIONS, metavar="ACTION", help=", ".join(_ACTIONS))
    options.add_source(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--number", type=int, metavar="N", help="this message, as listed")
    which.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument("--yes", action="store_true", help="give-up: confirm the discarding")
    parser.add_argument(
        "--settings",
        metavar="TOML",
        type=Path,
        help="send: the board's settings, to publish from this machine",
    )
    target = parser.add_mutually_exclusive_group()
    target.add_argument(
        "--json-lines", metavar="FILE", help="export: one JSON object per message; - is stdout"
    )
    target.add_argument(
        "--segments", metavar="DIR", type=Path, help="export: a sealed segment goes to DIR/ID"
    )
    parser.add_argument(
        "--id", help="with --segments: a name that no collector has, such as rescue-1"
    )


def run(args: argparse.Namespace) -> int:
    """0; list: 1 if there are some. Raises ToolError."""
    _check(args)
    actions = {"list": _list, "export": _export, "send": _send, "give-up": _give_up}
    return actions[args.action](args)


def _check(args: argparse.Namespace) -> None:
    """Raises ToolError."""
    from outpost_tools.messages import name_rules

    changes = args.action in ("send", "give-up")
    if changes and args.number is None and not args.all:
        raise ToolError(f"{args.action}: say which, --number N or --all")
    if args.action == "give-up" and not args.yes:
        raise ToolError("give-up: this discards the message permanently: confirm with --yes")
    if args.action == "export" and args.json_lines is None and args.segments is None:
        raise ToolError("export: say where to, --json-lines FILE or --segments DIR --id ID")
    if args.segments is not None and not name_rules.is_client(args.id or ""):
        raise ToolError("--segments needs --id, a name of letters, digits, '_', '-', '.'")
    if args.action == "send" and args.live is None and args.settings is None:
        raise ToolError("send: an image cannot send: use --settings, and it is sent from here")
    if changes and (args.raw or args.save):
        raise ToolError("--raw and --save go with list and export")


def _list(args: argparse.Namespace) -> int:
    from outpost_tools.boards.outbox import aside, source

    found = source.shelf(args)
    for line in aside.lines(found.messages):
        print(line)
    damaged = f", {found.damaged} places damaged" if found.damaged else ""
    print(f"{args.image}: {len(found.messages)} messages set aside{damaged}")
    return 1 if found.messages else 0


def _export(args: argparse.Namespace) -> int:
    import json

    from outpost_tools.boards.outbox import aside, export, source

    messages = source.shelf(args).messages
    if messages and args.number is not None:
        messages = aside.chosen(messages, args.number)
    text = "".join(json.dumps(aside.as_json(one)) + "\n" for one in messages)
    if args.json_lines == "-":
        sys.stdout.write(text)
    elif args.json_lines is not None:
        export.write_new(Path(args.json_lines), text)
    elif messages:
        export.write_texts(
            [(one.topic, one.payload) for one in messages],
            args.segments / args.id,
            source.arrived_ms(args),
        )
    print(f"outbox: {len(messages)} messages exported; they stay set aside", file=sys.stderr)
    return 0


def _send(args: argparse.Namespace) -> int:
    from outpost_tools.boards.outbox import aside, source
    from outpost_tools.boards.settings import settings_file

    settings = settings_file.load(args.settings) if args.settings else None
    with source.changeable_shelf(args) as shelf:
        if settings:
            done = aside.publish(shelf, args.number, settings.full, args.settings.parent)
        else:
            done = aside.send_by_board(shelf, args.number)
    how = "acknowledged by the broker" if settings else "stored again, the board sends them"
    print(f"{args.live or args.image}: {len(done)} messages {how}; {len(shelf.messages)} left")
    return 0


def _give_up(args: argparse.Namespace) -> int:
    from outpost_tools.boards.outbox import aside, source

    with source.changeable_shelf(args) as shelf:
        done = aside.give_up(shelf, args.number)
    numbers = ", ".join(str(one.seq) for one in done)
    print(f"{args.live or args.image}: given up: {numbers}; {len(shelf.messages)} left")
    return 0

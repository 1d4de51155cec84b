"""`outpost send`."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.mqtt.arguments import add_operator, check_topic, login, only_with_broker, tls_of
from outpost_tools.terminal.command_line import add_command, positive

SUMMARY = "send a command to boards: report, restart, set, stay-awake"
_DESCRIPTION = """\
Send a command to one board or to several, and wait for the answers. The boards must have the
setting "commands": true, and must have connected with it once. A board that is away or asleep
receives the command at its next connection. Each command is executed once and answered once, even
if the power fails.

  report               measure now, and print the readings
  restart              reset the board; it answers after its start
  set KEY=VALUE ...    change settings, checked as by `outpost provision`; with --board KIND the
                       pins of sensors too, with --settings FILE of the board
                       also whether its memory suffices. KEY= sets the default,
                       KEY=@FILE takes the first line of a file (a password). Unless you change
                       only interval_ms, the settings are on trial: if the board cannot connect
                       with them, it restores the old ones
  stay-awake TIME      keep a board from deep sleep for a time such as 10m; 0s ends it

Exit status: 0 done; 1 refused or rolled back; 2 not sent; 3 no answer yet. In this case the command
stays queued at the broker, and a printed line shows how to ask for its answer later without
executing it twice.
"""
_EXAMPLES = """\
examples:
  outpost send --credentials fleet kitchen report
  outpost send --credentials fleet kitchen set interval_ms=5000
  outpost send --credentials fleet kitchen,cellar set wifi_password=@new.txt --within 2m
  outpost send --credentials fleet --all restart --until 1h    not if a board receives it later
  outpost send --credentials fleet cellar stay-awake 10m --timeout 3600
  outpost send --broker 127.0.0.1:1883 board-1 report          a broker without users
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "send", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument(
        "words",
        metavar="BOARDS COMMAND",
        nargs="+",
        help="names separated by commas (not with --all), then the command",
    )
    parser.add_argument("--all", action="store_true", help="every board in the credentials' folder")
    group = add_operator(parser)
    group.add_argument("--prefix", default="outpost", help="prefix of the topics; default outpost")
    _add_waiting(parser)
    parser.add_argument(
        "--board",
        metavar="BOARD",
        help="for `set sensors=...`: the boards' kind, to check their pins; see `outpost flash`",
    )
    parser.add_argument(
        "--settings",
        type=Path,
        metavar="FILE",
        help="for `set` with --board: what the board has now, to check that all fits its memory",
    )
    parser.add_argument(
        "--id", metavar="ID", help="id of a command that was sent: ask for its answer again"
    )


def _add_waiting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-wait", action="store_true", help="end when the broker has the command"
    )
    parser.add_argument(
        "--timeout",
        type=positive(float),
        default=60.0,
        metavar="S",
        help="seconds to wait for answers; default 60",
    )
    parser.add_argument(
        "--until",
        metavar="TIME",
        help="boards refuse the command after this time: 1h from now, or seconds since 1970",
    )
    parser.add_argument(
        "--within",
        metavar="TIME",
        help="for `set`: how long the board tries to connect; default 5m",
    )
    parser.add_argument(
        "--held",
        choices=("send", "move"),
        help="for `set broker_host=` or `broker_port=`: what becomes of messages that the board "
        "holds: `send` them first, within the time of --within, or let them `move` to the new "
        "broker. Without this, a board that holds messages refuses and says how many",
    )


def run(args: argparse.Namespace) -> int:
    """See _DESCRIPTION. Raises ToolError."""
    import sys

    from outpost_tools.boards.send.delivery import Delivery
    from outpost_tools.text.visible import visible_lines

    boards, words = _boards(args)
    access, commands = _access(args), _commands(args, boards, words)
    delivery = Delivery(access, commands)
    results = []
    if not args.no_wait:
        names = ", ".join(boards[:3]) + (f" and {len(boards) - 3} more" if boards[3:] else "")
        print(
            f"waiting at most {args.timeout:g} s for the answer of {names}; a board that is away "
            "or asleep answers at its next connection, Ctrl-C ends the waiting",
            file=sys.stderr,
            flush=True,
        )

    def tell(name, answer) -> None:
        results.append(answer.result)
        print(visible_lines(f"{name}: {answer}"), flush=True)

    delivery.run(args.timeout, is_waiting=not args.no_wait, tell=tell)
    for name in boards:
        if name not in delivery.answers and not (args.no_wait and name in delivery.sent):
            print(f"outpost: {name}: {_state(args, delivery, commands, name)}", file=sys.stderr)
    if len(delivery.sent | set(delivery.answers)) < len(boards):
        return 2
    if any(results):
        return 1
    return 0 if args.no_wait or len(results) == len(boards) else 3


def _boards(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the boards' names and the words of the command. Raises ToolError."""
    from outpost_tools.messages import name_rules

    if args.all:
        if not args.credentials or not args.credentials.is_dir():
            raise ToolError("--all needs --credentials with the folder of `outpost broker init`")
        names = sorted(one.stem for one in (args.credentials / "boards").glob("*.json"))
        words = args.words
    else:
        names, words = list(dict.fromkeys(args.words[0].split(","))), args.words[1:]
    if not names:
        raise ToolError("--all: there are no boards; `outpost broker add` makes one")
    if not words:
        raise ToolError("a board and a command are needed, as `outpost send ... kitchen report`")
    for name in names:
        if not name_rules.is_device(name):
            raise ToolError(f"{name!r} is not a board's name: A-Z a-z 0-9 _ . -, at most 32")
    return names, words


def _commands(args: argparse.Namespace, boards: list[str], words: list[str]):
    import time

    from outpost_tools.boards.send import wording

    until_s = None if args.until is None else wording.until_of(args.until, time.time())
    within_s = None if args.within is None else wording.seconds_of(args.within, "--within")
    if args.id and len(boards) > 1:
        raise ToolError("--id belongs to one board's command; name only that board")
    kind = _kind(args)
    pins = kind.pinout if kind else None
    found = {}
    for name in boards:
        one = args.id or wording.new_id()
        made = wording.command(
            words, one, until_s=until_s, within_s=within_s, held=args.held, board=pins
        )
        found[name] = one, made
    if kind and args.settings:
        wording.check_memory(words, args.settings, kind)
    return found


def _kind(args: argparse.Namespace):
    """Return the kind that --board names, or None without --board. Raises ToolError."""
    from outpost_tools.boards.port import kinds
    from outpost_tools.machine import source_tree

    if args.settings and not args.board:
        raise ToolError("--settings needs --board, whose memory is compared with them")
    return kinds.load(source_tree.repository(), args.board) if args.board else None


def _access(args: argparse.Namespace):
    from outpost_tools.boards.send.line import Access, operators_access

    if args.credentials:
        only_with_broker(args, "--credentials")
        return operators_access(args.credentials)
    check_topic("--prefix", args.prefix)
    return Access(args.broker, args.prefix, login(args), tls_of(args))


def _state(args: argparse.Namespace, delivery, commands, name: str) -> str:
    if name not in delivery.sent:
        where = "{}:{}".format(*delivery.address)
        return f"not sent: the broker {where} did not take it within {args.timeout:g} s"
    command_id, payload = commands[name]
    import json

    more = f" --until {json.loads(payload)['until']}" if args.until else ""
    return (
        f"no answer yet; the broker keeps the command. To ask again: the same with --id "
        f"{command_id}{more}"
    )

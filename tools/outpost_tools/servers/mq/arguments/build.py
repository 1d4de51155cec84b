"""`outpost mq build`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.servers.mq.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "build one Publish command message"
_EXAMPLES = """\
examples:
  outpost mq build --topic a/b --text hello
  outpost mq build --topic a/b --topic a/c --option RetainPub --option Local --pub-time now \\
                   --seq-num 7 --text hello
  outpost mq build --topic chat/room1 --option OtherSubsOnly --q-name MINE --encoding little \\
                   --ccsid 1200 --form raw --out m.mq
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "build", SUMMARY, run, examples=_EXAMPLES)
    _add_command_folder(parser.add_argument_group("the command (<psc>)"))
    _add_body(parser.add_argument_group("the body"))
    _add_message(parser.add_argument_group("the message"))


def _add_command_folder(group: argparse._ArgumentGroup) -> None:
    from outpost_tools.servers.mq.psc import IS_RETAINED_PUB, PUBLICATION_OPTIONS

    group.add_argument(
        "--topic", action="append", required=True, help="may be repeated; no wildcards"
    )
    group.add_argument(
        "--option",
        action="append",
        default=[],
        choices=[option for option in PUBLICATION_OPTIONS if option != IS_RETAINED_PUB],
        help="PubOpt; may be repeated",
    )
    group.add_argument("--sub-point", metavar="NAME", help="SubPoint")
    group.add_argument("--pub-time", metavar="TIME", help="PubTime: YYYYMMDDHHMMSSTH, or `now`")
    group.add_argument("--seq-num", metavar="N", help="SeqNum")
    group.add_argument(
        "--q-mgr-name", metavar="NAME", help="QMgrName of the publisher's subscriber queue"
    )
    group.add_argument("--q-name", metavar="NAME", help="QName of the publisher's subscriber queue")
    group.add_argument(
        "--pretty", action="store_true", help="one property per line, as IBM prints it"
    )


def _add_body(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--text", help="the body, as UTF-8 text (Format MQSTR)")
    group.add_argument(
        "--body", metavar="FILE", help="the body, as bytes (Format blank); - is standard input"
    )
    group.add_argument(
        "--domain",
        metavar="MSD",
        default="",
        help="describe it by <mcd><Msd>MSD</Msd></mcd>, for example jms_bytes",
    )
    group.add_argument(
        "--usr",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="add to <usr>; may be repeated",
    )


def _add_message(group: argparse._ArgumentGroup) -> None:
    from outpost_tools.servers.mq.descriptor import NO_ID
    from outpost_tools.servers.mq.form import FORMS

    options.add_layout(group)
    group.add_argument(
        "--request",
        action="store_true",
        help="MsgType request: the receiver always sends a response (needs --reply-to-q)",
    )
    group.add_argument(
        "--correl-id",
        type=_identifier,
        default=NO_ID,
        metavar="HEX",
        help="MQMD.CorrelId, 48 hex digits",
    )
    group.add_argument(
        "--form",
        choices=FORMS,
        default="json",
        help="output form: JSON line with the MQMD (default), hex, raw bytes",
    )
    group.add_argument("--out", metavar="FILE", help="default: standard output")


def _identifier(text: str) -> bytes:
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != 24:
        raise argparse.ArgumentTypeError(f"{text!r} is not 48 hex digits")
    return value


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    from outpost_tools.servers.mq import form, make
    from outpost_tools.servers.mq.reasons import MqError

    try:
        data = form.write(make.make(args), args.form)
    except MqError as error:
        raise ToolError(str(error)) from None
    if args.out is None:
        sys.stdout.write_bytes(data)  # pyright: ignore[reportAttributeAccessIssue]
        return 0
    try:
        Path(args.out).write_bytes(data)
    except OSError as error:
        raise ToolError(f"{args.out}: {error.strerror}") from None
    return 0

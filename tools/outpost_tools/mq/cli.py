"""`outpost mq`: build, parse, check, bridge."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.mq import form, make, psc, serve
from outpost_tools.mq.check import check, check_sequence, errors
from outpost_tools.mq.header import parse
from outpost_tools.mq.mapping import Outgoing
from outpost_tools.mq.reasons import Fault, MqError

_ABOUT = """\
IBM MQ Publish command messages (MQRFH2 with a <psc> folder): build them, read them, find what is wrong with them, and
make them of MQTT messages. Only a live put needs IBM's software. The manual is tools/MQ.md.
"""
_EXAMPLES = """\
examples:
  outpost mq build --topic Sport/Soccer/Event/MatchStarted --form hex
  outpost mq build --topic plant/boiler --option RetainPub --text 21.5 --out command.jsonl
  outpost mq check command.jsonl
"""
_BUILD = """\
examples:
  outpost mq build --topic a/b --text hello
  outpost mq build --topic a/b --topic a/c --option RetainPub --option Local --pub-time now --seq-num 7 --text hello
  outpost mq build --topic chat/room1 --option OtherSubsOnly --q-name MINE --encoding little --ccsid 1200 --form raw --out m.mq
"""
_PARSE = """\
examples:
  outpost mq build --topic a/b --text hello --out m.jsonl
  outpost mq parse m.jsonl
  outpost mq build --topic a/b --encoding little --form hex | outpost mq parse - --encoding little
"""
_CHECK = """\
Prints a line for each fault: error or warning, its name, what is wrong, IBM's reason code. Exit status 1 when there
is an error, 2 when there is no message to check.

examples:
  outpost mq build --topic 'a/b*' --pub-time tomorrow --out odd.jsonl
  outpost mq check odd.jsonl
"""
_BRIDGE = """\
Acknowledges a message (PUBACK) after it is durable at the output: fsync, or commit. A stop or a kill at any moment loses
nothing; what was not acknowledged comes again, so there may be repetitions.

examples:
  outpost mq bridge --broker 127.0.0.1:1883 --filter 'outpost/#' --lines publish.jsonl --until-idle 2
  outpost mq bridge --broker 127.0.0.1:1883 --files commands --usr --seq-num --pub-time reading --until-idle 2
  outpost mq bridge --segments build/log/collector-1 --lines from-log.jsonl --seq-num
  outpost mq check publish.jsonl

with IBM's client and `pip install ibmmq==2.1.2`:
  outpost mq bridge --broker 127.0.0.1:1883 --put QM1 --channel DEV.APP.SVRCONN --connection 'localhost(1414)' --until-idle 2
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = _parser(subparsers, "mq", _ABOUT, _EXAMPLES, None)
    inner = parser.add_subparsers(title="subcommands", metavar="SUBCOMMAND", required=True)
    make.add_arguments(_parser(inner, "build", "Make one Publish command message.", _BUILD, _run_build))
    reader = _parser(inner, "parse", "Show messages as JSON.", _PARSE, _run_parse)
    checker = _parser(inner, "check", "Find every fault of messages.", _CHECK, _run_check)
    for one in (reader, checker):
        one.add_argument("file", help="JSON lines, hex digits or message bytes; - is standard input")
        one.add_argument("--form", choices=("auto", *form.FORMS), default="auto", help="default: by its first bytes")
        one.add_argument("--encoding", choices=make.ENCODINGS, default="big", help="MQMD.Encoding of hex or bytes")
    serve.add_arguments(_parser(inner, "bridge", "MQTT messages to MQ.", _BRIDGE, serve.run))


def _parser(subparsers, name: str, about: str, epilog: str, func) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        name,
        help=about.splitlines()[0],
        description=about,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if func is not None:
        parser.set_defaults(func=func)
    return parser


def _run_build(args: argparse.Namespace) -> int:
    try:
        data = form.write(make.make(args), args.form)
    except MqError as error:
        raise ToolError(str(error)) from None
    if args.out is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return 0
    try:
        Path(args.out).write_bytes(data)
    except OSError as error:
        raise ToolError(f"{args.out}: {error.strerror}") from None
    return 0


def _run_parse(args: argparse.Namespace) -> int:
    for outgoing in _messages(args):
        if isinstance(outgoing, MqError):
            raise ToolError(f"{args.file}: {outgoing}")
        try:
            print(json.dumps(form.describe(outgoing), indent=2, ensure_ascii=False))
        except MqError as error:
            raise ToolError(f"{args.file}: {error}") from None
    return 0


def _messages(args: argparse.Namespace) -> list[Outgoing | MqError]:
    found = list(form.messages(form.read_file(args.file), args.form, make.ENCODINGS[args.encoding]))
    if not found:
        raise ToolError(f"{args.file}: no message in it")
    return found


def _run_check(args: argparse.Namespace) -> int:
    status, commands = 0, []
    for number, outgoing in enumerate(_messages(args), 1):
        faults = [outgoing.fault] if isinstance(outgoing, MqError) else _faults(outgoing, commands)
        for fault in faults:
            print(f"message {number}: {fault}")
        status = 1 if errors(faults) else status
    for fault in check_sequence(commands):
        print(fault)
    return status


def _faults(outgoing: Outgoing, commands: list[psc.Command]) -> list[Fault]:
    """Also adds the message's commands to `commands`, for what is a rule about several."""
    try:
        message = parse(outgoing.data, encoding=outgoing.md.encoding, format=outgoing.md.format)
    except MqError as error:
        return [error.fault]
    for folder in message.folders():
        try:
            commands.append(psc.read(folder.text))
        except MqError:
            continue  # another folder, or check() has said what is wrong with it
    return check(message, outgoing.md)

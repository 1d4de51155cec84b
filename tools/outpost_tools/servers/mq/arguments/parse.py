"""`outpost mq parse`."""

from __future__ import annotations

import argparse

from outpost_tools.errors import ToolError
from outpost_tools.servers.mq.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "show messages as JSON"
_EXAMPLES = """\

examples:
  outpost mq build --topic a/b --text hello --out m.jsonl
  outpost mq parse m.jsonl
  outpost mq build --topic a/b --encoding little --form hex | outpost mq parse - --encoding little
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "parse", SUMMARY, run, examples=_EXAMPLES)
    options.add_input(parser)


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    import json

    from outpost_tools.servers.mq import form, make
    from outpost_tools.servers.mq.reasons import MqError

    encoding = make.ENCODINGS[args.encoding]
    for outgoing in form.read_messages(args.file, args.form, encoding):
        if isinstance(outgoing, MqError):
            raise ToolError(f"{args.file}: {outgoing}")
        try:
            print(json.dumps(form.describe(outgoing), indent=2, ensure_ascii=False))
        except MqError as error:
            raise ToolError(f"{args.file}: {error}") from None
    return 0

"""`outpost mq check`."""

from __future__ import annotations

import argparse

from outpost_tools.servers.mq.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "find every fault in messages"
_EXAMPLES = """\
Prints a line for each fault: error or warning, its name, a description, IBM's reason code.
The exit status is 1 if there is an error, and 2 if there is no message to check.

examples:
  outpost mq build --topic 'a/b*' --pub-time tomorrow --out odd.jsonl
  outpost mq check odd.jsonl
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "check", SUMMARY, run, examples=_EXAMPLES)
    options.add_input(parser)


def run(args: argparse.Namespace) -> int:
    """0; 1 when there is an error. Raises ToolError."""
    from outpost_tools.servers.mq import faults, form, make

    messages = form.read_messages(args.file, args.form, make.ENCODINGS[args.encoding])
    lines, has_errors = faults.report(messages)
    for line in lines:
        print(line)
    return 1 if has_errors else 0

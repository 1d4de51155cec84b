"""`outpost alerts test`."""

from __future__ import annotations

import argparse

from outpost_tools.servers.alerts.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "send a test message through each channel"
_DESCRIPTION = """\
Check the file, send a test message through each channel, and print the result of each. This does
not change the waiting messages or the number of messages sent this hour. The exit status is 1 if a
channel failed.
"""
_EXAMPLES = """\
examples:
  outpost alerts test home
  outpost alerts test alerts.toml
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "test", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    options.add_place(parser)


def run(args: argparse.Namespace) -> int:
    """Returns 0; 1 if a channel failed. Raises ToolError."""
    from outpost_tools.servers.alerts import channels, settings, trial

    failed = 0
    for channel in settings.load(options.file_of(args)).channels:
        try:
            note = channels.send(channel, trial.message_now())
            print(f"{channel.name}: sent{f'; {note}' if note else ''}", flush=True)
        except channels.Failed as error:
            failed += 1
            print(f"{channel.name}: FAILED: {error}", flush=True)
    return int(failed > 0)

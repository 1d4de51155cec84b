"""`outpost provision`: checks a board's settings on the desktop, and writes them to the board."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outpost_tools.common.command_line import add_command
from outpost_tools.common.errors import ToolError
from outpost_tools.device.arguments import options

SUMMARY = "write a board's settings: Wi-Fi, broker, certificates, sensors"
_DESCRIPTION = """\
Write settings to a board: settings.json, and the certificates it names (converted to DER, which
boards read), the drivers of its sensors. They come from a TOML file; without one the command asks
for them. Everything is checked before the board is touched; an error is one line that names the
key. Answers that no board has yet are offered again the next time, but for passwords. The files are
written under other names and renamed at the end: a board has the old settings or the new ones.
Secrets are never printed.
"""
_EXAMPLES = """\
examples:
  outpost provision --example > kitchen.toml           edit it, then:
  outpost provision --board RPI_PICO_W kitchen.toml    only check it
  outpost provision --board RPI_PICO_W --port /dev/ttyACM0 kitchen.toml
  outpost provision --board RPI_PICO_W --port /dev/ttyACM0 --credentials fleet kitchen.toml
                                                       a broker of `outpost broker init`
  outpost provision --board RPI_PICO_W --port /dev/ttyACM0 --save kitchen.toml
                                                       asks, and keeps the answers
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "provision", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument(
        "file",
        metavar="TOML",
        type=Path,
        nargs="?",
        help="the settings; without it the command asks for them",
    )
    options.add_board(parser, required=False)
    options.add_writing(parser)
    options.add_credentials(parser)
    parser.add_argument(
        "--save",
        metavar="TOML",
        type=Path,
        help="keep the answers in a new file, which then holds passwords",
    )
    parser.add_argument(
        "--example",
        action="store_true",
        help="print a settings file to begin with; with --credentials without the broker's part",
    )


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    from outpost_tools.common import source_tree
    from outpost_tools.device import drafts, flashing, kinds, progress, table

    if args.example:
        sys.stdout.write(_example(args.credentials))
        return 0
    if not args.board:
        raise ToolError(
            "--board is missing: it says which sensors and which network there are, as --board "
            "RPI_PICO_W"
        )
    root = source_tree.repository()
    kind = kinds.load(root, args.board)
    draft = drafts.Draft(kind.name)
    settings = _settings(args, kind, draft)
    print(*settings.lines(), sep="\n")
    if not args.port:
        print("checked; nothing was written, since no --port was given")
        return 0
    job = flashing.Job(
        root,
        kind,
        args.port,
        settings,
        args.dry_run,
        answer_s=args.timeout,
        progress=progress.Progress(),
    )
    print(table.text(flashing.provision(job).rows))
    if not args.dry_run and not args.file:
        draft.forget()
    return 0


def _example(credentials: Path | None) -> str:
    """Raises ToolError."""
    from outpost_tools.device import broker_part, settings_file

    text = settings_file.EXAMPLE
    return broker_part.example(text, credentials) if credentials else text


def _settings(args: argparse.Namespace, kind, draft):
    """From the file, or asked for. Raises ToolError."""
    from outpost_tools.device import ask, broker_part, console, settings_file

    if args.port and not args.file:
        console.check_port(args.port)  # before the questions, not after them
    if args.save:
        ask.check_new(args.save)
    broker = args.credentials
    settings = (
        settings_file.load(args.file, kind, broker) if args.file else ask.ask(kind, draft, broker)
    )
    if args.file:
        settings_file.tell_mode(settings, args.file.name)
    if args.save:
        ask.save(args.save, settings, broker_part.KEYS if broker else ())
        draft.forget()  # the file has them
    return settings

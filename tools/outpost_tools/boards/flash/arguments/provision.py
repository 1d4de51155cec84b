"""`outpost provision`: checks a board's settings on the desktop, and writes them to the board."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outpost_tools.boards.flash.arguments import options
from outpost_tools.boards.port.options import add_board
from outpost_tools.errors import ToolError
from outpost_tools.terminal.command_line import add_command

SUMMARY = "write a board's settings: Wi-Fi, broker, certificates, sensors"
_DESCRIPTION = """\
Write settings to a board: settings.json, the certificates that it names (converted to DER, the
format that boards read), and the drivers of its sensors. The settings come from a TOML file;
without one, the command asks for them. It checks everything before it touches the board; an error
is one line that names the key. Answers that were not written to a board yet are offered again the
next time, except passwords. The files are written under other names and renamed at the end, so a
board always has either the old settings or the new ones. Secrets are never printed.
"""
_EXAMPLES = """\
examples:
  outpost provision --example > kitchen.toml           edit this file, then:
  outpost provision --board RPI_PICO_W kitchen.toml    only check the settings
  outpost provision --board RPI_PICO_W --port /dev/ttyACM0 kitchen.toml
  outpost provision --board RPI_PICO_W --port /dev/ttyACM0 --credentials fleet kitchen.toml
                                                       with a broker of `outpost broker init`
  outpost provision --board RPI_PICO_W --port /dev/ttyACM0 --save kitchen.toml
                                                       ask, and save the answers
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
        help="the settings; without a file, the command asks for them",
    )
    add_board(parser, required=False)
    options.add_writing(parser)
    options.add_settings_source(parser)
    options.add_held(parser)
    parser.add_argument(
        "--save",
        metavar="TOML",
        type=Path,
        help="save the answers in a new file, which then contains passwords",
    )
    parser.add_argument(
        "--example",
        action="store_true",
        help="print a settings file to start from; with --credentials, without the broker's part",
    )


def run(args: argparse.Namespace) -> int:
    """Return 0. Raises ToolError."""
    from outpost_tools.boards.flash import flashing, held
    from outpost_tools.boards.port import kinds, progress, table
    from outpost_tools.boards.settings import drafts
    from outpost_tools.machine import source_tree

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
        asked=held.Asked(args.held or ""),
    )
    print(table.text(flashing.provision(job).rows))
    if not args.dry_run and not args.file:
        draft.forget()
    return 0


def _example(credentials: Path | None) -> str:
    """Return an example of a settings file. Raises ToolError."""
    from outpost_tools.boards.settings import broker_part, settings_file

    text = settings_file.EXAMPLE
    return broker_part.example(text, credentials) if credentials else text


def _settings(args: argparse.Namespace, kind, draft):
    """Load the settings from the file, or ask for them. Raises ToolError."""
    from outpost_tools.boards.port import console
    from outpost_tools.boards.settings import ask, broker_part, settings_file

    if args.port and not args.file:
        console.check_port(args.port)  # before the questions, not after them
    if args.save:
        ask.check_new(args.save)
    broker = args.credentials
    if args.file:
        settings = settings_file.load(args.file, kind, broker, keep_names=args.keep_names)
        settings_file.tell_mode(settings, args.file.name)
    else:
        settings = ask.ask(kind, draft, broker)
    if args.save:
        ask.save(args.save, settings, broker_part.KEYS if broker else ())
        draft.forget()  # the file has the answers
    return settings

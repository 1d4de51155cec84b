"""`outpost update`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.mqtt.arguments import add_operator, login, only_with_broker, tls_of
from outpost_tools.terminal.command_line import add_command, positive

SUMMARY = "update the firmware of boards over the broker, on trial"
_DESCRIPTION = """\
Update the firmware of boards over the broker, without a cable. The command sends only files that
differ. The board checks each file by its SHA-256, and checks the list of files by a signature made
with its update_key. Then it restarts with the new files, and keeps them once it has connected to
the broker. If it does not connect within --within, or if it crashes or hangs, it restores the old
files and reports it. A power cut at any moment leaves the board with either the old or the new
firmware.

A board accepts updates if its settings have "commands" and an "update_key", which is set by cable.
If an update is interrupted, run the same command again to continue it. The boards are updated one
after the other; the first failure ends the command.

Exit status: 0 done; 1 refused or rolled back; 2 not started; 3 no answer in time: the board
decides by itself. Run it again: it ends with 0 if the board runs the firmware, or else tries again.
"""
_EXAMPLES = """\
examples:
  outpost update --new-key                                     a key for the settings of a board:
  outpost provision --board RPI_PICO_W --port /dev/ttyACM0 kitchen.toml          once, by cable
  outpost update --credentials fleet kitchen.toml
  outpost update --credentials fleet kitchen.toml cellar.toml --timeout 3600     with deep sleep
  outpost update --credentials fleet --dry-run kitchen.toml    its version, and the files to send
  outpost update --broker 127.0.0.1:1883 kitchen.toml          a broker without users
"""


_MOST_WITHIN_S = 3600  # the limit in a board's command


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "update", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument(
        "settings", metavar="TOML", nargs="*", type=Path, help="settings of the boards"
    )
    parser.add_argument("--new-key", action="store_true", help="print a new update_key and end")
    parser.add_argument(
        "--dry-run", action="store_true", help="send only the list of files; print what is missing"
    )
    add_operator(parser, is_required=False)
    parser.add_argument(
        "--board",
        metavar="BOARD",
        help="the path of your own board folder; default: the kind that the board reports",
    )
    parser.add_argument(
        "--timeout",
        type=positive(float),
        default=120.0,
        metavar="S",
        help="seconds to wait for each answer; default 120",
    )
    parser.add_argument(
        "--within",
        metavar="TIME",
        default="5m",
        help="time to connect during the trial; default 5m",
    )


def run(args: argparse.Namespace) -> int:
    """See _DESCRIPTION. Raises ToolError."""
    from outpost_tools.boards.send import wording
    from outpost_tools.machine.firmware import firmware_version

    if args.new_key:
        import secrets

        print(f'update_key = "{secrets.token_hex(32)}"')
        return 0
    if not args.settings or not (args.broker or args.credentials):
        raise ToolError(
            "settings of a board, and --broker or --credentials are needed: "
            "`outpost update --credentials fleet kitchen.toml`"
        )
    within_s = wording.seconds_of(args.within, "--within")
    if not 1 <= within_s <= _MOST_WITHIN_S:
        raise ToolError(f"--within {args.within}: a trial takes 1s to 1h")
    boards = [_settings(args, path) for path in args.settings]
    for settings in boards:
        print(f"{settings.full['device_id']}: to {firmware_version()}", file=sys.stderr)
        status = _update(args, settings, within_s)
        if status:
            return status
    return 0


def _settings(args: argparse.Namespace, path: Path):
    """The settings of one board. Raises ToolError."""
    from outpost_tools.boards.settings import settings_file

    folder = args.credentials if args.credentials and args.credentials.is_dir() else None
    settings = settings_file.load(path, None, folder)
    if not settings.full["update_key"]:
        raise ToolError(
            f"{path}: no key 'update_key', so this board accepts no updates; "
            "`outpost update --new-key` makes one, and `outpost provision` installs it by cable"
        )
    return settings


def _access(args: argparse.Namespace, settings):
    from outpost_tools.boards.send.line import Access, operators_access

    if args.credentials:
        only_with_broker(args, "--credentials")
        return operators_access(args.credentials)
    return Access(args.broker, settings.full["topic_prefix"], login(args), tls_of(args))


def _update(args: argparse.Namespace, settings, within_s: int) -> int:
    from outpost_tools.boards.port.progress import Progress
    from outpost_tools.boards.update.course import Course
    from outpost_tools.boards.update.transfer import NoAnswer, Refused
    from outpost_tools.text.visible import visible_lines

    course = Course(
        _access(args, settings), settings, args.board, args.timeout, within_s, Progress()
    )
    try:
        status, text = course.look() if args.dry_run else course.run()
    except Refused as error:
        status, text = 1, str(error)
    except NoAnswer as error:
        status, text = 3, str(error)
    line = visible_lines(f"{settings.full['device_id']}: {text}")
    print(line, file=sys.stderr if status else sys.stdout, flush=True)
    return status

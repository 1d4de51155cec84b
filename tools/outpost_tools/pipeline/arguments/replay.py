"""`outpost pipeline replay`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outpost_tools.common.command_line import add_command
from outpost_tools.common.errors import ToolError
from outpost_tools.pipeline.arguments import options

SUMMARY = "retry frames from quarantine after a fix, or read other people's messages again"
_EXAMPLES = """\
examples:
  outpost pipeline replay --tables tables --reason "unknown version 2"
  outpost pipeline run ... --sources mended.toml        new messages are read by it; then
  outpost pipeline replay --tables tables --reason "tasmota:"
  outpost pipeline replay --tables tables --sources mended.toml --log log
                                      values were wrong: all of other people's messages once more
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "replay", SUMMARY, run, examples=_EXAMPLES)
    options.add_tables(parser)
    options.add_log(parser, is_needed=False)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--sources",
        type=Path,
        metavar="FILE",
        help="with --log: read all of other people's messages again, by this mapping",
    )
    which.add_argument(
        "--reason",
        help='the beginning of the reason, for example "unknown version 2"; "time" selects those '
        'refused because of a wrong clock; "" selects every frame',
    )


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    options.check_tables(args.tables)
    if args.sources is not None:
        return _reread(args)
    quarantine = options.load("quarantine")
    taken, refused = quarantine.replay(args.tables, args.reason)
    print(
        f"{taken} frames leave quarantine with the next `outpost pipeline run`; {refused} are "
        "still not valid messages"
    )
    return 0


def _reread(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    if args.log is None:
        raise ToolError("--sources reads the bytes of the messages from the log: give --log")
    reread, logs = (options.load(name) for name in ("reread", "logs"))
    from outpost_tools.sources import ready_files

    ready_files.load(args.sources)
    count = reread.reread(
        logs.Log.at(args.log),
        args.tables,
        ready_files.read(args.sources),
        lambda text: print(f"pipeline: {text}", file=sys.stderr),
    )
    print(f"{count} frames are read again with the next `outpost pipeline run`")
    return 0

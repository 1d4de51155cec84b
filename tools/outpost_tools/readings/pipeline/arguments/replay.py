"""`outpost pipeline replay`."""

from __future__ import annotations

import argparse
import sys

from outpost_tools.errors import ToolError
from outpost_tools.readings.pipeline.arguments import options
from outpost_tools.readings.sources.option import add_sources, text_of
from outpost_tools.terminal.command_line import add_command

SUMMARY = "retry frames from quarantine after a fix, or read other people's messages again"
_EXAMPLES = """\
examples:
  outpost pipeline replay --tables tables --reason "unknown version 2"
  outpost pipeline replay --tables tables --reason "tasmota-sensor:" --sources mended.toml
                                      a source refused messages: once more, by the mended mapping
  outpost pipeline replay --tables tables --sources mended.toml --log log
                                      values were wrong: all of other people's messages once more

The next `outpost pipeline run` reads them; give it the mended mapping, too.
"""
_SHOWN = 5  # reasons


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "replay", SUMMARY, run, examples=_EXAMPLES)
    options.add_tables(parser)
    options.add_log(parser, is_needed=False)
    add_sources(
        parser,
        "the mended mapping; with --log and without --reason, all of other people's messages are "
        "read again",
    )
    parser.add_argument(
        "--reason",
        help='the beginning of the reason, for example "unknown version 2"; "time" selects those '
        'refused because of a wrong clock; "" selects every frame',
    )


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    if args.reason is None and args.sources is None:
        raise ToolError("give --reason, or --sources and --log")
    options.check_tables(args.tables)
    sources = text_of(args)
    if args.reason is None:
        return _reread(args, sources)
    quarantine = options.load("quarantine")
    taken, refused = quarantine.replay(args.tables, args.reason, sources=sources)
    if not taken and not refused:
        print(_nothing(args.reason, quarantine.reasons(args.tables)))
        return 0
    print(
        f"{taken} frames leave quarantine with the next `{_next(args)}`; {refused} are still not "
        "valid messages"
    )
    return 0


def _next(args: argparse.Namespace) -> str:
    return "outpost pipeline run" + (f" --sources {args.sources}" if args.sources else "")


def _nothing(reason: str, there: dict[str, int]) -> str:
    if not there:
        return "quarantine is empty"
    shown = [f"{one!r} ({there[one]})" for one in sorted(there)[:_SHOWN]]
    more = ", ..." if len(there) > _SHOWN else ""
    return f"no reason in quarantine begins with {reason!r}; there are: {', '.join(shown)}{more}"


def _reread(args: argparse.Namespace, sources: str | None) -> int:
    """0. Raises ToolError."""
    if args.log is None:
        raise ToolError(
            "--sources reads the bytes of the messages from the log: give --log; or --reason, for "
            "those in quarantine alone"
        )
    reread, logs = (options.load(name) for name in ("reread", "logs"))
    count = reread.reread(
        logs.Log.at(args.log),
        args.tables,
        sources,
        lambda text: print(f"pipeline: {text}", file=sys.stderr),
    )
    print(f"{count} frames are read again with the next `{_next(args)}`")
    return 0

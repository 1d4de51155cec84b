"""`outpost export`."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.readings.sources.option import add_sources, sources_of
from outpost_tools.store import at
from outpost_tools.terminal.command_line import add_command

SUMMARY = "export readings from the log to CSV, JSON lines or Parquet, without Spark"
_DESCRIPTION = """\
Write the readings in a collectors' log to a file or to stdout, without Spark and Java. Each message
appears once, with the times and rules of the pipeline's table `readings`. The command reads sealed
and open segments, even while a collector writes, and does not change the log.
"""
_EXAMPLES = """\
examples:
  outpost export --log log --out readings.csv                    all readings
  outpost export --log log --last 24h                            to stdout, as CSV
  outpost export --log log --device kitchen --metric temperature --since 2026-11-01 \\
                 --until 2026-12-01 --out november.parquet
  outpost export --log log --device 'lab-*' --format jsonl | jq .value
  outpost export --log log --columns all --order time --out readings.parquet
  outpost export --log log --days export                         a file per day, if changed
  outpost export --log log --sources sources.toml --out readings.parquet

Rows have the order of the log: by collector, then by arrival. A board that was offline sends its
stored messages late, so times are not in order. --order time sorts by time, device, stream and
number, and holds all rows in memory (about 300 bytes each).

Stderr lists invalid messages, copies with other contents, and damaged segments.
Exit status: 0; 1 if the file was written, but a part of the log is damaged, missing or in conflict;
2 for bad input.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "export", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument(
        "--log",
        type=at.argument,
        required=True,
        metavar="PLACE",
        help="the --log of `outpost collect`: a folder, or s3://BUCKET/FOLDER (gs, az)",
    )
    add_sources(parser, "also other people's messages, by this mapping")
    _add_choice(parser.add_argument_group("which readings (default: all)"))
    _add_output(parser.add_argument_group("output"))


def _add_choice(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="NAME",
        help="only this board; may be a shell pattern: 'lab-*'. May be repeated",
    )
    group.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="only this metric (SenML's n); may be a pattern. May be repeated",
    )
    group.add_argument(
        "--since",
        metavar="TIME",
        help="readings from this time on: 2026-11-22, 2026-11-22T10:30; UTC, or with an offset",
    )
    group.add_argument("--until", metavar="TIME", help="only readings before this time")
    group.add_argument(
        "--last", metavar="SPAN", help="instead of --since: 90m, 24h or 7d before now"
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    from outpost_tools.readings.export import COLUMNS

    group.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="default: stdout. FILE is replaced as a whole at the end; .csv, .jsonl or .parquet "
        "sets the format",
    )
    group.add_argument(
        "--days",
        type=Path,
        metavar="DIR",
        help="instead of --out: write all readings to one file for each day before today (UTC), "
        "DIR/2026-11-22.csv and so on; rewritten if a board has sent more readings of that day",
    )
    group.add_argument(
        "--format",
        choices=("csv", "jsonl", "parquet"),
        help="default: from the name of FILE; csv for stdout",
    )
    group.add_argument(
        "--columns",
        metavar="A,B,...",
        help=f"default: {','.join(COLUMNS)}; all: every column of the table `readings`",
    )
    group.add_argument("--order", choices=("log", "time"), help="order of the rows; default: log")


def run(args: argparse.Namespace) -> int:
    """0; 1 when a part of the log is damaged, missing or in conflict; 141 when nobody reads stdout
    any more. Raises ToolError."""
    from outpost_tools.machine import needs

    needs.check("export")
    import os
    import sys
    import time

    from outpost_tools.readings.export import log_files, run, sinks, telling

    if args.days is not None:
        return _export_days(args)
    began = time.monotonic()
    chosen, columns = _selection(args), _columns(args.columns)
    out = None if args.out == Path("-") else args.out
    form, log = sinks.format_of(out, args.format), log_files.find(args.log)
    mapping = sources_of(args)
    try:
        size = run.bytes_to_read(log)
        with sinks.opened(out, form) as stream, telling.progress(size) as step:
            sink = sinks.sink(form, stream, run.schema_of(columns))
            by_time = args.order == "time"
            how = {"by_time": by_time, "mapping": mapping, "step": step}
            account = run.export(log, chosen, columns, sink, **how)
            sink.close()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit
        return 141
    is_troubled = telling.tell(log, account, chosen)
    where = "stdout" if out is None else str(out)
    telling.say(telling.summary(account, where, time.monotonic() - began))
    return int(is_troubled or bool(chosen.metrics and account.names and not account.matched))


def _export_days(args: argparse.Namespace) -> int:
    """As run()."""
    import datetime
    import time

    from outpost_tools.readings.export import days, log_files, run, telling

    began = time.monotonic()
    for name in ("out", "format", "columns", "order", "device", "metric", "since", "until", "last"):
        if getattr(args, name):
            raise ToolError(f"--days writes all readings, as CSV: it does not go with --{name}")
    if not args.days.is_dir():
        raise ToolError(f"{args.days}: no such directory; make it, or give another as --days")
    log, today = log_files.find(args.log), datetime.datetime.now(datetime.UTC).date()
    with telling.progress(run.bytes_to_read(log)) as step:
        mapping = sources_of(args)
        account, written = days.export(log, args.days, today, step, mapping)
    telling.say(telling.summary(account, "files of days", time.monotonic() - began))
    telling.say(f"{written} files written in {args.days}")
    # last: `outpost run` shows the last line of a command that had trouble
    return int(telling.tell(log, account, days.Selection()))


def _selection(args: argparse.Namespace):
    """Raises ToolError."""
    import time

    from outpost_tools.readings.export import selection

    if args.last is not None and args.since is not None:
        raise ToolError("--last and --since: give one of them")
    since_us = until_us = None
    if args.last is not None:
        since_us = round(time.time() * 1e6) - selection.span_us(args.last, "--last")
    if args.since is not None:
        since_us = selection.moment_us(args.since, "--since")
    if args.until is not None:
        until_us = selection.moment_us(args.until, "--until")
    if since_us is not None and until_us is not None and since_us >= until_us:
        raise ToolError("--until is not after --since: no reading has such a time")
    return selection.Selection(tuple(args.device), tuple(args.metric), since_us, until_us)


def _columns(text: str | None) -> list[str]:
    """Raises ToolError."""
    from outpost_tools.readings.export import COLUMNS
    from outpost_tools.readings.pipeline import schemas

    known = schemas.READING.names
    if text is None:
        return list(COLUMNS)
    wanted = known if text == "all" else [name.strip() for name in text.split(",")]
    if unknown := [name for name in wanted if name not in known]:
        raise ToolError(f"--columns: no column {unknown[0]!r}; there are {', '.join(known)}")
    return list(dict.fromkeys(wanted))

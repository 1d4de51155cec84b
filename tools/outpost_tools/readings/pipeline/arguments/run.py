"""`outpost pipeline run`."""

from __future__ import annotations

import argparse

from outpost_tools.errors import ToolError
from outpost_tools.readings.pipeline.arguments import options
from outpost_tools.readings.sources.option import add_sources
from outpost_tools.terminal.command_line import add_command

SUMMARY = "bring all sealed segments into the tables, then stop"
_EXAMPLES = """\
examples:
  outpost pipeline run --log log --tables tables
  outpost pipeline run --log log --tables tables --master local[8] --shuffle-partitions 8 \\
                       --conf spark.driver.memory=6g
  outpost pipeline run --log log --tables tables --engine local
  outpost pipeline run --log s3://bucket/log --tables s3://bucket/tables
  outpost pipeline package outpost.zip
  spark-submit --master spark://host:7077 --executor-memory 2g --py-files outpost.zip \\
               outpost_submit.py run --log s3://bucket/log --tables s3://bucket/tables

Spark's settings take precedence in this order: --master, --conf and --shuffle-partitions of this
command; options of spark-submit (or PYSPARK_SUBMIT_ARGS); spark-defaults.conf; SPARK_* variables;
our defaults for one machine.
"""
DEFAULT_WINDOW_S = 10.0
DEFAULT_INTERVAL_S = 30.0
_LEAST_S, _MOST_S = 0.001, 100_000_000  # windows are of whole milliseconds; three years


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "run", SUMMARY, run, examples=_EXAMPLES)
    options.add_log(parser)
    options.add_tables(parser)
    parser.add_argument(
        "--engine",
        choices=("spark", "local"),
        default="spark",
        help="local: the same in processes of this machine, without Java (default: %(default)s)",
    )
    _add_spark(parser.add_argument_group("Spark"))
    parser.add_argument(
        "--window",
        type=float,
        default=DEFAULT_WINDOW_S,
        help="seconds per window (default: %(default)s)",
    )
    add_sources(
        parser, "also other people's messages, by this mapping; without it, by that of the last run"
    )
    parser.add_argument(
        "--continuous",
        action="store_true",
        help="repeat until SIGTERM or Ctrl-C, which let the current round finish",
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=DEFAULT_INTERVAL_S,
        help="seconds between rounds (default: %(default)s)",
    )
    parser.add_argument(
        "--delete-consumed",
        action="store_true",
        help="then delete the segments that every reader has committed",
    )


def _add_spark(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--master",
        help="Spark master: local[n], spark://host:port; default: as set by spark-submit or "
        "spark-defaults.conf, otherwise local[*]",
    )
    group.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="spark.NAME=VALUE",
        help="a Spark setting, as for spark-submit; may be repeated",
    )
    group.add_argument(
        "--shuffle-partitions",
        type=int,
        help="about one per core; default: spark.sql.shuffle.partitions, otherwise 2",
    )


def run(args: argparse.Namespace) -> int:
    """0, or 1 when Spark failed or segments were damaged. Raises ToolError when the input or the
    machine is unsuitable."""
    partitions = 1 if args.shuffle_partitions is None else args.shuffle_partitions
    if not (_LEAST_S <= args.window <= _MOST_S and 0 < args.interval <= _MOST_S):
        raise ToolError(f"--window must be {_LEAST_S} to {_MOST_S:,} s, --interval above 0 s")
    if partitions < 1:
        raise ToolError("--shuffle-partitions must be above 0")
    import os

    from outpost_tools.machine import needs

    is_spark = args.engine == "spark"
    if is_spark and "PYSPARK_GATEWAY_PORT" not in os.environ:  # or spark-submit has found Java
        needs.check_spark(
            "pipeline", master=args.master
        )  # reported at once, not after loading Spark's libraries
    return options.load("rounds").run(args)

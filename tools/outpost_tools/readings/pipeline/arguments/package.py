"""`outpost pipeline package`."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.terminal.command_line import add_command

SUMMARY = "write this package as a zip for spark-submit and its executors"
_DESCRIPTION = """\
Write FILE.zip, which --py-files sends to the executors, and outpost_submit.py in the same folder,
which spark-submit runs with the arguments of `outpost pipeline`.
"""
_EXAMPLES = """\
examples:
  outpost pipeline package outpost.zip
  spark-submit --master spark://host:7077 --executor-memory 2g --py-files outpost.zip \\
               outpost_submit.py run --log s3://bucket/log --tables s3://bucket/tables

The executors' Python (PYSPARK_PYTHON) must have pyarrow, pandas, numpy, deltalake, msgspec and
cbor2.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "package", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument("file", type=Path, metavar="FILE.zip")


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    from outpost_tools.readings.pipeline import archive

    if args.file.suffix != ".zip":
        raise ToolError(f"{args.file}: let its name end in .zip, or Python does not import from it")
    try:
        archive.write(args.file)
        program = archive.write_program(args.file.parent)
    except OSError as error:
        raise ToolError(f"{args.file}: {error.strerror}") from None
    print(f"spark-submit --py-files {args.file} {program} run --log DIR --tables DIR")
    return 0

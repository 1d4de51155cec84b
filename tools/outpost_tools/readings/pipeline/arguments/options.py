"""Options and checks that several subcommands of the pipeline share."""

from __future__ import annotations

import argparse
import importlib
from types import ModuleType

from outpost_tools.errors import ToolError
from outpost_tools.machine import needs
from outpost_tools.store.at import argument
from outpost_tools.store.base import Store


def add_log(parser: argparse.ArgumentParser, *, is_needed: bool = True) -> None:
    parser.add_argument(
        "--log",
        type=argument,
        required=is_needed,
        help="the collectors' log: a folder, or s3://...",
    )


def add_tables(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tables", type=argument, required=True, help="the tables: a folder, or s3://..."
    )


def load(name: str) -> ModuleType:
    """A module of the pipeline. Raises ToolError when its packages are not installed."""
    needs.check("tables")
    return importlib.import_module(f"outpost_tools.readings.pipeline.{name}")


def check_log(log: Store) -> None:
    """Raises ToolError."""
    if not log.is_there():
        raise ToolError(f"{log}: no such directory; give the collector's log directory as --log")


def check_tables(tables_dir: Store) -> None:
    """Raises ToolError."""
    if not load("tables").exists(tables_dir, "quarantine"):
        raise ToolError(f"{tables_dir}: no tables there yet; run `outpost pipeline run` first")

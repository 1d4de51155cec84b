"""Options and checks that several subcommands of the pipeline share."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from types import ModuleType

from outpost_tools.common import needs
from outpost_tools.common.errors import ToolError


def add_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", type=Path, required=True, help="the collectors' log directory")


def add_tables(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tables", type=Path, required=True, help="the folder of the tables")


def load(name: str) -> ModuleType:
    """A module of the pipeline. Raises ToolError when its packages are not installed."""
    needs.check("pipeline")
    return importlib.import_module(f"outpost_tools.pipeline.{name}")


def check_log(log: Path) -> None:
    """Raises ToolError."""
    if not log.is_dir():
        raise ToolError(f"{log}: no such directory; give the collector's log directory as --log")


def check_tables(tables_dir: Path) -> None:
    """Raises ToolError."""
    if not load("tables").exists(tables_dir, "quarantine"):
        raise ToolError(f"{tables_dir}: no tables there yet; run `outpost pipeline run` first")

"""The report of `outpost selftest`: a JSON file for programs, and the same in short beside it for
people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from outpost import __version__
from outpost_tools.device.health import FAIL, Check
from outpost_tools.errors import ToolError

FORMAT = 1


def row(check: Check) -> str:
    return f"{check.name:<10} {check.result:<5} {check.text}".rstrip()


def verdict(checks: Iterable[Check]) -> str:
    failed = [check.name for check in checks if check.result == FAIL]
    return f"failed: {', '.join(failed)}" if failed else "passed"


def paths(report: Path) -> tuple[Path, Path]:
    """Of the JSON and of the text."""
    base = report.with_suffix("") if report.suffix in (".json", ".txt") else report
    return base.with_name(f"{base.name}.json"), base.with_name(f"{base.name}.txt")


def check_writable(report: Path) -> None:
    """Before minutes are spent. Raises ToolError."""
    if not report.parent.is_dir():
        raise ToolError(f"--report {report}: no such folder; make it first")


def write(report: Path, checks: list[Check]) -> tuple[Path, Path]:
    """Raises ToolError."""
    as_json, as_text = paths(report)
    when = datetime.now(UTC).replace(microsecond=0).isoformat()
    content = {
        "format": FORMAT,
        "outpost": __version__,
        "when": when,
        "result": verdict(checks),
        "checks": [asdict(one) for one in checks],
    }
    head = f"outpost selftest {__version__}, {when}: {verdict(checks)}"
    try:
        as_json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        as_text.write_text("\n".join([head, "", *map(row, checks), ""]), encoding="utf-8")
    except OSError as error:
        raise ToolError(f"--report {report}: {error.strerror}") from None
    return as_json, as_text

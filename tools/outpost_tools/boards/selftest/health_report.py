"""The output of `outpost selftest`: prints a row for each check, and writes a JSON file for
programs and a short text file with the same results for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from outpost_tools.boards.selftest import health
from outpost_tools.boards.selftest.health import FAIL, Check, Job
from outpost_tools.errors import ToolError
from outpost_tools.machine.firmware import firmware_version

FORMAT = 1


def row(check: Check) -> str:
    return f"{check.name:<10} {check.result:<5} {check.text}".rstrip()


def verdict(checks: Iterable[Check]) -> str:
    failed = [check.name for check in checks if check.result == FAIL]
    return f"failed: {', '.join(failed)}" if failed else "passed"


def paths(report: Path) -> tuple[Path, Path]:
    """The paths of the JSON file and of the text file."""
    base = report.with_suffix("") if report.suffix in (".json", ".txt") else report
    return base.with_name(f"{base.name}.json"), base.with_name(f"{base.name}.txt")


def examine(job: Job, report: Path | None) -> bool:
    """Print each check of the board as it ends, and write the report. Returns whether no check
    failed. Raises ToolError."""
    if report:
        check_writable(report)
    checks = []
    with _clock() as sign:
        for check in health.examine(job, sign):
            checks.append(check)
            print(row(check), flush=True)
    print(f"{'selftest':<10} {verdict(checks)}")
    if report:
        print(f"{'report':<10} {', '.join(map(str, write(report, checks)))}")
    return not any(check.result == FAIL for check in checks)


@contextmanager
def _clock() -> Iterator[Callable[[], None]]:
    """Show a clock on stderr, if that is a terminal, while the program runs on the board."""
    from tqdm import tqdm

    form = "{desc}: {elapsed}"
    title = "its program runs"
    with tqdm(desc=title, bar_format=form, disable=None, leave=False, file=sys.stderr) as bar:
        yield lambda: bar.update(1) and None


def check_writable(report: Path) -> None:
    """Check the report's folder before the test, which takes minutes. Raises ToolError."""
    if not report.parent.is_dir():
        raise ToolError(f"--report {report}: no such folder; make it first")


def write(report: Path, checks: list[Check]) -> tuple[Path, Path]:
    """Write both files and return their paths. Raises ToolError."""
    as_json, as_text = paths(report)
    when = datetime.now(UTC).replace(microsecond=0).isoformat()
    content = {
        "format": FORMAT,
        "outpost": firmware_version(),
        "when": when,
        "result": verdict(checks),
        "checks": [asdict(one) for one in checks],
    }
    head = f"outpost selftest {firmware_version()}, {when}: {verdict(checks)}"
    try:
        as_json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        as_text.write_text("\n".join([head, "", *map(row, checks), ""]), encoding="utf-8")
    except OSError as error:
        raise ToolError(f"--report {report}: {error.strerror}") from None
    return as_json, as_text

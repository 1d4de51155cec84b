"""The demo from end to end: run, drain, tables, report, accounts."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import shutil
import sys
import time
import uuid
from pathlib import Path
from typing import Any, TextIO

from outpost_tools.errors import ToolError
from outpost_tools.machine import children
from outpost_tools.store.at import at
from outpost_tools.store.base import Store
from outpost_tools.trying.demo import accounts, disasters, verify, wire
from outpost_tools.trying.demo.progress import Progress
from outpost_tools.trying.demo.stage import DemoError, Stage, subprocess_group
from outpost_tools.trying.demo.tables import quarantine_reasons, silver_rows
from outpost_tools.trying.simulate.journal import read_journal

_MARK = ".outpost-demo"
_SILENCE_LIMIT_S = 300  # a tool that prints nothing for this long hangs


def run(args: argparse.Namespace) -> int:
    """The exit status; see arguments.py. Raises ToolError."""
    args.out = args.out.resolve()
    mark = claim(args.out)
    try:
        return asyncio.run(_demo(args))
    except DemoError as error:
        print(f"outpost demo: {error}", file=sys.stderr)
        return 1
    except asyncio.CancelledError:
        print("outpost demo: interrupted; all processes ended", file=sys.stderr)
        return 130
    finally:
        mark.close()


def _begin(args: argparse.Namespace, stage: Stage, place: Store) -> str:
    files = f"all files in {args.out}" + (f", log and tables in {place}" if args.store else "")
    return (
        f"boards: {stage.fleet.interpreter}; broker: {args.broker}; MQTT level {args.level}; "
        f"seed {args.seed}; {files}"
    )


def data_place(store: Store | None, out: Path) -> Store:
    """The folder of log and tables: a new one there, or the output folder."""
    return at(out) if store is None else store / f"demo-{uuid.uuid4().hex[:12]}"


def claim(out: Path) -> TextIO:
    """Empty our folder and lock it.

    Raises ToolError if the folder is not ours, rather than emptying it.
    """
    mark = out / _MARK
    if out.exists() and not mark.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ToolError(
            f"{out} exists and was not made by `outpost demo`; give another --out, or remove it"
        )
    out.mkdir(parents=True, exist_ok=True)
    file = mark.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ToolError(f"another demo runs in {out}; wait for it, or give another --out") from None
    for path in out.iterdir():
        if path != mark:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return file


async def _demo(args: argparse.Namespace) -> int:
    children.end_on_signals()
    began, progress, out = time.monotonic(), Progress(), args.out
    place = data_place(args.store, out)
    stage = Stage(
        out,
        log=place / "log",
        kind=args.broker,
        boards=args.boards,
        seconds=args.seconds,
        seed=args.seed,
        progress=progress,
        level=args.level,
    )
    progress.say(_begin(args, stage, place))
    async with stage:
        await stage.play(disasters.plan(args.seed, seconds=args.seconds, boards=args.boards))
        await stage.drain()
        offline_s = stage.fleet.longest_offline_s()
    _write(out / "events.json", stage.events.items)
    places = ["--log", str(place / "log"), "--tables", str(place / "tables")]
    spark = ["--master", args.master] if args.master else []
    await _tool(["pipeline", "run", *places, *spark], out, progress)
    progress.say("comparing the boards' journals with the tables, row for row")
    run = {"interpreter": stage.fleet.interpreter, "broker": args.broker, "seed": args.seed}
    run["seconds"] = round(time.monotonic() - began, 1)
    try:
        summary = _account(stage, place, offline_s, run)
    except (OSError, ValueError) as error:
        raise DemoError(f"journals and tables cannot be compared: {error}") from error
    await _report(out, place, accounts.verdict(summary), progress)
    summary["seconds"] = round(time.monotonic() - began, 1)
    _write(out / "summary.json", summary)
    print(accounts.table(summary))
    exact = accounts.is_exact(summary)
    print(f"{'EXACT' if exact else 'NOT EXACT'}: {out / 'summary.json'}, {out / 'report.html'}")
    return 0 if exact else 1


async def _report(out: Path, place: Store, verdict: str, progress: Progress) -> None:
    report = ["report", "--tables", str(place / "tables"), "--out", str(out / "report.html")]
    report += ["--events", str(out / "events.json"), "--headline", verdict]
    await _tool(report, out, progress)


def _account(
    stage: Stage, place: Store, offline_s: dict[str, float], run: dict[str, Any]
) -> dict[str, Any]:
    journals = {
        board.device: read_journal(board.directory / "journal.txt") for board in stage.fleet.boards
    }
    return accounts.summarize(
        verify.verify(journals, silver_rows(place / "tables")),
        redelivered=wire.redelivered(stage.log),
        offline_s=offline_s,
        events=stage.events,
        reasons=quarantine_reasons(place / "tables"),
        run=run,
    )


async def _tool(arguments: list[str], out: Path, progress: Progress) -> None:
    """Run another `outpost` subcommand and show its progress. Raises DemoError."""
    log = out / f"{arguments[0]}.log"
    async with subprocess_group(
        [sys.executable, "-m", "outpost_tools.cli", *arguments], log
    ) as process:
        try:
            async with asyncio.timeout(_SILENCE_LIMIT_S) as limit:
                with log.open("ab") as file:
                    async for line in process.stderr:
                        file.write(line)
                        progress.say(line.decode(errors="replace").rstrip())
                        limit.reschedule(asyncio.get_running_loop().time() + _SILENCE_LIMIT_S)
                status = await process.wait()
        except TimeoutError:
            raise DemoError(
                f"`outpost {arguments[0]}` said nothing for {_SILENCE_LIMIT_S} s; see {log}"
            ) from None
    if status != 0:
        raise DemoError(f"`outpost {arguments[0]}` ended with status {status}; see {log}")


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

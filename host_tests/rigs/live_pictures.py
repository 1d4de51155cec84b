"""40 pictures of the live page to look at: ten states, at the widths of a desktop and a phone,
light and dark. Says what axe finds serious in each.

    python host_tests/rigs/live_pictures.py [build/live-pictures] [--tree DIR]

--tree: the page of another version, whose work tree that is, with the same logs.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path[:0] = paths.ALL

import browser_rig  # noqa: E402
from foreign_house import SHELLY, sources  # noqa: E402
from foreign_traffic import TASMOTA_ZONE  # noqa: E402
from live_server import Server, Writer  # noqa: E402
from real_broker import wait_for  # noqa: E402

WIDTHS = {"desktop": (1280, 1500), "phone": (390, 2300)}
ABOUT = {
    1: ("firmware", "", 100), 2: ("report_s", "s", 600), 3: ("reset_cause", "", 1),
    5: ("signal", "dBm", -61), 6: ("erases", "", 12), 7: ("outbox_blocks", "", 64),
    8: ("memory", "B", 105_312), 9: ("aside", "", 0),
}  # fmt: skip
FAULTS = (
    ("left_out", "", 3), ("aside", "", 2), ("soil.fault", "", 1), ("not_published", "", 8),
    ("pins_lost", "", 1), ("takeovers", "", 4), ("unheard", "h", 7), ("ahead", "", 1),
)  # fmt: skip


def sends(
    log: Path, device: str, *, count: int = 40, until_s: float = 0.0, every_s: int = 600, faults=()
) -> None:
    """Messages, the last one `until_s` ago. The values depend on the name alone."""
    writer, now = Writer(log, "collector-1" if not log.exists() else f"c-{device}"), time.time()
    for seq in range(count):
        at_s = now - until_s - every_s * (count - 1 - seq) - 20
        turn = seq * every_s / 4200 + sum(device.encode()) % 7
        season = 6 * math.sin(seq * every_s / 5e6)
        records = [
            ("temperature", "Cel", round(21 + season + 2 * math.sin(turn), 2)),
            ("humidity", "%RH", round(48 + 6 * math.cos(turn), 1)),
            ("pressure", "hPa", round(1013 + 3 * math.sin(turn / 3), 1)),
        ]
        records += [ABOUT[seq]] if seq in ABOUT else []
        records += faults if seq == count - 1 else []
        writer.store(device, *records, received_s=at_s, time_s=at_s, held=seq)


def one(log: Path) -> None:
    sends(log, "kitchen")


def forty(log: Path) -> None:
    for n in range(40):
        sends(log, f"room-{n}", count=12, until_s=20_000 if n in (3, 17) else 0)


def nothing(_log: Path) -> None:
    pass


def broken(log: Path) -> None:
    for n, fault in enumerate(FAULTS):
        sends(log, f"broken-{n}", count=12, faults=[fault])
    sends(log, "gone", count=12, until_s=200_000)
    Writer(log, "c-noise").raw("outpost/x/data", b"[nonsense")


def alarm(log: Path) -> None:
    faults = [("soil.fault", "", 1), ("left_out", "", 3)]
    sends(log, "kitchen", faults=faults)


def silent(log: Path) -> None:
    sends(log, "kitchen", until_s=200_000)


def year(log: Path) -> None:
    sends(log, "kitchen", count=1200, every_s=6 * 3600)


def others(log: Path) -> None:
    """A board; a Tasmota plug that reports; a Zigbee sensor that went offline; a Shelly meter of
    which only the last known value is there."""
    sends(log, "kitchen")
    writer, now = Writer(log, "c-others"), time.time()
    for n in range(40):
        at_s = now - 300 * (39 - n) - 15
        moment = datetime.fromtimestamp(at_s, ZoneInfo(TASMOTA_ZONE)).replace(tzinfo=None)
        energy = {"Power": round(38 + 30 * math.sin(n / 5)), "Voltage": 229 + n % 3, "Total": 61.3}
        plug = {"Time": moment.isoformat(timespec="seconds"), "ENERGY": energy}
        writer.raw("tele/washer/SENSOR", json.dumps(plug).encode(), received_s=at_s)
        climate = {"temperature": round(11 + 2 * math.sin(n / 9), 2), "battery": 88}
        writer.raw("zigbee2mqtt/front door", json.dumps(climate).encode(), received_s=at_s)
    writer.raw("tele/washer/LWT", b"Online", retain=True)
    writer.raw("zigbee2mqtt/front door/availability", b'{"state":"offline"}')
    status = {"ts": round(now - 7200, 2), "switch:0": {"id": 0, "apower": 41.7, "output": True}}
    notice = {"src": SHELLY, "method": "NotifyStatus", "params": status}
    writer.raw(f"{SHELLY}/events/rpc", json.dumps(notice).encode(), retain=True)


@dataclass(frozen=True)
class State:
    """fill: the log; path: of the page; opened: what is unfolded on it; collects: whether a
    collector still writes; sources: whether the page reads others' messages."""

    fill: Callable[[Path], None]
    path: str = "/"
    opened: str = ""
    collects: bool = True
    sources: bool = False


STATES = {
    "one": State(one),
    "forty": State(forty),
    "nothing": State(nothing),
    "broken": State(broken),
    "open": State(one, "/", ".card details"),
    "alarm": State(alarm, "/board/kitchen?span=day"),
    "stopped": State(silent, "/", ".card details", collects=False),
    "year": State(year, "/board/kitchen?span=year"),
    "others": State(others, "/", ".card details", sources=True),
    "other": State(others, "/board/other:washer?span=hours", sources=True),
}


def main(out: Path, tree: Path | None, only: str | None) -> None:
    out.mkdir(parents=True, exist_ok=True)
    command = browser_rig.find()
    if command is None:
        raise SystemExit("missing: chromium; apt-get install chromium, or its path in CHROMIUM")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with browser_rig.Browser(command, folder / "browser") as browser:
            for name in [only] if only else STATES:
                state = STATES[name]
                log = folder / name / "log"
                state.fill(log)
                options = ["--sources", str(sources(folder))] if state.sources else []
                with (
                    collecting(log, state.collects),
                    Server(log, folder / name, *options, tree=tree) as server,
                ):
                    take(browser, server, state, out / name)
    print(out)


@contextlib.contextmanager
def collecting(log: Path, is_it: bool) -> Iterator[None]:
    """A collector's lock on its folder: all that the page sees of it."""
    folder = log / "collector-1"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        if is_it:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_read(server, path: str) -> bool:
    """Whether the page shows all of the log: it loads itself again when it does."""
    status, text, _ = server.get(path)
    return status == 200 and not any(
        one in text for one in ("Reading the history", "is still being read")
    )


def take(browser, server, state: State, out: Path) -> None:
    wait_for(lambda: is_read(server, state.path), state.path)
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        for width, size in WIDTHS.items():
            browser.load(server.url + state.path, *size)
            browser.wait_for("document.getElementById('link')?.dataset.state === 'here'")
            if state.opened:
                browser.ask(
                    f"document.querySelectorAll('{state.opened}').forEach(o => o.open = true)"
                )
            time.sleep(0.3)  # charts and transitions
            path = out.with_name(f"{out.name}-{width}-{scheme}.png")
            browser.picture(path)
            if found := browser.serious():
                print(f"{path.name}: axe: {found}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("out", nargs="?", type=Path, default=Path("build/live-pictures"))
    parser.add_argument("--only", metavar="STATE", choices=STATES, help="pictures of this state")
    parser.add_argument("--tree", type=Path, help="the page of the version in this work tree")
    args = parser.parse_args()
    main(args.out, args.tree, args.only)

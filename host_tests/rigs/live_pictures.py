"""Pictures of the live page to look at: one board, forty, nothing yet, everything broken; at the
widths of a desktop and a phone, light and dark.

    python host_tests/rigs/live_pictures.py [build/live-pictures]
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]

import browser_rig  # noqa: E402
from live_server import Server, Writer  # noqa: E402

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


def sends(log: Path, device: str, *, count: int = 40, until_s: float = 0.0, faults=()) -> None:
    """A message each 10 minutes, the last one `until_s` ago."""
    writer, now = Writer(log, "collector-1" if not log.exists() else f"c-{device}"), time.time()
    for seq in range(count):
        at_s = now - until_s - 600 * (count - 1 - seq) - 20
        turn = seq / 7 + hash(device) % 7
        records = [
            ("temperature", "Cel", round(21 + 2 * math.sin(turn), 2)),
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


STATES = {"one": one, "forty": forty, "nothing": nothing, "broken": broken}


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    command = browser_rig.find()
    if command is None:
        raise SystemExit("missing: chromium; apt-get install chromium, or its path in CHROMIUM")
    with tempfile.TemporaryDirectory() as folder:
        with browser_rig.Browser(command, Path(folder) / "browser") as browser:
            for name, fill in STATES.items():
                fill(Path(folder) / name / "log")
                (Path(folder) / name).mkdir(exist_ok=True)
                with Server(Path(folder) / name / "log", Path(folder) / name) as server:
                    pages = {name: "/"} | ({"board": "/board/kitchen"} if name == "one" else {})
                    for page, path in pages.items():
                        take(browser, server.url + path, out, page)
    print(out)


def take(browser, url: str, out: Path, page: str) -> None:
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        for width, size in WIDTHS.items():
            browser.load(url, *size)
            browser.wait_for("document.getElementById('link')?.dataset.state === 'here'")
            time.sleep(0.3)
            browser.picture(out / f"{page}-{width}-{scheme}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/live-pictures"))

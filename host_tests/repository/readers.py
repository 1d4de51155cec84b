#!/usr/bin/env python3
"""Who reads which page of the repository, and how many words that is.

    host_tests/repository/readers.py            words by reader and page

Each page has one reader. The pages of all readers but DEVELOPER are for users, and have at most
USER_WORDS in all, as `wc -w` counts words. test_readers.py checks both.
"""

import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DEVELOPER = "developer of Outpost"
USER_WORDS = 28_000

PAGES = {
    "everyone": (
        "README.md",
        "SECURITY.md",
        "tools/PEERS.md",
        "tools/README.md",
    ),
    "maker": (
        "boards/BOARDS.md",
        "boards/MEMORY.md",
        "boards/README.md",
        "boards/sensors/README.md",
        "firmware/station/COMMANDS.md",
        "firmware/station/UPDATES.md",
        "tools/outpost_tools/servers/alerts/README.md",
        "tools/outpost_tools/servers/home/README.md",
        "tools/outpost_tools/servers/republish/README.md",
    ),
    "firmware engineer": (
        "boards/BENCH/README.md",
        "boards/UNIX/README.md",
        "firmware/README.md",
        "firmware/WEAR.md",
        "firmware/station/README.md",
        "firmware/station/SERIES.md",
    ),
    "data engineer": (
        "tools/BROKERS.md",
        "tools/MESSAGES.md",
        "tools/MQ.md",
        "tools/outpost_tools/boards/broker/README.md",
        "tools/outpost_tools/servers/collect/README.md",
        "tools/outpost_tools/readings/pipeline/QUERIES.md",
        "tools/outpost_tools/readings/pipeline/README.md",
        "tools/outpost_tools/readings/sources/README.md",
    ),
    DEVELOPER: (
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "boards/PORTING.md",
        "boards/support/README.md",
        "firmware/OUTBOX_FORMAT.md",
        "firmware/PROOF.md",
        "firmware/SERIES_FORMAT.md",
        "firmware/station/UPDATE_FORMAT.md",
        "host_tests/README.md",
        "host_tests/bench/README.md",
        "host_tests/bench/TOOLS.md",
        "host_tests/prove/README.md",
        "host_tests/rigs/rp2040/README.md",
        "tools/outpost_tools/readings/pipeline/INSIDE.md",
    ),
}


def tracked() -> list[str]:
    """The pages that git has."""
    command = ["git", "-C", str(REPOSITORY), "ls-files", "*.md"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def faults(pages: list[str]) -> list[str]:
    """A line for each of these pages that has no reader, or several; and for each that is gone."""
    listed = [page for of_reader in PAGES.values() for page in of_reader]
    return [
        *(f"{page}: add it to one reader in readers.py" for page in pages if page not in listed),
        *(f"{page}: has several readers" for page in sorted(set(listed)) if listed.count(page) > 1),
        *(f"{page}: no such page" for page in listed if page not in pages),
    ]


def words(page: str) -> int:
    return len((REPOSITORY / page).read_text(encoding="utf-8").split())


def user_words() -> int:
    return sum(words(page) for reader in PAGES if reader != DEVELOPER for page in PAGES[reader])


def table() -> list[str]:
    lines = []
    for reader, pages in PAGES.items():
        counts = {page: words(page) for page in pages}
        lines.append(f"{sum(counts.values()):7,}  {reader}")
        lines += [f"{count:7,}      {page}" for page, count in counts.items()]
    return [*lines, f"{user_words():7,}  on pages for users, of at most {USER_WORDS:,}"]


if __name__ == "__main__":
    print(*table(), sep="\n")

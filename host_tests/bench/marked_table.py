"""A table on a page, between the marks of its name, which the program that measured it writes:

<!-- figures: NAME -->
| ... |
<!-- /figures -->

Those of bench_readme.py have the same marks; they are made of the baseline.
"""

from __future__ import annotations

from pathlib import Path

_END = "<!-- /figures -->\n"


def read(page: Path, name: str) -> str:
    """Raises ValueError where the page lacks the marks."""
    return _parts(page, name)[1]


def write(page: Path, name: str, table: str) -> None:
    """Raises ValueError where the page lacks the marks."""
    before, _, after = _parts(page, name)
    page.write_text(f"{before}{table.rstrip()}\n{after}", encoding="utf-8")


def _parts(page: Path, name: str) -> tuple[str, str, str]:
    """Returns what precedes the table, with its mark; the table; and what follows, with its end."""
    begin = f"<!-- figures: {name} -->\n"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    table, end, after = rest.partition(_END)
    if not (found and end):
        raise ValueError(f"{page}: lacks {begin.strip()}, or its end")
    return before + begin, table, end + after

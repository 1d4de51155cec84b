"""A table on a page, between the marks of its name, which a program of this folder writes:

<!-- figures: NAME -->
| ... |
<!-- /figures -->
"""

from __future__ import annotations

from pathlib import Path

_END = "<!-- /figures -->\n"


def read(page: Path, name: str) -> str:
    """Raises ValueError where the page lacks the marks."""
    return shown(page.read_text(encoding="utf-8"), name)


def write(page: Path, name: str, table: str) -> None:
    """Raises ValueError where the page lacks the marks."""
    before, _, after = _parts(page.read_text(encoding="utf-8"), name)
    page.write_text(f"{before}{table.rstrip()}\n{after}", encoding="utf-8")


def shown(text: str, name: str) -> str:
    """The table of that name in a page's text. Raises ValueError where it lacks the marks."""
    return _parts(text, name)[1]


def _parts(text: str, name: str) -> tuple[str, str, str]:
    """Returns what precedes the table, with its mark; the table; and what follows, with its end."""
    begin = f"<!-- figures: {name} -->\n"
    before, found, rest = text.partition(begin)
    table, end, after = rest.partition(_END)
    if not (found and end):
        raise ValueError(f"the table {name!r} lacks {begin.strip()}, or {_END.strip()}")
    return before + begin, table, end + after

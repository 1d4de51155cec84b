"""A table on a page, between the marks of its name, which the program that measured it writes:

<!-- figures: NAME -->
| ... |
<!-- /figures -->

Those of bench_readme.py have the same marks; they are made of the baseline.
"""

from __future__ import annotations

from pathlib import Path

_END = "<!-- /figures -->\n"


def write(page: Path, name: str, table: str) -> None:
    """Raises ValueError where the page lacks the marks."""
    begin = f"<!-- figures: {name} -->\n"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, end, after = rest.partition(_END)
    if not (found and end):
        raise ValueError(f"{page}: lacks {begin.strip()}, or its end")
    page.write_text(f"{before}{begin}{table.rstrip()}\n{_END}{after}", encoding="utf-8")

"""What a Markdown page gives people to type: lines of code blocks, and commands in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FENCED = r"(?ms)^```.*?^```"
_PROGRAMS = ("outpost", "make", "mpremote", "pipx", "pip")


@dataclass(frozen=True)
class Line:
    """section: its heading; text: with the comment behind it, without line breaks."""

    page: Path
    section: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}, {self.section!r}: {self.text}"


def lines_of_code(text: str) -> list[str]:
    """Of blocks, indented or fenced; a line that ends in a backslash with the next one."""
    fenced = re.findall(r"(?ms)^```(?:sh|console|bash)?\n(.*?)^```", text)
    indented = re.findall(r"(?m)^    .*\n", re.sub(_FENCED, "", text))
    code = "\n".join([*fenced, "".join(indented)])
    return [line.strip() for line in re.sub(r"\\\n\s*", " ", code).splitlines()]


def commands_in_text(text: str) -> list[str]:
    """In backticks, with an argument: `outpost flash` alone is a name."""
    prose = re.sub(r"(?m)^    [^#\n]*", "", re.sub(_FENCED, "", text))  # and comments of lines
    found = [one.replace("\n", " ") for one in re.findall(r"`([^`]+)`", prose)]
    return [one for one in found if one.split()[0] in _PROGRAMS and len(one.split()) > 2]


def sections(page: Path) -> dict[str, str]:
    """Text by heading, of any level; what precedes the second heading belongs to the first."""
    parts = re.split(r"(?m)^#{1,6} (.+)\n", page.read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def lines_of(page: Path, section: str) -> list[Line]:
    """Raises KeyError when the page has no such heading."""
    text = sections(page)[section]
    found = [*lines_of_code(text), *commands_in_text(text)]
    return [Line(page, section, one) for one in found if one]


def python_of(page: Path, section: str) -> str:
    """Returns the section's program in Python. Raises IndexError when it has none."""
    return sections(page)[section].split("```python\n")[1].split("```")[0]

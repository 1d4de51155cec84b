"""Makes the templates of a room: the HTML files in its folder `templates`.

Every value that a template prints is escaped, unless it was made by a template or is Markup from
this house. Control characters become visible: they can change the direction of text. A value that
is missing is an error. Knows no page.
"""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from outpost_tools.text import words
from outpost_tools.text.visible import visible


def of_room(package: str) -> Environment:
    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printed,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals |= {"count": words.count, "duration": words.duration, "moment": words.moment}
    made.filters["commas"] = _commas
    return made


def _printed(value: Any) -> Any:
    """Markup is a class of its own, below str."""
    return value if type(value) is not str or value.isprintable() else visible(value)


def _commas(value: float, digits: int | None = None) -> str:
    return f"{value:,}" if digits is None else f"{value:,.{digits}f}"

"""The folders `<mcd>`, which describes the body, and `<usr>`, which holds an application's own
named values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from outpost_tools.servers.mq.folder import Element
from outpost_tools.servers.mq.reasons import WARNING, Fault

# Msd is an open list: brokers and parsers add their own.
DOMAINS = (
    "none",
    "neon",
    "mrm",
    "jms_none",
    "jms_text",
    "jms_object",
    "jms_map",
    "jms_stream",
    "jms_bytes",
    "xmlnsc",
    "idoc",
)
_NEEDS = {"mrm": ("Set", "Type", "Fmt"), "xmlnsc": ("Set",), "idoc": ("Set", "Fmt")}
_MCD = ("Msd", "Set", "Type", "Fmt")
_TYPES = ("string", "boolean", "bin.hex", "i1", "i2", "i4", "i8", "int", "r4", "r8")
# IBM's rules for property names (page q023090_): they must be usable in a selector.
_RESERVED = {"NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"}
_USR_NAME = re.compile(r"[^\W\d][\w$]*\Z")


def mcd(domain: str, *, set: str = "", type: str = "", fmt: str = "") -> Element:
    """`<mcd>` without the empty values."""
    values = {"Msd": domain, "Set": set, "Type": type, "Fmt": fmt}
    return Element(
        "mcd", children=tuple(Element(name, value) for name, value in values.items() if value)
    )


def usr(values: Mapping[str, str | int | bool]) -> Element:
    """`<usr>`: a number gets dt i4 or i8, a truth value dt boolean (1 or 0), a string none."""
    return Element("usr", children=tuple(_value(name, value) for name, value in values.items()))


def _value(name: str, value: str | int | bool) -> Element:
    if isinstance(value, bool):
        return Element(name, str(int(value)), attributes=(("dt", "boolean"),))
    if isinstance(value, int):
        return Element(
            name, str(value), attributes=(("dt", "i4" if -(1 << 31) <= value < 1 << 31 else "i8"),)
        )
    return Element(name, value)


def check_mcd(root: Element) -> Iterator[Fault]:
    """Warnings only: a queue manager forwards `<mcd>` unchanged."""
    names = [child.name for child in root.children]
    for name in sorted(set(names) - set(_MCD)):
        yield Fault("mcd-unknown", 0, f"<{name}> in <mcd>; known: {', '.join(_MCD)}", WARNING)
    domain = next(iter(root.values("Msd")), "")
    if domain not in DOMAINS:
        yield Fault("mcd-domain", 0, f"Msd {domain!r} is none of {', '.join(DOMAINS)}", WARNING)
    for name in _NEEDS.get(domain, ()):
        if name not in names:
            yield Fault("mcd-needs", 0, f"Msd {domain!r} needs <{name}>", WARNING)


def check_usr(root: Element) -> Iterator[Fault]:
    """Every rule for the names and values of `<usr>`."""
    seen: set[str] = set()
    for child in root.children:
        if child.name in seen:
            yield Fault("usr-repeated", 2442, f"<{child.name}> twice in <usr>")
        seen.add(child.name)
        if (
            not _USR_NAME.match(child.name)
            or child.name.startswith("JMS")
            or child.name.upper() in _RESERVED
        ):
            yield Fault(
                "usr-name",
                2442,
                f"{child.name!r}: no '.', ':' or '-', not JMS…, no word of a selector",
            )
        if child.children:
            yield Fault(
                "usr-nested", 2335, f"<{child.name}> contains elements; <usr> has one level"
            )
        if child.type not in _TYPES:
            yield Fault(
                "usr-type",
                2335,
                f"<{child.name}> has dt {child.type!r}; known: {', '.join(_TYPES)}",
            )

"""firmware/public_names.txt: what a program may use of the firmware, and so keeps its name in a compact build."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from outpost_tools.errors import ToolError

FILE_NAME = "public_names.txt"


@dataclass
class PublicNames:
    """Of each owner ("client.Client", "settings") the names, in the order of the file."""

    owners: dict[str, list[str]] = field(default_factory=dict)
    keywords: dict[str, list[str]] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)  # attributes of objects that a program gives to the firmware
    merged: dict[str, list[str]] = field(default_factory=dict)  # module: those that come into its file

    def of_module(self, module: str) -> set[str]:
        """Functions, classes and constants of a module: named in its own line, or the owner of a line."""
        classes = {owner.split(".")[1] for owner in self.owners if owner.startswith(module + ".")}
        return classes | set(self.owners.get(module, ()))

    @property
    def attributes(self) -> set[str]:
        return self.foreign | {name for owner, names in self.owners.items() if "." in owner for name in names}

    @property
    def all_keywords(self) -> set[str]:
        return {name for names in self.keywords.values() for name in names}


def parse(text: str, title: str = FILE_NAME) -> PublicNames:
    """Lines `owner: name name keyword=`; one that begins with a blank goes on with the owner above. `module + modules`: one file.

    Raises ToolError.
    """
    public, owner = PublicNames(), ""
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#")[0].rstrip()
        if not line:
            continue
        if _took_directive(public, line):
            continue
        if not line[0].isspace():
            owner, line = _owner_of(line, f"{title}:{number}")
            public.owners.setdefault(owner, [])
            public.keywords.setdefault(owner, [])
        for name in line.split():
            if not owner or not name.removesuffix("=").isidentifier():
                raise ToolError(f"{title}:{number}: {name!r} is not a name")
            (public.keywords if name.endswith("=") else public.owners)[owner].append(name.removesuffix("="))
    return public


def _took_directive(public: PublicNames, line: str) -> bool:
    """`module + modules` and `foreign what: names`."""
    if " + " in line:
        host, parts = line.split(" + ", 1)
        public.merged[host] = parts.split()
        return True
    if line.startswith("foreign ") and ":" in line:
        public.foreign |= set(line.split(":", 1)[1].split())
        return True
    return False


def _owner_of(line: str, place: str) -> tuple[str, str]:
    owner, colon, rest = line.partition(":")
    if not colon or owner.count(".") > 1 or not all(part.isidentifier() for part in owner.split(".")):
        raise ToolError(f"{place}: must be `module: names` or `module.Class: names`, not {owner!r}")
    return owner, rest


def load(path: Path) -> PublicNames:
    """Raises ToolError."""
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}; it lists the names that the compact build keeps") from None

"""A checkout whose library has one module more in a room, for tests of what installs, updates and
builds rooms."""

from __future__ import annotations

from pathlib import Path

MODULE, ROOM = "topics", "inner"  # a module that lies in no room


def into_room(root: Path) -> None:
    """Move it, as somebody would who tidies up: the file, and every import of it."""
    library = root / "firmware" / "outpost"
    (library / ROOM).mkdir()
    (library / f"{MODULE}.py").rename(library / ROOM / f"{MODULE}.py")
    for path in [*(root / "firmware").rglob("*.py"), *(root / "boards").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        moved = text.replace(f"outpost.{MODULE}", f"outpost.{ROOM}.{MODULE}")
        if moved != text:
            path.write_text(moved, encoding="utf-8")

"""Carries out a plan: copies all files under temporary names, verifies them, renames all into place
at once, and verifies again.

Copying takes long, but leaves the installed program intact. Renaming is short, and runs on the
board alone, without the cable. It puts main.py aside first and in place last, so that a power cut
in between leaves a board that waits at its prompt, not one with half of two versions that crashes
at each start. If the flash has no room for the old files beside the new ones, they are replaced in
parts, and main.py stays aside from the first part to the last. After an interruption at any point,
the same command again completes the installation.
"""

from __future__ import annotations

import ast

from outpost_tools.boards.files import inventory
from outpost_tools.boards.files.plan import KEPT, MAIN, MAIN_ASIDE, STAGED, Plan, digest
from outpost_tools.boards.port.connection import Board, Show
from outpost_tools.errors import ToolError

_MAKE_FOLDER = """
import os
try:
    os.mkdir({folder!r})
except OSError as error:
    if error.args[0] != 17:
        raise
"""
_REMOVE = """
import os
for path in {paths!r}:
    os.remove(path)
"""
_COMMIT = """
import os

def there(path):
    try:
        os.stat(path)
        return True
    except OSError:
        return False

def commit():
    for path in {aside!r}:
        kept = path + {kept!r}
        while there(kept):
            kept += "+"
        os.rename(path, kept)
    if {moves_main!r} and there({main!r}):
        os.rename({main!r}, {main_aside!r})
    for path in {renames!r}:
        os.rename(path + {staged!r}, path)
    for path in {remove!r}:
        if there(path):
            os.remove(path)
    if not {is_last!r}:
        return print("done")
    for path in {emptied!r}:
        if there(path) and not os.listdir(path):
            os.rmdir(path)
    if {moves_main!r} and there({main_aside!r}):
        if there({main!r}):
            os.remove({main_aside!r})
        else:
            os.rename({main_aside!r}, {main!r})
    print("done")

commit()
"""


def carry_out(board: Board, plan: Plan, show: Show) -> None:
    """Carry out the plan. Raises ToolError; the board then still has its old files, or it needs the
    same command again."""
    if plan.ended:
        board.run(_REMOVE.format(paths=plan.ended))
    _make_folders(board, plan)
    parts = plan.parts or [plan.renames]
    aside, remove = plan.aside, [path for path in plan.remove if path != MAIN_ASIDE]
    if len(parts) > 1:  # the room that these files take is needed
        _commit(board, plan, [], aside, remove, is_last=False)
        aside = []
    for number, part in enumerate(parts, 1):
        files = {path: plan.copy[path] for path in part if path in plan.copy}
        for path, data in files.items():
            board.write(path + STAGED, data, show)
        _verify(board, {path + STAGED: data for path, data in files.items()})
        _commit(board, plan, part, aside, remove, is_last=number == len(parts))
    _verify(board, plan.copy)


def _make_folders(board: Board, plan: Plan) -> None:
    for folder in plan.folders:
        board.run(_MAKE_FOLDER.format(folder=folder))


def _commit(
    board: Board, plan: Plan, renames: list[str], aside: list[str], remove: list[str], *,
    is_last: bool,
) -> None:  # fmt: skip
    script = _COMMIT.format(
        aside=aside, kept=KEPT, moves_main=plan.touches_code, main=MAIN, main_aside=MAIN_ASIDE,
        renames=renames, staged=STAGED, remove=remove,
        emptied=plan.emptied, is_last=is_last,
    )  # fmt: skip
    if board.run(script)[-1:] != ["done"]:
        raise ToolError(
            f"{board.port}: the board did not say that its files are in place; flash again"
        )


def _verify(board: Board, files: dict[str, bytes]) -> None:
    """Check the files by hashes that the board computes from its flash. Raises ToolError."""
    wrong = differing(board, files)
    if wrong:
        raise ToolError(
            f"{board.port}: {wrong[0]} did not arrive as it was sent; try again, with a shorter "
            "cable"
        )


def differing(board: Board, files: dict[str, bytes]) -> list[str]:
    """The paths of the files that are not on the board with this content."""
    hashes = inventory.take(board, files, ()).hashes
    return [path for path, data in files.items() if hashes.get(path) != digest(data)]


def read_text(board: Board, path: str, most: int = 4000) -> str:
    """The text of a small file; "" if it is not there."""
    script = (
        f"try:\n    print(repr(open({path!r}).read({most})))\nexcept OSError:\n    print(repr(''))"
    )
    try:
        return str(ast.literal_eval("".join(board.run(script))))
    except (ValueError, SyntaxError):
        return ""

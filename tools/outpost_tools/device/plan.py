"""What has to be done so that the board has the files it should have: found out before anything is changed. Knows no port.

Ours on the board: all of /outpost, the files of /tls, and in the root main.py and the board's modules, as far as they are as
`outpost flash` wrote them. /outpost/installed.json says which those are, so that a main.py of the user's own is not overwritten.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field

from outpost import __version__
from outpost_tools.common.errors import ToolError
from outpost_tools.device.inventory import PACKAGE, SECRETS, Inventory, blocks_of, free_blocks

MAIN = "/main.py"
SETTINGS = "/settings.json"
RECORD = f"{PACKAGE}/installed.json"
MAIN_ASIDE = f"{PACKAGE}/main.py.old"
STAGED = ".new"  # a file on its way has this behind its name until all have arrived
KEPT = ".kept"  # a file of the user's that had to make room
_STALE = re.compile(rf"{PACKAGE}/[^/]+(\.py|\.mpy|\.new|\.old)|{SECRETS}/(ca|client|key)-[0-9a-f]{{8}}\.der(\.new)?")
_SPARE_BLOCKS = 8  # folders, and what littlefs needs to change them


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Plan:
    """copy: path -> bytes that must go over. staged: arrived in an earlier attempt. remove: ours, and of no more use.

    aside: the user's own, in the way. unchanged: paths. All of copy and staged are renamed into place together.
    """

    copy: dict[str, bytes] = field(default_factory=dict)
    staged: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.copy or self.staged or self.remove or self.aside)

    @property
    def bytes_to_copy(self) -> int:
        return sum(map(len, self.copy.values()))

    @property
    def renames(self) -> list[str]:
        """In the order in which they are done: what says what is ours, the code, certificates, settings, main.py."""
        return sorted([*self.copy, *self.staged], key=lambda path: (_rank(path), path))

    @property
    def touches_code(self) -> bool:
        changed = [*self.renames, *self.remove, *self.aside]
        return any(not path.startswith(SECRETS) and path != SETTINGS for path in changed)


def _rank(path: str) -> int:
    if path == RECORD:
        return 0
    return 4 if path == MAIN else 3 if path == SETTINGS else 2 if path.startswith(SECRETS) else 1


def make(wanted: dict[str, bytes], inventory: Inventory, stale_in: tuple[str, ...]) -> Plan:
    """wanted: path -> bytes. stale_in: the folders where files of ours that are not wanted go."""
    plan = Plan()
    for path, data in wanted.items():
        if inventory.hashes.get(path) == digest(data):
            plan.unchanged.append(path)
        elif inventory.hashes.get(path + STAGED) == digest(data):
            plan.staged.append(path)
        else:
            plan.copy[path] = data
    in_use = {*wanted, *(path + STAGED for path in plan.renames), RECORD}
    ours = (path for path in inventory.hashes if _STALE.fullmatch(path) and path.startswith(stale_in))
    plan.remove = sorted(path for path in ours if path not in in_use)
    return plan


def read_record(text: str) -> dict[str, list[str]]:
    """path -> hashes that `outpost flash` wrote there. What is no record tells nothing."""
    try:
        files = json.loads(text)["files"]
        return {str(path): [str(one) for one in hashes] for path, hashes in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def respect_users_files(plan: Plan, inventory: Inventory, wanted: dict[str, bytes], known: dict[str, set[str]], port: str,
                        replace: bool) -> None:  # fmt: skip
    """Files in the root that are in the way: ours go, the user's stay, or are put aside. Raises ToolError."""
    for path in [path for path in wanted if path.count("/") == 1 and path != SETTINGS]:
        source = path.removesuffix(".mpy") + ".py"  # would be imported in the place of the .mpy file
        for found in {path, source}:
            present = inventory.hashes.get(found)
            if present is None or (found == path and present == digest(wanted[path])):
                continue
            if present not in known.get(found, ()):
                if not replace:
                    raise ToolError(
                        f"{port}: {found} on the board is not Outpost's; save it if you need it, then flash with --replace, "
                        f"which renames it to {found}{KEPT}"
                    )
                plan.aside.append(found)
            elif found != path:
                plan.remove.append(found)


def add_record(plan: Plan, wanted: dict[str, bytes], inventory: Inventory, name: str) -> None:
    """Until the next change the root's files may be those on the board or the new ones: a power cut may leave either."""
    if not plan.touches_code:
        return
    files = {}
    for path in (path for path in wanted if path.count("/") == 1 and path != SETTINGS):
        present = [] if path in plan.aside else [inventory.hashes.get(path, "")]
        files[path] = sorted({digest(wanted[path]), *present} - {""})
    record = json.dumps({"board": name, "version": __version__, "files": files}, sort_keys=True).encode()
    if inventory.hashes.get(RECORD) != digest(record):
        plan.copy[RECORD] = record
        plan.remove = [path for path in plan.remove if path != RECORD + STAGED]


def check_room(plan: Plan, inventory: Inventory, outbox_blocks: int, port: str) -> None:
    """outbox_blocks: those that are still to be pinned. Raises ToolError."""
    files = sum(blocks_of(data) for data in plan.copy.values())
    free = free_blocks(inventory)
    needed = files + outbox_blocks + (_SPARE_BLOCKS if plan.copy or outbox_blocks else 0)
    if needed > free:
        raise ToolError(
            f"{port}: {free} blocks of 4,096 bytes are free, {needed} are needed, {outbox_blocks} of them for the outbox; "
            "remove files from the board, or lower the key 'outbox_blocks'"
        )

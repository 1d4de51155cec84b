"""Plans the changes that give a board the files it should have, before anything is changed. Does
not talk to the board.

Files of ours on a board: all of /outpost, with its rooms; the files of /tls; and what `outpost
flash` wrote to the root (main.py and the board's modules) and to /station, /support and /sensors,
where the user may have files, too. /outpost/installed.json records what was written: in the root
with hashes, so that a main.py that was changed since is not overwritten; in the three folders by
name.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from outpost_tools.boards.files.inventory import (
    PACKAGE,
    SECRETS,
    SHARED,
    UPDATE,
    Inventory,
    blocks_of,
    free_blocks,
)
from outpost_tools.errors import ToolError
from outpost_tools.machine.firmware import firmware_version

MAIN = "/main.py"
SETTINGS = "/settings.json"
RECORD = f"{PACKAGE}/installed.json"
MAIN_ASIDE = f"{PACKAGE}/main.py.old"
STAGED = ".new"  # suffix of a new file until all have arrived
KEPT = ".kept"  # suffix of a user's file that was in the way
_STALE = re.compile(
    rf"{PACKAGE}/.+(\.py|\.mpy|\.new|\.old)|({'|'.join(SHARED)})/[^/]+\.m?py\.new|"
    rf"{SECRETS}/(ca|client|key)-[0-9a-f]{{8}}\.der(\.new)?|"
    rf"{UPDATE}/(\d+(\.old)?|(list|plan|phase)(\.new)?|part|copy|(new|old)-\d+)"
)
SPARE_BLOCKS = 8  # for folders, and for littlefs to change them
_ROOM_BLOCKS = 2  # a littlefs folder takes two


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Record:
    """What `outpost flash` wrote. files: those in the root, path -> hashes. modules: the paths of
    those in the shared folders. made_s: when the last flash or update was made; the board rejects
    an update over the air that was made before that."""

    files: dict[str, list[str]] = field(default_factory=dict)
    modules: frozenset[str] = frozenset()
    made_s: int = 0


@dataclass
class Plan:
    """copy: path -> bytes to copy. staged: paths that arrived in an earlier attempt. remove: files
    of ours that are no longer used. aside: files of the user's that are in the way. unchanged:
    paths. emptied: rooms of /outpost that will have no file.

    All of copy and staged are renamed into place together. parts: the renames in order; there is
    one part, unless the flash has no room for the old files beside the new ones.
    """

    copy: dict[str, bytes] = field(default_factory=dict)
    staged: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    emptied: list[str] = field(default_factory=list)
    parts: list[list[str]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.copy or self.staged or self.remove or self.aside or self.emptied)

    @property
    def ended(self) -> list[str]:
        """Files of an update over the air that is in progress. They are removed first, its phase
        before all others. Each occupies at least one block."""
        found = [path for path in self.remove if path.startswith(f"{UPDATE}/")]
        return sorted(found, key=lambda path: (not path.startswith(f"{UPDATE}/phase"), path))

    @property
    def folders(self) -> list[str]:
        """The folders of the files to copy, each after its parent."""
        parents = {str(one) for path in self.copy for one in PurePosixPath(path).parents}
        return sorted(parents - {"/"})

    @property
    def bytes_to_copy(self) -> int:
        return sum(map(len, self.copy.values()))

    @property
    def renames(self) -> list[str]:
        """Paths to rename, in order: the record of what is ours, code, certificates, settings,
        main.py."""
        return sorted([*self.copy, *self.staged], key=lambda path: (_rank(path), path))

    @property
    def touches_code(self) -> bool:
        changed = [*self.renames, *self.remove, *self.aside]
        return any(not path.startswith(SECRETS) and path != SETTINGS for path in changed)


def _rank(path: str) -> int:
    if path == RECORD:
        return 0
    return 4 if path == MAIN else 3 if path == SETTINGS else 2 if path.startswith(SECRETS) else 1


def make(
    wanted: dict[str, bytes], inventory: Inventory, stale_in: tuple[str, ...], record: Record
) -> Plan:
    """Plan the changes from the inventory to the wanted files, path -> bytes.

    stale_in: the folders from which files of ours that are not wanted are removed. record: that of
    the last flash.
    """
    plan = Plan()
    for path, data in wanted.items():
        if inventory.hashes.get(path) == digest(data):
            plan.unchanged.append(path)
        elif inventory.hashes.get(path + STAGED) == digest(data):
            plan.staged.append(path)
        else:
            plan.copy[path] = data
    in_use = {*wanted, *(path + STAGED for path in plan.renames), RECORD}
    ours = (path for path in inventory.hashes if _STALE.fullmatch(path) or path in record.modules)
    ours = (path for path in ours if path.startswith(stale_in))
    plan.remove = sorted(path for path in ours if path not in in_use)
    if PACKAGE in stale_in:
        kept = [*wanted, *(inventory.hashes.keys() - {*plan.remove})]
        empty = [room for room in inventory.rooms if not any(_is_in(room, path) for path in kept)]
        plan.emptied = sorted(empty, reverse=True)  # a room before the one that contains it
    return plan


def _is_in(folder: str, path: str) -> bool:
    return path.startswith(f"{folder}/")


def known_files(
    record: Record, inventory: Inventory, sources: dict[str, set[str]]
) -> dict[str, set[str]]:
    """Return path -> hashes of the contents that are ours. sources: the same for files that
    somebody may have copied by hand."""
    known = {path: set(hashes) for path, hashes in sources.items()}
    for path, hashes in record.files.items():
        known.setdefault(path, set()).update(hashes)
    for path in record.modules & inventory.hashes.keys():
        known.setdefault(path, set()).add(inventory.hashes[path])
    return known


def read_record(text: str) -> Record:
    """Parse the text of a record; if it is not valid, the Record is empty. A record from before
    there were shared folders has no modules."""
    try:
        found = json.loads(text)
        files = {str(path): [str(one) for one in hashes] for path, hashes in found["files"].items()}
        modules = frozenset(filter(_is_shared, map(str, found.get("modules", ()))))
        return Record(files, modules, int(found.get("made", 0)))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Record()


def _is_in_root(path: str) -> bool:
    return path.count("/") == 1 and path != SETTINGS


def _is_shared(path: str) -> bool:
    return path.startswith(tuple(f"{folder}/" for folder in SHARED))


def respect_users_files(
    plan: Plan,
    inventory: Inventory,
    wanted: dict[str, bytes],
    known: dict[str, set[str]],
    port: str,
    replace: bool,
) -> None:
    """Deal with files in the root and in the shared folders that are in the way: remove ours, and
    put the user's aside if `replace` is set. known: path -> hashes of what is ours. Raises
    ToolError for a file of the user's without `replace`."""
    for path in [path for path in wanted if _is_in_root(path) or _is_shared(path)]:
        source = path.removesuffix(".mpy") + ".py"  # would be imported instead of the .mpy file
        for found in {path, source}:
            present = inventory.hashes.get(found)
            if present is None or (found == path and present == digest(wanted[path])):
                continue
            if present not in known.get(found, ()):
                if not replace:
                    raise ToolError(
                        f"{port}: {found} on the board is not Outpost's; save it if you need it, "
                        "then flash with --replace, "
                        f"which renames it to {found}{KEPT}"
                    )
                plan.aside.append(found)
            elif found != path:
                plan.remove.append(found)


def add_record(
    plan: Plan, wanted: dict[str, bytes], inventory: Inventory, name: str, former: Record
) -> None:
    """Add the record of what is ours. For a file in the root, it has the hashes of the old content
    and of the new one, because a power cut may leave either."""
    if not plan.touches_code:
        return
    files = {}
    for path in filter(_is_in_root, wanted):
        present = [] if path in plan.aside else [inventory.hashes.get(path, "")]
        files[path] = sorted({digest(wanted[path]), *present} - {""})
    modules = sorted({*filter(_is_shared, wanted), *(former.modules & inventory.hashes.keys())})
    facts = {"board": name, "version": firmware_version(), "files": files, "modules": modules}
    facts["made"] = max(former.made_s, int(time.time()))  # lists signed before now are void
    record = json.dumps(facts, sort_keys=True).encode()
    if inventory.hashes.get(RECORD) != digest(record):
        plan.copy[RECORD] = record
        plan.remove = [path for path in plan.remove if path != RECORD + STAGED]


def add_drivers(plan: Plan, wanted: dict[str, bytes], inventory: Inventory, text: str) -> None:
    """Update the list of modules in the record when only settings change, which may add and remove
    drivers. text: the record as it is on the board."""
    try:
        facts = json.loads(text)
    except ValueError:
        facts = {}
    facts = facts if isinstance(facts, dict) else {}
    former = read_record(text)
    kept = (former.modules & inventory.hashes.keys()) - {*plan.remove}
    facts |= {"files": former.files, "modules": sorted({*filter(_is_shared, wanted), *kept})}
    record = json.dumps(facts, sort_keys=True).encode()
    if plan.touches_code and inventory.hashes.get(RECORD) != digest(record):
        plan.copy[RECORD] = record


def check_room(plan: Plan, inventory: Inventory, outbox_blocks: int, port: str) -> None:
    """Check that there is room, and fill plan.parts. outbox_blocks: those that are still to be
    pinned. Raises ToolError."""
    files = sum(blocks_of(data) for data in plan.copy.values())
    free = free_blocks(inventory) + len(plan.ended)
    rooms = [one for one in plan.folders if _is_in(PACKAGE, one) and one not in inventory.rooms]
    others = _ROOM_BLOCKS * len(rooms) + outbox_blocks
    others += SPARE_BLOCKS if plan.copy or outbox_blocks else 0
    plan.parts = [plan.renames]
    if files + others > free:
        gone = len(plan.remove) - len(plan.ended)
        plan.parts = _parts(plan, inventory, free + gone - others)
        if not plan.parts:
            raise ToolError(
                f"{port}: {free} blocks of 4,096 bytes are free, {files + others} are needed, "
                f"{outbox_blocks} of them for the outbox; "
                "remove files from the board, or lower the key 'outbox_blocks'"
            )


def _parts(plan: Plan, inventory: Inventory, free: int) -> list[list[str]]:
    """Split the renames into parts that fit: a file that replaces another frees at least one block.
    Returns [] if even that is not enough."""
    parts: list[list[str]] = [[]]
    left = free  # blocks left for the present part
    for path in plan.renames:
        needed = blocks_of(plan.copy[path]) if path in plan.copy else 0
        if needed > left:
            parts.append([])
            left = free
        if needed > left:
            return []
        parts[-1].append(path)
        left -= needed
        free += (path in inventory.hashes) - needed
    return parts

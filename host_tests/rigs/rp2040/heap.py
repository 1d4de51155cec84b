"""What is in MicroPython's heap, read from the chip's memory: bytes by module and by kind.

The law: each block in use belongs to the nearest object that says where it was defined: a function
by its context, a class by its __module__, an instance by its class. What several refer to belongs
to the first that is found. Names have no module: they are shared.

Knows the layout of MicroPython 1.25 for 32-bit machines (py/obj.h, py/objfun.h, py/qstr.h). Read it
just after a collection, otherwise garbage counts.
"""

from __future__ import annotations

import bisect
import struct
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path

from rp2040.image import symbol

RAM, FLASH = 0x20000000, 0x10000000
BLOCK = 16
KINDS = ("code", "functions", "classes", "tables", "instances", "buffers", "text", "names", "other")
NAME_BYTES = 6  # of a name in a pool: pointer, hash, length
_HEAD, _TAIL = 1, 2
MAIN = "main"  # what is in no module
_FUNCTIONS = ("fun_bc", "gen_wrap", "native_gen_wrap", "fun_native", "fun_viper")
_TYPES = {  # kinds of the objects that are no module, function, class or instance
    "bytearray": "buffers",
    "array": "buffers",
    "memoryview": "buffers",
    "bytes": "text",
    "str": "text",
    "dict": "tables",
    "list": "tables",
    "tuple": "tables",
}
_STATE_WORDS = 400  # of mp_state_ctx, among which the heap's bounds are


class Heap:
    """ram, flash: the chip's. image: the interpreter's .uf2, beside its .elf."""

    def __init__(self, ram: bytes, flash: bytes, image: Path) -> None:
        self._ram, self._flash, self._image = ram, flash, image
        self._types = {self._symbol(f"mp_type_{name}"): name for name in (*_FUNCTIONS, *_TYPES)}
        self._module, self._class = self._symbol("mp_type_module"), self._symbol("mp_type_type")
        self._sizes = self._blocks()
        self.spare = 0  # bytes for names that are not there yet
        self._names, self._name_blocks = self._read_names()
        self._codes: set[int] = set()  # bytes that refer to nothing
        self._kind: dict[int, str] = {}
        self._owner: dict[int, str] = {}

    def _symbol(self, name: str) -> int:
        return symbol(self._image, name)

    def _bytes(self, address: int, length: int) -> bytes:
        memory, start = (self._ram, RAM) if address >= RAM else (self._flash, FLASH)
        return bytes(memory[address - start : address - start + length])

    def _word(self, address: int) -> int:
        return struct.unpack("<I", self._bytes(address, 4))[0]

    def _words(self, block: int) -> tuple[int, ...]:
        return struct.unpack_from(f"<{self._sizes[block] // 4}I", self._ram, block - RAM)

    def _blocks(self) -> dict[int, int]:
        """Returns address -> bytes of each allocation."""
        state = self._symbol("mp_state_ctx")
        words = struct.unpack_from(f"<{_STATE_WORDS}I", self._ram, state - RAM)
        for at in range(len(words) - 5):
            table, length, _, pool, end = words[at : at + 5]
            if table >= RAM and pool > table and end - pool == length * 4 * BLOCK > 0:
                break
        else:
            raise ValueError("no heap in mp_state_ctx: another MicroPython?")
        sizes: dict[int, int] = {}
        last = 0
        for number in range(length * 4):
            is_ = self._ram[table - RAM + number // 4] >> number % 4 * 2 & 3
            if is_ == _HEAD:
                last = pool + number * BLOCK
                sizes[last] = BLOCK
            elif is_ == _TAIL:
                sizes[last] += BLOCK
        return sizes

    # --- Names ---

    def _read_names(self) -> tuple[dict[int, str], set[int]]:
        """Returns the names that were made at run time, by number, and the blocks they are in."""
        fixed = [self._symbol(name) for name in ("mp_qstr_const_pool", "mp_qstr_frozen_const_pool")]
        pools, before = [self._word(fixed[0]), *fixed], {*fixed}
        while found := [
            block
            for block in self._sizes
            if block not in before and self._word(block) in before and self._is_pool(block)
        ]:
            pools += found
            before = set(found)
        names, used, texts = {}, set(pools), set()
        for pool in pools:
            _, previous, room, count, _, lengths = struct.unpack("<6I", self._bytes(pool, 24))
            self.spare += (room - count) * NAME_BYTES if pool in self._sizes else 0
            for number in range(count):
                text = self._word(pool + 24 + 4 * number)
                texts.add(text)
                data = self._bytes(text, self._bytes(lengths + number, 1)[0])
                names[(previous & 0x7FFFFFFF) + number] = data.decode(errors="replace")
        starts = sorted(self._sizes)
        for text in texts:
            at = bisect.bisect_right(starts, text) - 1
            if at >= 0 and text < starts[at] + self._sizes[starts[at]]:
                used.add(starts[at])
        return names, used

    def _is_pool(self, block: int) -> bool:
        words = self._words(block)
        end = block + self._sizes[block]
        return len(words) > 6 and 0 < words[3] <= words[2] and block < words[4] < words[5] < end

    def _name(self, value: int) -> str:
        return self._names.get(value >> 3, f"#{value >> 3}") if value & 7 == 2 else ""

    # --- Objects ---

    def _dict(self, address: int) -> dict[str, int]:
        """Returns name -> value of a dict object."""
        _, _, size, table = struct.unpack("<4I", self._bytes(address, 16))
        found = {}
        for slot in range(size):
            key, value = struct.unpack("<2I", self._bytes(table + 8 * slot, 8))
            if key and value:
                found[self._name(key)] = value
        return found

    def parts(self) -> dict[tuple[str, str], int]:
        """Returns bytes by (module, kind)."""
        heads = {block: self._word(block) for block in self._sizes}
        for block in self._name_blocks:
            self._own(block, "(names)", "names")
        self._own_definitions(heads)
        self._spread(heads)
        total: dict[tuple[str, str], int] = defaultdict(int)
        for block, size in self._sizes.items():
            owner = self._owner.get(block, "(of the interpreter)")
            total[owner, self._kind.get(block, "other")] += size
        return dict(total)

    def _own_definitions(self, heads: dict[int, int]) -> None:
        """Modules, classes, then functions and instances."""
        titles = {
            block: self._title(block) for block, head in heads.items() if head == self._module
        }
        for block, title in titles.items():
            self._own(block, title, "tables")
        classes = {block for block, head in heads.items() if head == self._class}
        for block in classes:
            self._own(block, self._of_class(block), "classes")
        for block, head in heads.items():
            if self._types.get(head) in _FUNCTIONS:
                context, _, code = self._words(block)[1:4]
                self._own(block, titles.get(context, MAIN), "functions")
                self._own(code, titles.get(context, MAIN), "code")
                self._codes.add(code)
            elif head in classes:
                self._own(block, self._owner[head], "instances")

    def _own(self, block: int, owner: str, kind: str) -> None:
        if block in self._sizes and block not in self._owner:
            self._owner[block], self._kind[block] = owner, kind

    def _title(self, module: int) -> str:
        name = self._dict(self._words(module)[1]).get("__name__", 0)
        return self._text(name)

    def _of_class(self, block: int) -> str:
        for word in self._words(block)[2:]:
            if word in self._sizes and self._types.get(self._word(word)) == "dict":
                return self._text(self._dict(word).get("__module__", 0))
        return MAIN

    def _text(self, value: int) -> str:
        if value & 7 == 2:
            return self._name(value)
        if value in self._sizes and self._types.get(self._word(value)) == "str":
            _, _, length, data = self._words(value)[:4]
            return self._bytes(data, length).decode(errors="replace")
        return MAIN

    def _spread(self, heads: dict[int, int]) -> None:
        """What has no owner gets that of the first that refers to it."""
        order = ("classes", "instances", "functions", "tables", "code")
        known_kinds = {kind: rank for rank, kind in enumerate(order)}
        waiting = deque(sorted(self._owner, key=lambda one: known_kinds.get(self._kind[one], 9)))
        while waiting:
            block = waiting.popleft()
            for found in self._referred(block):
                if found not in self._owner:
                    is_of_c = FLASH <= heads[found] < RAM  # an object of a type that we do not know
                    known = "other" if is_of_c else self._kind[block]
                    known = _TYPES.get(self._types.get(heads[found], ""), known)
                    kind = "classes" if self._kind[block] == "classes" else known
                    self._own(found, self._owner[block], "code" if kind == "functions" else kind)
                    waiting.append(found)

    def _referred(self, block: int) -> Iterator[int]:
        if self._kind[block] != "names" and block not in self._codes:
            yield from (word for word in self._words(block) if word in self._sizes)

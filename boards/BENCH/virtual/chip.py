"""A NOR chip in RAM that can fail in every way of the cut model. Only this module defines what a
power cut, a worn block and a driver's error leave. The hunts and the proof use it.

A cell that an interrupted operation left between 0 and 1 is unstable: each read may return either,
until its block is erased. So a block has two faces, `data` and `other`. The cells in which they
differ are unstable, and `view` decides which of the two a read gets.

Must not know: the outbox and its format. Runs under MicroPython too.
"""

EIO = 5

# How reads see unstable cells: one face, the other, some cells of each, the faces in turn, or any.
VIEWS = ("data", "other", "mixed", "in turn", "any")


class PowerCut(BaseException):
    """What `cut_at` raises. Not an Exception, so that no handler of the firmware can catch it."""


class ChipRuleError(Exception):
    """The firmware tried what the chip cannot do: a fault of the firmware, never of the data."""


class Chip:
    """The block device of the outbox.

    bad: the fault of a block: "deaf" (ignores programs and erases silently), "refusing" (its
    programs and erases raise OSError), "stuck" (a few cells stay 0 permanently), "high" (the cell
    of the block in `cell`, (byte, bit), stays 1: it takes no program).
    on_operation(is_erase, block, offset, data) is called before each program and erase.
    fail_call: the call to the driver, counted from now on, that raises OSError; 0: none.
    fail_way: "before" it did anything, "after" it did everything, or a way of cutting: half done.
    """

    def __init__(self, blocks, unit_bytes=1, block_bytes=4096, data=None):
        self.blocks = blocks
        self.block_bytes = block_bytes
        self.unit_bytes = unit_bytes
        self.erased = b"\xff" * block_bytes
        self.data = list(data) if data else [self.erased] * blocks
        self.other = [None] * blocks
        self.bad = [None] * blocks
        self.cell = {}
        self.view = 0
        self.random = Noise(1)
        self.on_operation = None
        self.fail_call = 0
        self.fail_way = "before"
        self.reads = self.programs = self.erases = self.bytes_programmed = 0
        self.cut_at = 0  # the program or erase, counted from now on, in which the power goes
        self.cut_way = "nothing"

    def copy(self):
        twin = Chip(self.blocks, self.unit_bytes, self.block_bytes, self.data)
        twin.other, twin.bad, twin.cell = self.other[:], self.bad[:], dict(self.cell)
        twin.view = self.view
        return twin

    def is_settled(self):
        """True when no cell is unstable."""
        return all([face is None for face in self.other])

    # The device

    def readblocks(self, block, buf, offset=0):
        self._check(block, offset, len(buf))
        self.reads += 1
        if self._fails(None):
            raise OSError(EIO)
        buf[:] = self.face(block, offset, offset + len(buf))

    def writeblocks(self, block, buf, offset=0):
        self._check(block, offset, len(buf))
        if offset % self.unit_bytes or len(buf) % self.unit_bytes:
            raise ChipRuleError("program of %d bytes at %d" % (len(buf), offset))
        self.programs += 1
        self.bytes_programmed += len(buf)
        self._operate(False, block, offset, bytes(buf))

    def ioctl(self, op, arg):
        if op == 4:
            return self.blocks
        if op == 5:
            return self.block_bytes
        if op == 6:
            self._check(arg, 0, 0)
            self.erases += 1
            self._operate(True, arg, 0, self.erased)
        return 0

    def face(self, block, start=0, end=None):
        """The bytes of a block as they read now."""
        data, other = self.data[block][start:end], self.other[block]
        if other is None or self.view == 0:
            return data
        other = other[start:end]
        if self.view == 1 or data == other:
            return other
        if self.view == 3:
            return other if self.reads & 1 else data
        noise = Noise(block + 1) if self.view == 2 else self.random
        a = _number(data)
        return _bytes(a ^ (a ^ _number(other)) & noise.mask(len(data)), len(data))

    # Operations

    def _operate(self, is_erase, block, offset, data):
        if self.on_operation:
            self.on_operation(is_erase, block, offset, data)
        if not is_erase:
            self._check_program(block, offset, data)
        if self.cut_at:
            self.cut_at -= 1
            if not self.cut_at:
                self.cut(is_erase, block, offset, data, self.cut_way)
                raise PowerCut()
        if self._fails((is_erase, block, offset, data)) or self.bad[block] == "refusing":
            raise OSError(EIO)
        self.perform(is_erase, block, offset, data)

    def _fails(self, operation):
        """True when this call is the one that raises. Does that part of the operation which
        precedes the error."""
        if not self.fail_call:
            return False
        self.fail_call -= 1
        if self.fail_call:
            return False
        if operation and self.fail_way == "after":
            self.perform(*operation)
        elif operation and self.fail_way != "before":
            self.cut(*operation, self.fail_way)
        return True

    def perform(self, is_erase, block, offset, data):
        """Do the whole operation."""
        bad = self.bad[block]
        if bad == "deaf" or bad == "refusing":
            return
        before = self.data[block]
        end = offset + len(data)
        for face in (self.data, self.other):
            old = face[block]
            if old is not None:
                part = data if is_erase else _and(old[offset:end], data)
                face[block] = old[:offset] + part + old[end:]
        if is_erase:
            self.other[block] = None
        if bad == "stuck":
            self.data[block] = _and(self.data[block], self._stuck_cells())
        if bad == "high":
            self._keep_cell(block, before)

    def _keep_cell(self, block, before):
        """The cell of the block that takes no program is as it was, unless it was erased."""
        at, bit = self.cell.get(block, (26, 1))
        data = self.data[block]
        cell = data[at] | before[at] & 1 << bit
        self.data[block] = data[:at] + bytes((cell,)) + data[at + 1 :]

    def _stuck_cells(self):
        return (b"\xff" * 5 + b"\xef" + b"\xff" * 14 + b"\xfe" + b"\xff" * self.block_bytes)[
            : self.block_bytes
        ]

    def cut(self, is_erase, block, offset, data, way):
        """Leave what the operation leaves when the power goes during it, or it fails half done."""
        if self.bad[block] == "deaf" or self.bad[block] == "refusing":
            return
        kind = ERASE_WAYS if is_erase else PROGRAM_WAYS
        end = offset + len(data)
        old = self.data[block]
        part = Cut(old[offset:end], data, is_erase, self.random)
        first, second = kind[way](part)
        other = self.other[block]
        if other is not None:  # what was unstable stays so where nothing changed it
            part = Cut(other[offset:end], data, is_erase, self.random)
            pair = kind[way](part)
            second = pair[0] if pair[1] is None else pair[1]
        elif second is not None:
            other = old
        self.data[block] = old[:offset] + _bytes(first, len(data)) + old[end:]
        if second is not None:
            other = other[:offset] + _bytes(second, len(data)) + other[end:]
            self.other[block] = other if other != self.data[block] else None
        else:
            self.other[block] = None
        if self.bad[block] == "high":
            self._keep_cell(block, old)

    def _check(self, block, offset, length):
        if not 0 <= block < self.blocks or offset < 0 or offset + length > self.block_bytes:
            raise ChipRuleError("outside the chip: block %d offset %d" % (block, offset))

    def _check_program(self, block, offset, data):
        """No byte that is already programmed is programmed again. An unstable cell may read as
        erased; the invariants show what follows from that."""
        if self.bad[block]:
            return
        first, last = _extent(data, False)
        data = data[first:last]
        first, last = offset + first, offset + last
        old = self.data[block][first:last]
        if self.other[block] is not None:
            old = _or(old, self.other[block][first:last])
        if old == self.erased[: len(old)]:
            return
        for new, now in zip(data, old):
            if new != 0xFF and now != 0xFF:
                raise ChipRuleError("a byte of block %d is programmed twice" % block)


class Noise:
    """Bits without a pattern, always the same for one seed."""

    def __init__(self, seed):
        self.seed(seed)

    def seed(self, seed):
        self._state = seed * 7919 + 1

    def below(self, limit):
        self._state = (self._state * 1103515245 + 12345) & 0x3FFFFFFF
        return (self._state >> 12) % limit

    def mask(self, length):
        """Returns a number of `length` random bytes, at most 4,096: a random part of one long
        row."""
        if not _NOISE:
            row = Noise(0)
            _NOISE.append(b"".join([_bytes(row.below(0x10000), 2) for _ in range(0x1800)]))
        at = self.below(0x2000)
        return _number(_NOISE[0][at : at + length])


_NOISE = []  # 12,288 random bytes, made when first needed


class Cut:
    """An operation on `size` bytes: old and target are numbers, byte 0 lowest. Each way of cutting
    returns the two faces that it leaves; None for the second: all cells are stable."""

    def __init__(self, old, data, is_erase, noise):
        self.size = len(data)
        self.old = _number(old)
        self.target = _number(data) if is_erase else self.old & _number(data)
        self.random = noise
        self.first, self.last = _extent(data, is_erase)

    def some(self, done):
        """The cells of `done` have changed, the others have not."""
        return self.old ^ (self.old ^ self.target) & done

    def bytes_to(self, end):
        """Returns a mask of all cells below byte `end`."""
        return (1 << 8 * max(0, end)) - 1

    def part(self, tenths):
        """Returns the place this many tenths into the bytes that change."""
        return self.first + (self.last - self.first) * tenths // 10


def _extent(data, is_erase):
    """Returns where the programmed bytes begin and end: the FF around them in a page change
    nothing."""
    if is_erase:
        return 0, len(data)
    return len(data) - len(data.lstrip(b"\xff")), len(data.rstrip(b"\xff"))


def _prefix(tenths):
    def way(cut):
        return cut.some(cut.bytes_to(cut.part(tenths))), None

    return way


def _suffix(tenths):
    def way(cut):
        return cut.some(~cut.bytes_to(cut.part(tenths))), None

    return way


def _bytes_done(count):
    """A prefix of `count` bytes; negative: all but that many."""

    def way(cut):
        end = cut.first + count if count > 0 else cut.last + count
        return cut.some(cut.bytes_to(end)), None

    return way


def _hole(start, end):
    """All but the bytes from `start` on, up to `end` before the last: the payload is missing, the
    CRC after it is there."""

    def way(cut):
        hole = cut.bytes_to(max(cut.first, cut.last - end)) & ~cut.bytes_to(cut.first + start)
        return cut.some(~hole), None

    return way


def _any_prefix(cut):
    return cut.some(cut.bytes_to(cut.first + cut.random.below(cut.last - cut.first + 1))), None


def _any_hole(cut):
    start = cut.first + cut.random.below(cut.last - cut.first)
    end = start + 1 + cut.random.below(cut.last - start)
    return cut.some(~cut.bytes_to(end) | cut.bytes_to(start)), None


def _random(cut):
    return cut.some(cut.random.mask(cut.size)), None


def _all_but_a_bit(cut):
    """One of the changing cells has not changed."""
    changed = cut.old ^ cut.target
    start = cut.random.below(8 * cut.size)
    above = changed >> start
    if not above:
        above, start = changed, 0
    return cut.target ^ (above & -above) << start, None


def _all_but_cell(tenths):
    """Like _all_but_a_bit(), at a given place."""

    def way(cut):
        changed = cut.old ^ cut.target
        start = 8 * cut.part(tenths)
        above = changed >> start
        if above:
            return cut.target ^ (above & -above) << start, None
        last = changed
        while last & (last - 1):
            last &= last - 1
        return cut.target ^ last, None

    return way


def _extra(cut):
    """All is done, and some cells of the same bytes that should have stayed 1 are 0."""
    noise = cut.random.mask(cut.size) & cut.random.mask(cut.size) & cut.random.mask(cut.size)
    noise &= cut.bytes_to(cut.last) & ~cut.bytes_to(cut.first)
    return cut.target & ~noise, None


def _zeros(cut):
    return 0, None


def _zeros_half(cut):
    return cut.old & ~cut.bytes_to(cut.size // 2), None


def _zeros_random(cut):
    return cut.old & cut.random.mask(cut.size), None


def _zeros_rising(cut):
    """All was zeros, and half of the cells have risen."""
    return cut.random.mask(cut.size), None


def _unstable(cut):
    return cut.old, cut.target


def _unstable_done(cut):
    """First as it should be, later as before."""
    return cut.target, cut.old


def _unstable_half(cut):
    half = cut.bytes_to(cut.part(5))
    return cut.some(half), cut.target


def _unstable_later(cut):
    """Whole at first, later half of it."""
    return cut.target, cut.some(cut.bytes_to(cut.part(5)))


def _unstable_some(cut):
    return cut.some(cut.random.mask(cut.size)), cut.some(cut.random.mask(cut.size))


def _weak_cell(cut):
    """All is done, but one cell later reads as before."""
    changed = cut.old ^ cut.target
    start = cut.random.below(8 * cut.size)
    above = changed >> start
    if not above:
        above, start = changed, 0
    return cut.target, cut.target ^ (above & -above) << start


def _unstable_zeros(cut):
    return cut.old, 0


def _unstable_rising(cut):
    return 0, cut.target


_BOTH = {
    "nothing": lambda cut: (cut.old, None),
    "all": lambda cut: (cut.target, None),
    "first half": _prefix(5),
    "last half": _suffix(5),
    "random": _random,
    "all but a bit": _all_but_a_bit,
    "unstable": _unstable,
    "unstable, done": _unstable_done,
    "unstable, half": _unstable_half,
    "unstable, later": _unstable_later,
    "unstable, some": _unstable_some,
    "a weak cell": _weak_cell,
}
PROGRAM_WAYS = {
    "4 bytes": _bytes_done(4),
    "a header": _bytes_done(32),
    "all but 4 bytes": _bytes_done(-4),
    "all but a byte": _bytes_done(-1),
    "any prefix": _any_prefix,
    "last tenth": _suffix(9),
    "all but the first cell": _all_but_cell(0),
    "all but a middle cell": _all_but_cell(5),
    "all but the last cell": _all_but_cell(10),
    "hole": _hole(12, 8),
    "long hole": _hole(4, 4),
    "hole after a header": _hole(44, 8),
    "any hole": _any_hole,
    "extra bits": _extra,
}
ERASE_WAYS = {
    "zeros": _zeros,
    "zeros in half": _zeros_half,
    "zeros, random": _zeros_random,
    "zeros, rising": _zeros_rising,
    "unstable zeros": _unstable_zeros,
    "unstable, rising": _unstable_rising,
}
PROGRAM_WAYS.update(_BOTH)
ERASE_WAYS.update(_BOTH)


def _number(data):
    return int.from_bytes(data, "little")


def _bytes(number, length):
    return (number & (1 << 8 * length) - 1).to_bytes(length, "little")


def _and(a, b):
    return _bytes(_number(a) & _number(b), len(a))


def _or(a, b):
    return _bytes(_number(a) | _number(b), len(a))

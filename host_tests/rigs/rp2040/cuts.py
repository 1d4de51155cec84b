"""Power cuts at flash operations of the running main.py, one after another on the same board.

Each turn starts the board from the flash as the last cut left it, chooses an operation with a
seeded random generator (any, an erase, one of the file system; before it, in it or after it), cuts
the power there, and checks:

- it starts: the loop runs, within START_S of the chip's time;
- the file system is whole, and the installed files are unchanged;
- a message that was whole in the outbox before the operation arrives, maybe repeatedly, with the
  same contents and in order; nothing arrives that was never programmed.

Three kinds of turn: the loop (outbox), a crash (crash.txt in the file system), a first start
(pinning).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from rp2040 import littlefs, outbox
from rp2040.board import Board
from rp2040.flash import Cut, Operation, PowerCut
from rp2040.memory_link import MemoryLink
from rp2040.mqtt_peer import Collector, Moods, Violation
from rp2040.uart_link import CRASH, Network

START_S = 30
TURN_S = 4
DRAIN_S = 120
MOODS = (
    Moods(),
    Moods(),
    Moods(),
    Moods(no_confirmation=1.0),
    Moods(no_puback=0.3, no_confirmation=0.5),
    Moods(close=0.15),
)
LOG_BYTES = 400_000  # of recently programmed data, in which to look for a message


@dataclass
class Score:
    cuts: int = 0
    starts: int = 0
    promised: int = 0
    arrived: int = 0
    repeated: int = 0
    by_place: dict[str, int] = field(default_factory=dict)

    def add(self, other: Score) -> None:
        for name in ("cuts", "starts", "promised", "arrived", "repeated"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for place, count in other.by_place.items():
            self.by_place[place] = self.by_place.get(place, 0) + count


class Trap:
    """Cuts the power at the count-th operation that fits; keeps the flash as it was before."""

    def __init__(
        self, board: Board, rng: random.Random, pinned: list[int], kind: str, count: int
    ) -> None:
        self._flash, self._rng = board.chip.flash, rng
        start = littlefs.start_of(board.image)
        self._pinned = {start + number * 4096 for number in pinned}
        self._kind, self._left = kind, count
        self.is_armed = True
        self.before = b""
        self.place = ""
        self.programmed = bytearray()
        self._flash.on_operation = self._look

    def _look(self, operation: Operation) -> None:
        in_outbox = operation.address & ~4095 in self._pinned
        if in_outbox:
            self.programmed += operation.data
        fits = self._kind in ("any", operation.kind, "outbox" if in_outbox else "files")
        self._left -= self.is_armed and fits
        if self.is_armed and fits and not self._left:
            self.before = bytes(self._flash.image)
            how, done = self._how_far(operation.length)
            self.place = f"{'outbox' if in_outbox else 'files'} {operation.kind} {how}"
            self._flash.cut = Cut(operation.number, done, self._rng.getrandbits(8))

    def _how_far(self, length: int) -> tuple[str, int | None]:
        choice = self._rng.random()
        if choice < 0.2:
            return "before", 0
        return ("after", None) if choice < 0.4 else ("inside", self._rng.randrange(length))


class Chain:
    """image: a board that was started once. installed: the files that must not change."""

    def __init__(self, image: bytes, installed: dict[str, bytes], fresh: bytes, seed: int) -> None:
        self.seed = seed
        self._image, self._installed, self._fresh = image, installed, fresh
        self._rng = random.Random(seed)
        self._pinned = outbox.blocks(image)
        self._collector = Collector(random.Random(seed))
        self._promised: dict[tuple[str, int], bytes] = {}
        self._log = bytearray()
        self._seen = 0
        self.score = Score()
        self._note(image)

    # --- turns -----------------------------------------------------------------------------------

    def turn(self) -> None:
        """Do one power cut of a random kind. Raises Violation."""
        choice = self._rng.random()
        if choice < 0.2:
            self._first_start()
        else:
            self._running(is_crash=choice < 0.4)

    def _running(self, is_crash: bool) -> None:
        network = Network(broker=self._rng.random() > 0.1)
        self._collector.moods = self._rng.choice(MOODS)
        board = self._power_on(self._image, self._collector, network)
        kind = "files" if is_crash else self._rng.choice(("any", "any", "outbox", "erase"))
        trap = Trap(
            board, self._rng, self._pinned, kind, self._rng.randrange(1, 7 if is_crash else 16)
        )
        is_cut = self._until_cut(board, trap, lambda: self._work(board, is_crash))
        if is_cut:
            self._count(trap.place)
        self._image = board.image
        self._note(trap.before or board.image)
        self._log += trap.programmed
        self._check_arrived()
        self._check_files(self._image)

    def _work(self, board: Board, is_crash: bool) -> None:
        if not board.run_for(START_S, lambda: board.feeds > 0):
            raise Violation(
                f"main.py does not run {START_S} s after power on:\n{board.text[-1500:]}"
            )
        board.run_for(self._rng.random() * 2)
        if is_crash:
            board.link.provoke(CRASH, self._rng.getrandbits(8))
        board.run_for(TURN_S)

    def _first_start(self) -> None:
        """Cut pinning once or twice, and then let it finish."""
        image = self._fresh
        for _ in range(self._rng.choice((1, 1, 2))):
            board = self._power_on(image, Collector(random.Random(1)), Network())
            trap = Trap(board, self._rng, [], "any", self._rng.randrange(1, 330))
            if self._until_cut(
                board, trap, lambda board=board: board.run_for(START_S, lambda: board.feeds > 400)
            ):
                self._count("pinning " + trap.place.partition(" ")[2])
            image = board.image
            self._check_files(image, has_outbox=False)
        collector = Collector(random.Random(1))
        board = self._power_on(image, collector, Network())
        if not board.run_for(2 * START_S, lambda: bool(collector.messages)):
            raise Violation(f"nothing arrives after a cut first start:\n{board.text[-1500:]}")
        self._check_files(board.image)

    def finish(self) -> None:
        """Check that all that was promised arrives."""
        self._collector.moods = Moods()
        board = self._power_on(self._image, self._collector, Network())
        trap = Trap(board, self._rng, self._pinned, "none", 1)
        board.run_for(DRAIN_S, lambda: not self._missing())
        self._log += trap.programmed
        self._note(board.image)
        self._check_arrived()
        board.run_for(DRAIN_S, lambda: not self._missing())
        if missing := self._missing():
            raise Violation(f"promised and never delivered: {missing[:5]}, {len(missing)} in all")
        self.score.promised = len(self._promised)
        self.score.arrived = sum(len(kept) for kept in self._collector.messages.values())
        self.score.repeated = self._collector.repeated

    # --- parts of them ---------------------------------------------------------------------------

    def _power_on(self, image: bytes, collector: Collector, network: Network) -> Board:
        self.score.starts += 1
        return Board(image, network, seed=self._rng.getrandbits(30), link=MemoryLink.to(collector))

    def _until_cut(self, board: Board, trap: Trap, work) -> bool:
        try:
            work()
        except PowerCut:
            return True
        finally:
            board.close()
            trap.is_armed = False
        return False

    def _count(self, place: str) -> None:
        self.score.cuts += 1
        self.score.by_place[place] = self.score.by_place.get(place, 0) + 1

    # --- what is held ----------------------------------------------------------------------------

    def _note(self, flash: bytes) -> None:
        """Promise each message that is whole in the outbox."""
        found = outbox.read(flash, self._pinned)
        for message in found.held:
            key, payload = (found.stream, message.seq), bytes(message.record.payload)
            if self._promised.setdefault(key, payload) != payload:
                raise Violation(f"number {key} stands for two messages")

    def _missing(self) -> list[tuple[str, int]]:
        kept = self._collector.messages
        return [key for key in self._promised if key[1] >= len(kept.get(key[0], ()))]

    def _check_arrived(self) -> None:
        for (stream, number), payload in self._promised.items():
            kept = self._collector.messages.get(stream, [])
            if number < len(kept) and kept[number] != payload:
                raise Violation(
                    f"{stream} {number} arrived with other contents than it was stored with"
                )
        arrived = [payload for kept in self._collector.messages.values() for payload in kept]
        known = {*self._promised.values()}
        for payload in arrived[self._seen :]:
            if payload not in known and payload not in self._log:
                raise Violation(f"never stored: {payload!r}")
        self._seen = len(arrived)
        del self._log[:-LOG_BYTES]

    def _check_files(self, flash: bytes, has_outbox: bool = True) -> None:
        try:
            found = littlefs.read(flash)
        except littlefs.Damaged as error:
            raise Violation(f"the file system is damaged: {error}") from None
        for path, data in self._installed.items():
            if found.get(path) != data:
                raise Violation(f"{path} is not what was installed")
        if has_outbox and outbox.MAP not in found:
            raise Violation(f"{outbox.MAP} is gone")

#!/usr/bin/env python3
"""Checks the law of progress (`firmware/outpost/suspects.py`) in virtual time: each verdict on each
of four messages, four good ones beside them, at every level and over every store.

    python host_tests/prove/prove_progress.py              every mixture: what `make prove` runs
    python host_tests/prove/prove_progress.py --short      one of 997 mixtures: what CI runs
    python host_tests/prove/prove_progress.py --level 5 --store collector
    python host_tests/prove/prove_progress.py --networks   bad networks: nothing may be set aside

A run is blocked when a good message was not acknowledged within the bound of connections, or
within LONGEST_S of virtual time. Status 1: a run was blocked, a bad network had a message set
aside, or a good one was lost.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import outbox_real
from progress_world import COLLECTOR, RAM, STORES, Setting, Verdict, World

GOOD = 4
JUDGED = 4
LONGEST_S = 6 * 3600
MORE = 100  # messages that follow, one a minute; and the number of each
SHOWN = 3  # of the blocked runs of a setting
# Reason codes that a server may send (MQTT 5.0: 3.14.2.1, 3.4.2.1)
DISCONNECTS = (
    0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96,
    0x97, 0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2,
)  # fmt: skip
REFUSALS = (0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)
PLAIN = ("accept", "close", "reset", "garbage", "silence", "hang")
LEVEL_5 = (*PLAIN, "disconnect", "refuse")
SETTINGS = (
    {},
    {"window": 1},
    {"rtt_ms": 150, "order": "mixed"},
    {"interval_ms": 20_000, "order": "mixed"},
    {"idle_ends": 3},
    {"idle_ends": 2, "interval_ms": 60_000, "rtt_ms": 150},
    {"window": 1, "interval_ms": 5_000, "order": "mixed"},
    {"window": 2, "idle_ends": 3, "order": "mixed", "rtt_ms": 150},
)


def bound(setting: Setting, kinds: tuple[Verdict, ...]) -> int:
    """Connections within which each good message is acknowledged."""
    rejected = sum(not verdict.takes for verdict in kinds)
    passed_over = sum(verdict.kind.startswith("pass over") for verdict in kinds)
    return 5 * rejected + 5 + 6 * passed_over + setting.idle_ends


@dataclass
class Tally:
    """Of one level and store."""

    runs: int = 0
    blocked: int = 0
    most: int = 0  # connections that the slowest good message took
    nearest: float = 0  # of the bound
    shown: list[str] = field(default_factory=list)  # runs that were blocked, in words

    def add(self, other: Tally) -> None:
        self.runs += other.runs
        self.blocked += other.blocked
        self.most = max(self.most, other.most)
        self.nearest = max(self.nearest, other.nearest)
        self.shown += other.shown


def mixtures(setting: Setting, every: int, seed: int = 0) -> Iterator[tuple[Verdict, ...]]:
    """Every mixture of verdicts; each code has its turn."""
    kinds = LEVEL_5 if setting.level == 5 else PLAIN
    if setting.store == COLLECTOR:
        kinds = (*kinds, "pass over", "pass over and close")
    count = seed
    for place, chosen in enumerate(itertools.product(kinds, repeat=JUDGED)):
        if (place + seed) % every:
            continue
        found = []
        for kind in chosen:
            codes = {"disconnect": DISCONNECTS, "refuse": REFUSALS}.get(kind, (0,))
            found.append(Verdict(kind, codes[count % len(codes)]))
            count += 1
        yield tuple(found)


def order_of(setting: Setting) -> list[int]:
    """The numbers in the order of their publishing: 0 to 3 are judged, 4 to 7 good."""
    judged, good = range(JUDGED), range(JUDGED, JUDGED + GOOD)
    if setting.order == "first":
        return [*judged, *good]
    return [number for pair in zip(judged, good, strict=True) for number in pair]


def run(setting: Setting, verdicts: tuple[Verdict, ...]) -> tuple[World, bool]:
    """Returns the world, and whether every message that the server takes was acknowledged."""
    world = World(setting, dict(enumerate(verdicts)))
    world.run(300, lambda: not world._idle_ends)
    wanted = {number for number in order_of(setting) if world.verdicts.get(number, GOODS).takes}
    most = bound(setting, verdicts)

    def is_taken() -> bool:
        return wanted <= world.taken.keys() or world.connects > 4 * most + 20

    waiting = order_of(setting)
    while waiting and world.connects <= 4 * most + 20:
        world.publish(waiting.pop(0))
        if setting.interval_ms:
            world.run(setting.interval_ms / 1000, lambda: False)
    world.run(LONGEST_S, is_taken)
    is_done = wanted <= world.taken.keys()
    return world, is_done and (setting.store != COLLECTOR or is_released(world))


def is_released(world: World) -> bool:
    """Collector mode: while the board goes on, each message is confirmed, or set aside."""
    end, connects = world.outbox.next_seq, world.connects
    for _ in range(MORE):
        if world.outbox.oldest_seq >= end:
            return True
        world.publish(MORE)
        world.run(60, lambda: world.outbox.oldest_seq >= end)
        if world.connects - connects > 60:
            break
    return world.outbox.oldest_seq >= end


GOODS = Verdict()


def explore_setting(level: int, store: str, place: int, every: int, seed: int) -> Tally:
    """place: of the setting."""
    tally, setting = Tally(), Setting(level=level, store=store, **SETTINGS[place])
    for verdicts in mixtures(setting, every, seed + place * 13):
        world, is_done = run(setting, verdicts)
        taken = [at - world.published[n] for n, at in world.taken.items() if n < MORE]
        last = max(taken, default=0)
        most = bound(setting, verdicts)
        tally.runs += 1
        tally.most = max(tally.most, last)
        tally.nearest = max(tally.nearest, last / most)
        if not is_done or last > most:
            tally.blocked += 1
            tally.shown.append(
                f"  blocked: {setting}: {', '.join(map(str, verdicts))}: "
                f"{len(world.taken)} taken, connection {last} of {most} "
                f"({world.connects} made)"
            )
    del tally.shown[SHOWN:]
    return tally


def explore(pool: Executor, level: int, store: str, every: int, seed: int) -> Tally:
    one = functools.partial(explore_setting, level, store, every=every, seed=seed)
    tally = Tally()
    for found in pool.map(one, range(len(SETTINGS))):
        tally.add(found)
    return tally


def quicken() -> None:
    """Give the firmware the proof's checksum and search (PROOF.md), and keep its modules."""
    ours = [module for name, module in sys.modules.items() if name.startswith("outpost.")]
    for module in ours:
        for name in ("crc30", "is_blank", "unload"):
            if hasattr(module, name):
                setattr(module, name, getattr(outbox_real, name))


HEAD = f"{'level':>5}  {'store':<10} {'runs':>7} {'blocked':>8} {'connections':>12} {'of bound':>9}"


# --- Bad networks: nothing may be set aside ---

BAD_S = 7200  # for so long, with a message every ten seconds; then all is well
MOST_HELD = 12


def _reset(world: World) -> None:
    world.path.say(OSError(104))


def ends_at(age_ms: int) -> Callable[[World], None]:
    def network(world: World) -> None:
        if world.age_ms() >= age_ms:
            _reset(world)

    return network


def ends_by_chance(most_ms: int) -> Callable[[World], None]:
    """Each connection has another age."""

    def network(world: World) -> None:
        if world.age_ms() > 0 and not world.chance(max(most_ms // 100, 2)):
            _reset(world)

    return network


def half_open(world: World) -> None:
    """From some age on nothing arrives any more, and no end either."""
    if world.age_ms() >= 5000:
        world.path.is_hung = True


def hangs_by_chance(world: World) -> None:
    if world.age_ms() > 0 and not world.chance(60):
        world.path.is_hung = True


def ends_while_a_message_is_out(world: World) -> None:
    """Half of the time."""
    if world.age_ms() > 0 and world.client.session.next_send != world.client.session.base:
        if world.chance(2):
            _reset(world)


def other_client(world: World) -> None:
    """Another client with this identifier takes it back after 400 ms."""
    if world.age_ms() >= 400:
        world.path.say(None)


def mute(world: World) -> None:
    """The server answers pings alone."""
    world.is_mute = True


def deaf(world: World) -> None:
    """Nothing is answered at all."""
    if world.path:
        world.path.is_hung = True


NETWORKS: dict[str, Callable[[World], None]] = {
    "each connection ends after 0.3 s": ends_at(300),
    "each connection ends after 2 s": ends_at(2000),
    "each connection ends after 30 s": ends_at(30_000),
    "ends by chance, 5 s": ends_by_chance(5000),
    "ends by chance, 60 s": ends_by_chance(60_000),
    "half open after 5 s": half_open,
    "hangs by chance": hangs_by_chance,
    "every second message ends in a reset": ends_while_a_message_is_out,
    "another client with this id": other_client,
    "answers pings alone": mute,
    "answers nothing": deaf,
}


def bad_network(setting: Setting, network: Callable[[World], None]) -> tuple[int, int, int]:
    """Returns (messages set aside, good ones that never arrived, good ones)."""
    world = World(setting, network=network)
    number, aside = 0, 0
    for _ in range(BAD_S // 10):
        if world.outbox.next_seq - world.outbox.oldest_seq < MOST_HELD and world.publish(number):
            number = (number + 1) % 250
        world.run(10, lambda: False)
        aside = max(aside, world.outbox.aside)
    world.network, world.is_mute = None, False
    if world.path:
        world.path.is_hung = False
    world.run(1800, world.client.is_drained)
    held = world.outbox.next_seq - world.outbox.oldest_seq
    return aside, held, world.outbox.next_seq


def networks(levels: tuple[int, ...], stores: tuple[str, ...]) -> bool:
    """True when nothing was set aside, and everything arrived in the end."""
    is_well = True
    print(f"{'aside':>6} {'held':>6} {'messages':>9}  network")
    for name, network in NETWORKS.items():
        found = [0, 0, 0]
        for level, store, rtt_ms in itertools.product(levels, stores, (20, 300, 900)):
            one = bad_network(Setting(level=level, store=store, rtt_ms=rtt_ms), network)
            found = [total + more for total, more in zip(found, one, strict=True)]
        print(f"{found[0]:6} {found[1]:6} {found[2]:9,}  {name}", flush=True)
        is_well = is_well and not found[0] and not found[1]
    return is_well


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--short", action="store_true", help="what CI runs")
    parser.add_argument("--every", type=int, default=1, help="one of so many mixtures")
    parser.add_argument("--seed", type=int, default=0, help="which of them")
    parser.add_argument("--level", type=int, choices=(3, 4, 5), help="this level only")
    parser.add_argument("--store", choices=STORES, help="this store only")
    parser.add_argument("--processes", type=int, help="at once (all processors)")
    parser.add_argument("--networks", action="store_true", help="bad networks only")
    options = parser.parse_args(words)
    every = 997 if options.short else options.every
    levels = (options.level,) if options.level else (3, 4, 5)
    stores = (options.store,) if options.store else STORES
    begun = time.monotonic()
    quicken()
    failed = not networks((4, 5), (RAM,) if options.short else stores)
    if options.networks:
        return int(failed)
    print(HEAD)
    with ProcessPoolExecutor(options.processes) as pool:
        for level, store in itertools.product(levels, stores):
            tally = explore(pool, level, store, every, options.seed)
            failed = failed or tally.blocked > 0 or not tally.runs
            print(
                f"{level:5}  {store:<10} {tally.runs:7,} {tally.blocked:8,} {tally.most:12} "
                f"{tally.nearest:9.2f}",
                flush=True,
            )
            print(*tally.shown, sep="\n", end="\n" * bool(tally.shown), file=sys.stderr)
    print(f"{time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Commands across power cuts and killed brokers, in virtual time: each done once and answered once.

    hunt_commands.py [--commands 1000] [--boards 20] [--seed 1]

Runs firmware/main.py under CPython with a flash that obeys NOR rules and the board's files; half of
the boards sleep. The power goes at a random change of a file or operation of flash. A killed broker
loses its session and all that it had not delivered, and the sender repeats what is unanswered.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import paths

sys.path.extend(path for path in paths.ALL if path not in sys.path)

from commanded_world import Server, World
from nor_flash import CUT_MODES

_MOST_LIVES = 40
_BATCH = 5
_TAKEN_BACK = 2


@dataclass
class Account:
    """The results of a hunt."""

    commands: int = 0
    lives: int = 0
    cuts: int = 0
    kills: int = 0
    told_again: int = 0
    taken_back: int = 0

    def __str__(self) -> str:
        return (
            f"{self.commands} commands: each done once and answered once; {self.lives} starts, "
            f"{self.cuts} power cuts, {self.kills} killed brokers, {self.taken_back} settings "
            f"taken back, {self.told_again} asked for again"
        )


def _command(rng: random.Random, name: str, number: int) -> tuple[dict, int]:
    """Returns a command, and the result that it must have."""
    kind = rng.choice(["report", "restart", "interval", "set", "cut off", "wrong"])
    settings = {
        "interval": {"interval_ms": 10_000 + number},
        "set": {"keep_alive_s": 30 + number},
        "cut off": {"broker_host": "bad"},
        "wrong": {"interval_ms": -1},
    }.get(kind)
    if settings is None:
        return {"id": name, "do": kind}, 0
    made = {"id": name, "do": "set", "settings": settings, "within_s": 30}
    return made, {"cut off": _TAKEN_BACK, "wrong": 1}.get(kind, 0)


def _forget(server: Server) -> None:
    server.offers.clear()
    server.has_session = False


class Hunt:
    """One board, and its commands in batches, as a sender sends them."""

    def __init__(self, folder: Path, rng: random.Random, *, is_asleep: bool) -> None:
        self.world = World(folder, deep_sleep=is_asleep)
        self.world.quiet_ms = 45_000
        self._rng = rng
        self._wanted = {"interval_ms": 60_000, "keep_alive_s": None}
        self.world.live()

    def play(self, first: int, count: int, account: Account) -> None:
        made = [_command(self._rng, f"c-{first + n}", first + n) for n in range(count)]
        server = self.world.server
        server.on_kill = _forget
        for command, _ in made:
            server.send(command)
            if self._rng.random() < 0.1:
                server.send(command)  # an impatient sender
        for life in range(_MOST_LIVES):
            self._risk(is_safe=life > _MOST_LIVES // 2)
            self.world.live()
            missing = [one for one, _ in made if one["id"] not in self.world.answers()]
            if not missing and not server.offers and self.world.ends[-1] != "cut":
                break
            offered = [offer[0] for offer in server.offers]
            for command in missing:
                if not any(f'"{command["id"]}"'.encode() in data for data in offered):
                    server.send(command)
        account.commands += count
        account.taken_back += self._check(made)

    def _risk(self, *, is_safe: bool) -> None:
        world, rng = self.world, self._rng
        world.file_cut = world.flash.cut_at = world.server.kill_in = 0
        world.file_operations = 0
        if is_safe:
            return
        chance = rng.random()
        if chance < 0.35:
            world.file_cut = rng.randrange(1, 12)
        elif chance < 0.65:
            world.flash.cut_at = world.flash.operations + rng.randrange(1, 8)
            world.flash.cut_mode = rng.choice(CUT_MODES)
        elif chance < 0.85:
            world.server.kill_in = rng.randrange(1, 10)

    def _check(self, made: list[tuple[dict, int]]) -> int:
        """Returns how many settings were taken back."""
        world, taken_back = self.world, 0
        answers, interrupted = world.answers(), world.interrupted()
        for command, result in made:
            found = answers.get(command["id"], [])
            assert len(found) == 1, (command, found, world.ends)
            self._check_starts(command, result, found[0], interrupted)
            taken_back += found[0][0] == _TAKEN_BACK
            if found[0][0] == 0 and command["do"] == "set":
                self._wanted.update(command["settings"])
        settings = world.settings()
        assert settings["broker_host"] == "good"
        assert settings["interval_ms"] == self._wanted["interval_ms"], (settings, self._wanted)
        assert settings.get("keep_alive_s") == self._wanted["keep_alive_s"]
        return taken_back

    def _check_starts(self, command: dict, result: int, answer: tuple, interrupted: dict) -> None:
        """The result must be the expected one, and so must the starts that led to it."""
        name, (found, _, why) = command["id"], answer
        on_trial = interrupted.get(("trial", name), [])
        if result != 1 and set(command.get("settings", {})) - {"interval_ms"}:
            assert on_trial, (command, "kept without a trial")
        if on_trial and "in 3 starts" in why:  # cuts can end the trial of any settings
            assert found == _TAKEN_BACK and len(on_trial) > 3, (answer, on_trial)
            return
        assert found == result, (command, answer)
        if command["do"] == "restart":
            assert ("restart", name) in interrupted, (command, "answered without a restart")
        if found == _TAKEN_BACK:
            assert ("failed", name) in interrupted, (command, "the old settings did not start")


def hunt(commands: int, boards: int, seed: int) -> Account:
    account = Account()
    with tempfile.TemporaryDirectory() as folder:
        for board in range(boards):
            own = Path(folder) / str(board)
            own.mkdir()
            one = Hunt(own, random.Random(f"{seed}/{board}"), is_asleep=board % 2 == 1)
            for first in range(0, commands // boards, _BATCH):
                one.play(first, min(_BATCH, commands // boards - first), account)
            account.lives += one.world.starts
            account.cuts += one.world.ends.count("cut")
            account.kills += one.world.server.kills
            account.told_again += len(one.world.server.told)
    return account


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commands", type=int, default=1000)
    parser.add_argument("--boards", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(hunt(args.commands, args.boards, args.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())

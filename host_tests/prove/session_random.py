"""Long random histories, which reach what no fixpoint does. Up to 20 messages at a time, 4 of the
server's, over the outbox in tuples and over the firmware's on a chip, in both levels.

    python host_tests/prove/prove_session.py --random 100 --seed 7

History n of seed s is the same on every machine, and is printed when it fails.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from session_explorer import go_on
from session_facts import Violation
from session_firmware import classes
from session_scopes import Scope
from session_world import Disabled, PowerCut, World

ACTIONS = 2000
_WIDE = Scope("wide", held=20, inbound=4, fine=True)
SCOPES = (
    _WIDE,
    replace(_WIDE, level=3, first_seq=65_500),
    replace(_WIDE, chip=True, forgets=False),
    replace(_WIDE, at_release=True, window=3, first_seq=131_000),
    replace(_WIDE, session="SubscribingSession", qos=(1,), inbound_qos=(1,)),
)
_WEIGHTS = {"tick": 8, "step": 4, "publish": 2, "ack": 6, "message": 6, "lose": 0.2, "forget": 0.1}
_RARE = 0.3  # for actions that end a connection


def weight(action: tuple) -> float:
    return _WEIGHTS.get(action[0], _RARE)


def history(scope: Scope, firmware: dict[str, Any], chance: random.Random) -> list[tuple]:
    """Raises Violation, with the actions that led to it as its second argument."""
    world, done = World(scope, firmware), []
    try:
        for _ in range(ACTIONS):
            possible = world.actions()
            action = chance.choices(possible, [weight(one) for one in possible])[0]
            at = chance.randrange(1, 4) if chance.random() < 0.05 else 0
            done.append((*action, at))
            step(world, action, at, chance.choice(world.store.MODES))
        world.store.arm(0, "")
        go_on(world, [])
        if scope.qos == (1, 2):
            go_on(world, [1 + n % 2 for n in range(40)])
    except Violation as violation:
        raise Violation(str(violation), done) from violation
    return done


def step(world: World, action: tuple, at: int, mode: str) -> None:
    world.store.arm(at, mode)
    try:
        world.perform(action)
    except Disabled:
        pass
    except PowerCut:
        world.lose_power()
        world.power_on()


def hunt(count: int, seed: int) -> int:
    firmware, actions = classes(), 0
    for number in range(count):
        scope = SCOPES[number % len(SCOPES)]
        try:
            actions += len(history(scope, firmware, random.Random(f"{seed} {number}")))
        except Violation as violation:
            text, done = violation.args
            print(f"FAIL history {number} of seed {seed}, {scope}: {text}")
            print("\n".join(f"     {action}" for action in done[-60:]))
            return 1
    print(f"{count:,} histories of seed {seed}, {actions:,} actions: all is well")
    return 0

"""The same bytes from the server in different segments: the application must see the same, and the
counters must agree.
"""

from __future__ import annotations

from typing import Any

from fuzz_facts import require
from fuzz_firmware import Firmware
from fuzz_program import Program, program_of
from fuzz_world import World

_MODES = ("subscriber", "streamer", "exactly_once")
_MOST = 300  # bytes
# Connected, two messages in flight and no more to come, a request unanswered: no packet of the
# client depends on the segments.
_BEFORE = program_of("hello=2 pub=1 pub=1 sub=1 poll=6")
_COUNTERS = ("received", "ignored", "skipped", "acknowledged", "handler_errors", "state", "base")


def run_segments(firmware: Firmware, program: Program) -> None:
    """Run one mode, by the number after `start`."""
    mode = _MODES[program[0][1] % len(_MODES) if program else 0]
    segments = [data for word, _, data in program if word == "say"]
    whole = b"".join(segments)[:_MOST]
    expected = _seen(firmware, mode, [whole])
    for cut in (segments, [whole[at : at + 1] for at in range(len(whole))]):
        found = _seen(firmware, mode, cut)
        require(found == expected, "%s, in pieces %r, in one %r", mode, found, expected)


def _seen(firmware: Firmware, mode: str, segments: list[bytes]) -> Any:
    world = World(firmware, mode, [])
    for word, number, data in _BEFORE:
        world.do(word, number, data)
    left = _MOST
    for segment in segments:
        if world.stream:
            world.stream.incoming += segment[:left]
        left -= len(segment[:left])
        world.rest()
    pieces = b"".join(entry[1] for entry in world.log if entry[0] == "piece")
    counters = [getattr(world.session, name) for name in _COUNTERS] + [world.client.last_error]
    return [entry for entry in world.log if entry[0] != "piece"], pieces, counters

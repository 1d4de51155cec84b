# cpython-only: tests a desktop tool
"""Whether this machine's clock can be trusted, by kernel, boards and log."""

import pytest

from outpost_tools.machine import machine_clock
from outpost_tools.machine.machine_clock import MachineClock

TRUE_S, DAY_S = 1_795_000_000.0, 86_400


class World:
    """The machine's clock is `behind_s` behind the true time."""

    def __init__(self, behind_s=0.0, kernel=None, newest_s=0.0, far_s=DAY_S):
        self.since_s, self.behind_s, self.kernel = 0.0, behind_s, kernel
        self.clock = MachineClock(
            far_s, 60, newest_s=newest_s, now=lambda: TRUE_S + self.since_s - self.behind_s,
            steady=lambda: 77 + self.since_s, kernel=lambda: self.kernel,
        )  # fmt: skip

    def hear(self, *boards, old_s=0.0, each_s=1.0):
        for board in boards:
            self.since_s += each_s
            self.clock.take(board, TRUE_S + self.since_s - old_s)
        return self.clock

    def wait(self, seconds):
        self.since_s += seconds
        self.clock.look()


@pytest.mark.parametrize("kernel", [True, False, None])
@pytest.mark.parametrize("days", [60, -2000])
def test_two_boards_that_agree_outweigh_the_kernel(kernel, days):
    world = World(days * DAY_S, kernel)
    for _ in range(10):
        world.hear("a", "b")
    assert world.clock.is_wrong and f"{abs(days)} days" in world.clock.reason
    assert ("behind" in world.clock.reason) == (days > 0)
    world.behind_s = 0.0  # NTP comes
    world.wait(1.0)
    assert world.clock.reason is None and not world.clock.is_wrong
    assert round(world.clock.set_by_s) == days * DAY_S


def test_one_board_decides_only_where_the_kernel_does_not_vouch_for_the_clock():
    for kernel, is_wrong, is_unset in ((True, False, False), (False, True, True)):
        clock = World(60 * DAY_S, kernel).hear("a")
        assert (clock.is_wrong, clock.reason is not None) == (is_wrong, is_unset)
    assert World(0, False).clock.reason.endswith("no board has confirmed it")
    assert World(0, False).hear("a").reason is None
    assert World(0, None).clock.reason is None


def test_a_fast_clock_that_nobody_synchronises_is_unknown_until_a_board_keeps_its_distance():
    world = World(-2000 * DAY_S, False)
    assert world.hear("a").reason and not world.clock.is_wrong


def test_boards_that_send_their_outboxes_are_no_evidence():
    """All were cut off at the same time, and send a reading a minute, ten times as fast."""
    world = World(0, True)
    for step in range(60):
        world.hear("a", "b", "c", old_s=3 * DAY_S - 60 * step)
    assert world.clock.reason is None


def test_a_board_with_a_wrong_clock_does_not_outvote_the_others():
    world = World(0, False)
    world.hear("a", "b", "c")
    for _ in range(10):
        world.hear("wrong-1", "wrong-2", old_s=-60 * DAY_S)
        assert world.clock.reason is None


def test_a_log_with_later_arrivals_shows_that_the_clock_is_behind():
    world = World(60 * DAY_S, False, newest_s=TRUE_S - DAY_S)
    assert world.clock.is_wrong and "behind its own log" in world.clock.reason
    assert World(60 * DAY_S, True, newest_s=TRUE_S).clock.reason is None  # the log was wrong then


def test_what_boards_said_is_forgotten_after_an_hour():
    world = World(60 * DAY_S, True)
    assert world.hear("a", "b").is_wrong
    world.wait(7200)
    assert not world.clock.is_wrong


def test_the_boards_remembered_are_bounded():
    world = World(0, True)
    for number in range(machine_clock.MOST_BOARDS + 10):
        world.hear(f"b{number}", each_s=0.001)
    assert len(world.clock._boards) == machine_clock.MOST_BOARDS


def test_this_kernel_can_be_asked():
    assert machine_clock.kernel_says() in (True, False, None)

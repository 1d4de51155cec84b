"""A sensor that never comes back, over the resets of the watchdog and the starts of deep sleep."""

import gc
import sys
import unittest

import micropython

from station.guard import FAULTS, guarded
from station.hung import Hung

HUNG = FAULTS.index("hung")
IS_MICROPYTHON = sys.implementation.name == "micropython"


class Watchdog(BaseException):
    """The reset that ends a reading."""


class Board:
    """What a board keeps over a reset and a sleep."""

    def __init__(self):
        self.number = self.hung = 0

    def sensor_note(self, number=None):
        if number is not None:
            self.number = number
        return self.number

    def hung_note(self, value=None):
        if value is not None:
            self.hung = value
        return self.hung


class Sensor:
    """One of a driver file. starts: those in which it was read."""

    readings, settle_ms = (("", "Cel", -1, -400, 850),), 0

    def __init__(self, name):
        self.name, self.hangs, self.starts, self.world = name, False, [], None

    def open(self):
        return self

    def read(self):
        self.starts.append(self.world.start)
        if self.hangs:
            raise Watchdog()
        return 215


class World:
    """A board in deep sleep: each start reads each sensor once."""

    def __init__(self, *sensors, keeps=True):
        self.board, self.sensors = Board(), sensors
        self.start = self.now_ms = self.resets = 0
        self.kept = self.board.hung_note if keeps else None
        for one in sensors:
            one.world = self

    def wake(self):
        """Returns (readings, faults), or None when the watchdog ended it."""
        self.start += 1
        self.guards, self.channels = guarded(
            self.sensors, lambda: self.now_ms, lambda: None, self.board.sensor_note, self.kept
        )
        return self.read()

    def read(self):
        try:
            found = [one.read() for one in self.channels]
        except Watchdog:
            self.resets += 1
            return None
        return found, [guard.fault for guard in self.guards]

    def wakes(self, count):
        return [self.wake() for _ in range(count)]


class TestHung(unittest.TestCase):
    def test_the_distance_in_deep_sleep_grows_to_64_wakes(self):
        attic, cellar = Sensor(b"attic"), Sensor(b"cellar")
        world = World(attic, cellar)
        attic.hangs = True
        for found in world.wakes(400):
            if found:
                self.assertEqual(found, ([None, 215], [HUNG, 0]))  # told in each
        apart = [after - one - 1 for one, after in zip(attic.starts, attic.starts[1:])]
        self.assertEqual(apart, [2, 4, 8, 16, 32] + 5 * [64])
        self.assertEqual(len(cellar.starts), 400 - world.resets)

    def test_one_that_comes_back_is_forgotten(self):
        attic = Sensor(b"attic")
        world = World(attic)
        attic.hangs = True
        world.wakes(60)
        attic.hangs = False
        world.wakes(64)
        self.assertEqual(world.wakes(9), [([215], [0])] * 9)
        self.assertEqual((world.board.hung, world.board.number), (0, 0))
        attic.hangs = True
        first = world.start
        world.wakes(5)
        self.assertEqual(attic.starts[-2:], [first + 1, first + 4])  # from 2 on

    def test_of_several_that_hang_each_is_tried_and_the_board_is_not_reset_over_and_over(self):
        sensors = [Sensor(b"s%d" % index) for index in range(4)]
        world = World(*sensors)
        for one in sensors[1:]:
            one.hangs = True
        world.wakes(400)
        self.assertTrue(world.resets < 40, world.resets)
        for one in sensors[1:]:
            self.assertTrue(len(one.starts) > 5)
        self.assertEqual(len(sensors[0].starts), 400)  # it is read before them
        sensors[2].hangs = False
        world.wakes(130)
        found = world.wakes(100)
        self.assertTrue(len([one for one in found if one and one[0][2] == 215]) > 90)

    def test_one_that_hung_once_beside_one_that_always_does_comes_back(self):
        attic, cellar = Sensor(b"attic"), Sensor(b"cellar")
        world = World(attic, cellar)
        attic.hangs = True
        world.wakes(200)
        cellar.hangs = True
        world.wake()
        cellar.hangs = False
        world.wakes(130)
        self.assertEqual(world.guards[1].fault, 0)
        self.assertTrue(cellar.starts[-1] > 320)

    def test_awake_it_is_left_alone_for_an_hour_and_so_is_another(self):
        attic, cellar = Sensor(b"attic"), Sensor(b"cellar")
        world = World(attic, cellar)
        attic.hangs = cellar.hangs = True
        self.assertEqual([world.wake(), world.wake()], [None, None])
        for _ in range(3):
            self.assertEqual(world.wake(), ([None, None], [HUNG, HUNG]))
            world.now_ms += 3_599_999
            self.assertEqual(world.read(), ([None, None], [HUNG, HUNG]))
            world.now_ms += 1
            self.assertTrue(world.read() is None)
            self.assertTrue(world.wake() is None)  # the other has its trial at the start
        attic.hangs = cellar.hangs = False
        world.wake()
        world.now_ms += 3_600_000
        self.assertEqual(world.read(), ([215, 215], [0, 0]))
        self.assertEqual(world.board.hung, 0)

    def test_a_board_of_somebodys_own_may_lack_the_note(self):
        attic = Sensor(b"attic")
        world = World(attic, keeps=False)
        attic.hangs = True
        self.assertEqual(world.wakes(3), [None, ([None], [HUNG]), None])

    def test_to_forget_takes_no_heap(self):
        if not IS_MICROPYTHON:
            raise unittest.SkipTest("the heap exists only in MicroPython")
        board = Board()
        board.hung = 0xFFFF | 6 << 16 | 63 << 19
        hung = Hung(board.hung_note, 0)
        gc.collect()
        micropython.heap_lock()
        try:
            for number in range(1, 17):
                hung.forget(number)
        finally:
            micropython.heap_unlock()
        self.assertEqual(board.hung, 0)

"""Sensors of driver files, from the settings to a running board: files that are absent or broken,
keys that are wrong, a board over the fakes that sends the values of three of them.
"""

import gc
import os
import sys
import unittest

import micropython

from fake_bus import Installed, Wiring, bme280
from fake_flash import flash_in_ram
from fake_machine import PORTS, Bench
from own_folder import OwnFolder
from station.guard import FAULTS, guarded
from station.settings import SettingsError, check
from support.sensor_file import SensorFile, check_options
from test_sensor_drivers import BUS

KEYS = {"pin": (0, 48, None), "times": (1, 9, 1), "pull": ("up", "down"), "rom": ""}
GIVEN = {"device_id": "board-1", "broker_host": "broker.test", "wifi_ssid": "home"}


class Files:
    """Driver files of a user's, in a folder of their own: {name: source}."""

    def __init__(self, **sources):
        self._sources = sources

    def __enter__(self):
        self._folder = OwnFolder()
        folder = self._folder.__enter__()
        os.mkdir(folder + "/sensors")
        for name, source in self._sources.items():
            with open(folder + "/sensors/" + name + ".py", "w") as file:
                file.write(source)
        self._forget()
        sys.path.insert(0, folder)

    def __exit__(self, *error):
        sys.path.pop(0)
        self._forget()
        self._folder.__exit__()

    def _forget(self):
        for name in list(sys.modules):
            if name == "sensors" or name.startswith("sensors."):
                sys.modules.pop(name)


class Stopped:
    ms = 0

    def ticks_ms(self):
        return Stopped.ms


def nothing():
    pass


def fault_of(**given):
    """(what a board says of such a sensor, its detail)."""
    guards, channels = guarded([SensorFile(given)], Stopped().ticks_ms, nothing)
    for channel in channels:
        channel.read()
    return FAULTS[guards[0].fault], guards[0].detail


class TestOptions(unittest.TestCase):
    def test_defaults_and_values(self):
        self.assertEqual(
            check_options(KEYS, {"driver": "x", "name": "y", "pin": 3}),
            {"pin": 3, "times": 1, "pull": "up", "rom": ""},
        )
        self.assertEqual(check_options(KEYS, {"pin": 3, "pull": "down"})["pull"], "down")

    def test_what_is_wrong_names_the_key(self):
        for given, says in (
            ({}, "key 'pin' is missing; add it"),
            ({"pin": 49}, "key 'pin' must be 0 to 48, not 49"),
            ({"pin": "3"}, "key 'pin' must be a whole number, not '3'"),
            ({"pin": True}, "key 'pin' must be a whole number, not True"),
            ({"pin": 3, "pull": "left"}, "key 'pull' must be one of up, down, not 'left'"),
            ({"pin": 3, "rom": 5}, "key 'rom' must be text, not 5"),
            ({"pin": 3, "pins": 5}, "unknown key 'pins'; known: pin, pull, rom, times"),
        ):
            with self.assertRaises(ValueError) as caught:
                check_options(KEYS, given)
            self.assertEqual(str(caught.exception), says)


class TestSettings(unittest.TestCase):
    def test_names_and_drivers_stand_side_by_side(self):
        attic = {"driver": "bme280", "name": "attic", "scl": 5, "sda": 4}
        found = check({"device_id": "a", "broker_host": "b", "sensors": ["memory", attic]})
        self.assertEqual(found["sensors"], ["memory", attic])

    def test_what_is_no_sensor_is_refused(self):
        for sensors, says in (
            ([5], "names in quotes"),
            ([{}], "names in quotes"),
            ([{"driver": 5}], "names in quotes"),
            ([{"driver": "../main"}], "a-z 0-9 _"),
            ([{"driver": "adc", "name": "a b"}], "A-Z a-z 0-9"),
            ([{"driver": "adc", "name": ""}], "1 to 24"),
            ([{"driver": "adc"}, {"driver": "adc"}], "two sensors named 'adc'"),
            (["memory", "memory"], "two sensors named 'memory'"),
        ):
            with self.assertRaises(SettingsError) as caught:
                check({"device_id": "a", "broker_host": "b", "sensors": sensors})
            self.assertTrue("'sensors'" in str(caught.exception), str(caught.exception))
            self.assertTrue(says in str(caught.exception), str(caught.exception))


class TestFiles(unittest.TestCase):
    def test_a_file_that_is_absent_or_broken_is_a_fault_of_that_sensor(self):
        good = "READINGS = (('', 'V', 0),)\nclass Driver:\n    def __init__(self, options): pass\n"
        files = {
            "broken": "def (",
            "empty": "",
            "raises": "1 // 0",
            "leaves": good + "    def read(self): raise KeyError('x')\n",
            "float": good + "    def read(self): return 20.6\n",
        }
        with Files(**files):
            for name, says in (
                ("absent", "not usable"),
                ("broken", "not usable"),
                ("empty", "not usable"),
                ("raises", "not usable"),
                ("leaves", "raised"),
                ("float", "well"),
            ):
                self.assertEqual(fault_of(driver=name)[0], says, name)

    def test_what_a_file_says_wrongly_of_itself_is_a_fault_of_that_sensor(self):
        driver = (
            "\nclass Driver:\n    def __init__(self, options): pass\n    def read(self): return 1\n"
        )
        reading = "READINGS = (%s,)" + driver
        files = {
            "leaves": "raise SystemExit",
            "no_unit": reading % "('', None, 0)",
            "number": reading % "(5, 'V', 0)",
            "no_most": reading % "('', 'V', 0, 1)",
            "broken": reading % "('', 'V', -2.0)",
            "inches": reading % """('', '"', 0)""",
            "settles": reading % "('', 'V', 0)" + "SETTLE_MS = 'soon'\n",
            "good": reading % "('', '%RH', 0)",
        }
        with Files(**files):
            for name in files:
                says = "well" if name == "good" else "not usable"
                self.assertEqual((name, fault_of(driver=name)[0]), (name, says))
        self.assertEqual(fault_of(driver="adc", pin=26, unit="\n")[0], "not usable")

    def test_a_key_that_is_wrong_is_named(self):
        self.assertEqual(
            fault_of(driver="digital", pin=99),
            ("not usable", "key 'pin' must be 0 to 48, not 99"),
        )


class TestHeap(unittest.TestCase):
    def test_a_boards_readings_take_none_the_note_for_the_watchdog_included(self):
        if sys.implementation.name != "micropython":
            raise unittest.SkipTest("the heap exists only in MicroPython")
        wiring = Wiring()
        wiring.millivolts[26] = 1900
        sensors = [{"driver": "battery", "pin": 26}, {"driver": "digital", "pin": 7}, "reset_cause"]
        for name in PORTS:
            board = Bench(name, flash_in_ram(8, 256)).open(check(dict(GIVEN, sensors=sensors)))
            with Installed(wiring):
                feed, note = board.feed_watchdog, board.sensor_note
                channels = guarded(board.sensors, board.ticks_ms, feed, note)[1]
                readings(channels, 2)
                gc.collect()
                before, net = micropython.mem_total(), gc.mem_alloc()
                readings(channels, 100)
                net = gc.mem_alloc() - net
                gross = micropython.mem_total() - before
                own = fake_of_the_note(board) * 2 * 2 * 100  # before and after, two drivers
            self.assertEqual((gross - own, net if not own else 0), (0, 0), name)


def fake_of_the_note(board):
    """What the fake of ESP32's RTC memory takes for one."""
    before = micropython.mem_total()
    board.sensor_note(0)
    return micropython.mem_total() - before if hasattr(board, "_kept") else 0


def readings(channels, count):
    while count:
        count -= 1
        index = len(channels)
        while index:
            index -= 1
            channels[index].read()


class TestSettle(unittest.TestCase):
    def test_deep_sleep_sees_how_long_a_driver_takes_to_settle(self):
        _, channels = guarded([SensorFile({"driver": "dht22", "pin": 3})], None, None)
        self.assertEqual([one.settle_ms for one in channels], [2100, 2100])


class TestBoards(unittest.TestCase):
    def test_each_kind_of_board_takes_them(self):
        wiring = Wiring()
        wiring.chips[0x76] = bme280()
        wiring.millivolts[26] = 1900
        sensors = [
            "memory",
            dict(BUS, driver="bme280", name="attic"),
            {"driver": "battery", "pin": 26},
            {"driver": "digital", "name": "door", "pin": 7},
        ]
        names = [b"memory", b"attic_temperature", b"attic_humidity", b"attic_pressure"]
        names += [b"battery_voltage", b"battery_level", b"door"]
        for name in PORTS:
            desk = Bench(name, flash_in_ram(8, 256))
            board = desk.open(check(dict(GIVEN, sensors=sensors)))
            with Installed(wiring) as bus:
                for sensor in board.sensors[1:]:
                    if hasattr(sensor._module, "time"):
                        sensor._module.time = bus._time
                guards, channels = guarded(board.sensors, Stopped().ticks_ms, nothing)
                values = [one.read() for one in channels]
            self.assertEqual([one.name for one in channels], names, name)
            self.assertEqual(values[1], 2508)
            self.assertEqual([one.fault for one in guards], [0, 0, 0, 0])


if __name__ == "__main__":
    unittest.main()

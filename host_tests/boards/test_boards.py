"""Each board.py over fakes of its port: main.py's build() composes everything, and a reading
arrives at the broker.
"""

import gc
import os
import sys
import unittest

import micropython

from fake_machine import PORTS, Bench, Chip, Filesystem, Reset, flash_of
from fake_network import RP2, Ticks
from outpost import status
from outpost.outbox import Outbox
from outpost.packets import packet_id_of
from station.clock import Clock
from station.deep_sleep import wake
from station.settings import check
from support import crash_log
from support.chip_sensors import Reading
from support.pinned import PinnedError
from support.wifi_board import WANTED

GIVEN = {
    "device_id": "board-1",
    "broker_host": "broker.test",
    "mode": "broker",
    "wifi_ssid": "home",
    "wifi_password": "secret",
}
IS_MICROPYTHON = sys.implementation.name == "micropython"


def settings(**more):
    given = dict(GIVEN)
    given["outbox_blocks"] = 4
    given.update(more)
    return check(given)


def bench(name, **options):
    """A board with a partition `outbox`, or on RP2 with a littlefs in which it can pin blocks."""
    return Bench(name, flash_of(name), **options)


class Older:
    """A board as its contract was before `about`, `sensor_note` and `hung_note`."""

    def __init__(self, board):
        self._board = board

    def __getattr__(self, name):
        if name in ("about", "sensor_note", "hung_note"):
            raise AttributeError(name)
        return getattr(self._board, name)


class Failing:
    """What a board sees of a client."""

    last_error = failures = 0


class TestBoards(unittest.TestCase):
    def test_both_clients_get_the_bound_of_the_board(self):
        for name in PORTS:
            if PORTS[name] is RP2 and not IS_MICROPYTHON:
                continue  # CPython has no littlefs; MicroPython runs this test too
            for mode in ("broker", "collector"):
                desk = bench(name)
                with Filesystem(name, desk.flash):
                    client = desk.build(settings(mode=mode)).client
                expected = 3000 if PORTS[name] is RP2 else 5744
                in_flight = client.session.in_flight
                found = (in_flight.most if in_flight else 0, desk.board.in_flight_bytes)
                self.assertEqual(found, (expected, expected), name)

    def test_each_level_of_mqtt_in_both_modes(self):
        for level, mode in ((3, "broker"), (5, "broker"), (5, "collector")):
            name = sorted([one for one in PORTS if PORTS[one] is not RP2])[0]
            desk = bench(name)
            with Filesystem(name, desk.flash):
                session = desk.build(settings(mode=mode, level=level)).client.session
            packet = session.connect_packet
            self.assertEqual(packet[packet.find(b"MQ") + (6 if level == 3 else 4)], level)
            self.assertEqual(hasattr(session, "server"), level == 5)

    def test_a_board_of_somebodys_own_may_lack_what_is_new(self):
        desk = bench("ESP32_GENERIC")
        desk.board.open(settings())
        main = desk.main()
        main.board = Older(desk.board)
        station = main.build(settings())
        self.assertFalse("station.assembly" in sys.modules)  # its 5 KB are free again
        self.assertTrue(station.step(desk.ticks.ticks_ms()))
        self.assertEqual(station.published, 1)

    def test_every_board_boots_main_and_publishes_a_reading(self):
        for name in PORTS:
            if PORTS[name] is RP2 and not IS_MICROPYTHON:
                continue  # CPython has no littlefs; MicroPython runs this test too
            desk = bench(name)
            with Filesystem(name, desk.flash):
                self.boots(desk, name)

    def boots(self, desk, name):
        main, board = desk.main(), desk.board
        board.begin()
        board.open(settings())
        station = main.build(settings())
        self.assertEqual(desk.chip.watchdog_ms, 0, name)  # pinning may take a minute
        desk.net.stream.say(b"\x20\x02\0\0")
        loops = [0, 0]  # of 5 ms and more: Wi-Fi takes 1.5 s
        idle, outbox = board.idle, station.client.session.outbox

        def wait(client):
            loops[0] += 1
            self.assertTrue(loops[0] < 1000, "it does not end")
            if client.session.sent > loops[1]:  # the broker acknowledges
                loops[1] = client.session.sent
                word = packet_id_of(outbox.next_seq - 1)
                desk.net.stream.say(bytes((0x40, 2, word >> 8, word & 255)))
            idle(client)

        board.idle = wait
        board.stopping = lambda: loops[0] > 400
        main.run(station)
        sent = desk.net.stream.take()
        self.assertTrue(b"outpost/board-1/data" in sent and b"temperature" in sent, name)
        self.assertEqual(
            (station.client.session.acknowledged, station.published, desk.net.open), (1, 1, 0), name
        )
        self.assertEqual((desk.radio.network_name, desk.radio.key), ("home", "secret"))
        self.assertTrue(station.clock.is_set and desk.chip.rtc_set, name)
        self.assertEqual(desk.chip.watchdog_ms, 8000)
        self.assertTrue(desk.chip.longest_hunger_ms < 100, name)
        self.assertEqual(desk.ticks.longest_sleep_ms, 5)

    def test_main_leaves_no_module_of_the_interpreter_registered(self):
        """A package of the user's may be called as one of them; what others registered stays."""
        for name in PORTS:
            if PORTS[name] is RP2 and not IS_MICROPYTHON:
                continue
            desk = bench(name)
            with Filesystem(name, desk.flash):
                registered = sys.modules.pop("binascii", None)
                try:
                    main = desk.main()
                    self.assertEqual("binascii" in main.found, IS_MICROPYTHON)
                    before = [
                        one
                        for one in main._BUILT_IN
                        if one in sys.modules and one not in main.found
                    ]
                    desk.board.open(settings())
                    main.build(settings())
                    main.forget_built_in(main.found)
                    self.assertEqual([one for one in main.found if one in sys.modules], [], name)
                    self.assertEqual([one for one in before if one not in sys.modules], [], name)
                finally:
                    if registered:
                        sys.modules["binascii"] = registered

    def test_an_rp2_checks_its_pinned_files_when_idle_and_after_a_crash_before_it_begins(self):
        if not IS_MICROPYTHON:
            raise unittest.SkipTest("CPython has no littlefs")
        for name in PORTS:
            if PORTS[name] is not RP2:
                continue
            flash = flash_of(name)
            with Filesystem(name, flash):
                desk = Bench(name, flash)
                device = desk.board.open(settings(outbox_blocks=8)).device
                outbox = Outbox(device, align=256, page_bytes=256)
                self.assertEqual(outbox.mount(), status.BLANK)
                self.assertEqual(outbox.format(b"01234567"), 0)
                os.rename("/outbox/0004.pin", "/outbox/x")
                os.rename("/outbox/0006.pin", "/outbox/0004.pin")
                os.rename("/outbox/x", "/outbox/0006.pin")
                for block in device.blocks:  # what stands there distinguishes the files
                    flash.writeblocks(block, b"\xff" * 255 + bytes([block]), 0)
                board = Bench(name, flash).board
                board.begin()
                board.open(settings())
                for _ in range(8):
                    board.idle(None)
                self.assertEqual(board.pins_lost(), 2)
                self.assertTrue("0006.pin: is not in its block" in board.device.fault)
                board.begin()  # the second start in a row
                with self.assertRaisesRegex(PinnedError, "0004.pin: is not in its block"):
                    board.open(settings())

    def test_a_board_works_without_its_link(self):
        """As `outpost selftest --no-link` runs it: an emulator may have no radio at all."""
        for name in PORTS:
            desk = bench(name)
            desk._fakes["network"].WLAN = desk._fakes["network"].country = None
            board = desk.open(settings(wifi_country="DE"))
            board.keep_time(None, desk.ticks.ticks_ms())
            found = {one.name: one for one in board.sensors}
            self.assertTrue(found[b"signal"].read() is None, name)

    def test_the_sensors_that_need_no_wire(self):
        for name in PORTS:
            desk = bench(name)
            board = desk.open(settings(wifi_country="DE"))
            self.assertEqual((board.link(), desk.radio.country_code), (None, "DE"))
            desk.ticks.ms += 2000
            found = {one.name: one for one in board.sensors}
            temperature = found[b"temperature"]
            degrees = temperature.read() * 10 if temperature.exponent == 0 else temperature.read()
            # RP2 counts in steps of 0.5
            self.assertTrue(abs(degrees - (270 if PORTS[name] is RP2 else 500)) <= 5, name)
            self.assertEqual((found[b"signal"].read(), found[b"reset_cause"].read()), (-61, 1))
            self.assertTrue(b"memory" in found)

    def test_sensors_with_a_wire_and_unknown_ones(self):
        for name in PORTS:
            adc = bench(name).open(settings(sensors=["adc@26"])).sensors[0]
            self.assertEqual(
                (adc.name, adc.unit, adc.exponent, adc.read()), (b"adc26", b"V", -3, 1650)
            )
            for wrong in ("adc@x", "bme280", "ds18b20", "load"):
                with self.assertRaises(ValueError) as caught:
                    bench(name).board.open(settings(sensors=[wrong]))
                self.assertTrue("'" + wrong + "'" in str(caught.exception))

    def test_without_a_network_name_one_line_names_the_key(self):
        for name in PORTS:
            with self.assertRaises(ValueError) as caught:
                bench(name).board.open(settings(wifi_ssid=""))
            self.assertTrue("'wifi_ssid'" in str(caught.exception))

    def test_a_board_that_starts_again_and_again_is_slowed_until_it_has_settled(self):
        for name in PORTS:
            ticks = Ticks()
            chip = Chip(ticks)
            slept = []
            for _ in range(16):  # a reset each: what the chip keeps is kept
                ticks.longest_sleep_ms = 0
                bench(name, ticks=ticks, chip=chip).board.begin()
                slept.append(ticks.longest_sleep_ms)
            self.assertEqual(slept, [crash_log.pause_ms(n) for n in range(1, 17)], name)
            self.assertEqual((slept[2], slept[3], slept[15]), (0, 2000, 600_000))
            board = bench(name, ticks=ticks, chip=chip).board
            board.begin()
            board.started(None)
            for _ in range(601):
                ticks.ms += 1000
                board.feed_watchdog()
            ticks.longest_sleep_ms = 0
            bench(name, ticks=ticks, chip=chip).board.begin()
            self.assertEqual(ticks.longest_sleep_ms, 0)

    def test_a_start_that_somebody_wanted_is_told_from_a_crash(self):
        """Stopped by hand (a tool, Thonny), restarted by a command, on trial after an update."""

        def cause(chip, *, begins=True):
            desk = bench(name, chip=chip)
            if begins:
                desk.board.begin()
            return {one.name: one for one in desk.open(settings()).about}[b"reset_cause"].read()

        for name in PORTS:
            for stop in ("release_watchdog", "give_up"):
                desk = bench(name)
                chip = desk.chip
                desk.board.begin()
                getattr(desk.board, stop)()
                self.assertEqual(cause(chip), 5, name)
                self.assertEqual(cause(chip), 1, name)  # the next one is not wanted
            desk = bench(name)
            desk.board.release_watchdog()
            self.assertEqual(cause(desk.chip, begins=False), 5, name)

    def test_which_sensor_is_being_read_is_kept_over_a_reset_beside_the_count_of_starts(self):
        for name in PORTS:
            ticks = Ticks()
            chip = Chip(ticks)
            board = bench(name, ticks=ticks, chip=chip).board
            self.assertEqual(board.sensor_note(), 0, name)
            board.begin()
            board.sensor_note(3)
            board = bench(name, ticks=ticks, chip=chip).board
            self.assertEqual((board.sensor_note(), board._starts()), (3, 1), name)
            board.begin()
            self.assertEqual((board.sensor_note(), board._starts()), (3, 2), name)
            board.release_watchdog()
            board = bench(name, ticks=ticks, chip=chip).board
            self.assertEqual((board.sensor_note(), board._starts()), (0, WANTED), name)

    def test_which_sensors_hung_is_kept_over_a_reset_and_a_sleep_beside_the_rest(self):
        most = (1 << 25) - 1
        for name in PORTS:
            desk = bench(name)
            chip = desk.chip
            self.assertEqual(desk.board.hung_note(), 0, name)
            desk.board.begin()
            desk.board._joined_last(7)
            desk.board.hung_note(most)
            desk.board.sensor_note(16)
            board = bench(name, chip=chip).board
            kept = board.hung_note(), board.sensor_note(), board._starts(), board._joined_last()
            self.assertEqual(kept, (most, 16, 1, 7), name)
            with self.assertRaises(Reset):
                board.sleep(1000)
            board = bench(name, chip=chip).board
            kept = board.hung_note(), board.sensor_note(), board._starts(), board._joined_last()
            self.assertEqual(kept[0], most, name)
            board.hung_note(0)
            board = bench(name, chip=chip).board
            self.assertEqual((board.hung_note(), board._joined_last()), (0, kept[3]), name)

    def test_a_sensor_that_hangs_in_deep_sleep_is_not_tried_at_every_second_wake(self):
        for name in PORTS:
            if PORTS[name] is RP2 and not IS_MICROPYTHON:
                continue  # CPython has no littlefs; MicroPython runs this test too
            desk = bench(name)
            with Filesystem(name, desk.flash):
                self.hangs_in_deep_sleep(desk, name)

    def hangs_in_deep_sleep(self, desk, name):
        starts, tried = [], []

        class Stuck:
            name, readings = b"attic", (("", "Cel", -1),)

            def open(self):
                tried.append(len(starts))
                raise Reset()  # by the watchdog

        given = settings(deep_sleep=True, interval_ms=60_000, wake_limit_ms=1000)
        for _ in range(20):
            woken = Bench(name, desk.flash, chip=desk.chip)
            main = woken.main()
            woken.board.begin()
            woken.board.open(given)
            woken.board.sensors.append(Stuck())
            main.board = woken.board
            station = main.build(given)
            with self.assertRaises(Reset):
                wake(station, woken.board, given)
            starts.append(1)
        self.assertEqual(tried, [0, 3, 8, 17], name)

    def test_sleep_is_no_crash(self):
        for name in PORTS:
            desk = bench(name)
            for _ in range(9):
                desk.board.begin()
                desk.board.started(None)
                desk.chip.slept_ms = 0
                with self.assertRaises(Reset):
                    desk.board.sleep(86_400_000)
                self.assertEqual(desk.chip.slept_ms, 86_400_000, name)
            self.assertEqual(desk.ticks.longest_sleep_ms, 0)

    def test_a_wake_takes_the_time_first_lets_sensors_settle_delivers_and_sleeps_the_rest(self):
        """And the next one: without a connection, as its message is not due."""
        desk = bench("ESP32_GENERIC")
        flags = settings(deep_sleep=True, connect_every=2, interval_ms=60_000)
        began_ms = desk.ticks.ms
        sent = self.wakes(desk, flags, True)
        self.assertTrue(b'"bt":' in sent and b'"n":"slow","v":2' in sent, sent)
        self.assertEqual(desk.chip.slept_ms + desk.ticks.ms - began_ms, 60_000)
        self.assertTrue(desk.chip.longest_hunger_ms < 100)
        began_ms = desk.ticks.ms
        self.assertEqual(self.wakes(desk, flags, False), b"")
        self.assertEqual((desk.ticks.ms - began_ms, desk.net.open), (800, 0))

    def wakes(self, desk, flags, answers):
        """One wake; what it sent. The slow sensor has nothing yet at its first reading."""
        station, board, slow = desk.build(flags), desk.board, [0]
        desk.net.stream.say(b"\x20\x02\0\0")
        idle, outbox, client = board.idle, station.client.session.outbox, station.client

        def read():
            slow[0] += 1
            return slow[0] if slow[0] > 1 else None

        def wait(_):
            if answers and client.session.sent > client.session.acknowledged:
                word = packet_id_of(outbox.next_seq - 1)
                desk.net.stream.say(bytes((0x40, 2, word >> 8, word & 255)))
            idle(client)

        station.sensors = [Reading(b"slow", b"", 0, read, 800)]
        station.values = [None]
        board.idle = wait
        with self.assertRaises(Reset):
            wake(station, board, flags)
        board.idle = idle
        return desk.net.stream.take()

    def test_the_clock_of_an_esp32_goes_on_in_deep_sleep(self):
        for name in PORTS:
            if PORTS[name] is RP2:
                continue
            desk = bench(name)
            desk.open(settings())
            desk.chip.seconds = 30_000 * 86400 + 7
            for cause, day in ((1, 0), (4, 30_000 + 10_957)):
                desk.chip.cause = cause
                clock = Clock(0)
                desk.board.set_clock(clock, 0)
                self.assertEqual(clock.day, day, name)

    def test_an_rp2_keeps_the_time_of_the_end_of_its_sleep_in_two_registers(self):
        for name in PORTS:
            if PORTS[name] is not RP2:
                continue
            desk = bench(name)
            desk.open(settings())
            clock = Clock(desk.ticks.ticks_ms())
            desk.board.set_clock(clock, desk.ticks.ticks_ms())
            self.assertFalse(clock.is_set)  # after power on the registers hold anything
            clock.set(20_500, 86_000_000, desk.ticks.ticks_ms())
            with self.assertRaises(Reset):
                desk.board.sleep(7_300_000)
            self.assertFalse(desk.radio.is_active)
            self.assertEqual(desk.chip.word(desk.board._watchdog + 0x3000), 1 << 30)
            overslept_ms = desk.chip.slept_ms - 7_300_000
            ticks = Ticks()
            ticks.ms = 150  # since the reset
            again = bench(name, ticks=ticks, chip=desk.chip)
            again.open(settings())
            for _ in range(2):
                clock = Clock(150)
                again.board.set_clock(clock, 150)
                kept = clock.day, clock.ms
                self.assertEqual(kept, (20_501, 6_900_150 + overslept_ms), name)
            self.assertTrue(desk.chip.rtc_set)
            clock = Clock(150)
            bench(name, ticks=ticks, chip=desk.chip).open(settings()).set_clock(clock, 150)
            self.assertFalse(clock.is_set)  # a reset without a sleep before: the time would be old

    def test_a_time_that_the_port_cannot_hold_is_refused_and_asked_for_again(self):
        """gmtime() of 2^31 seconds raises OverflowError: the board would restart over and over."""
        for name in PORTS:
            desk = bench(name)
            board = desk.open(settings())
            clock = Clock(desk.ticks.ticks_ms())

            def run(ms, board=board, clock=clock, desk=desk):
                for _ in range(ms // 50):
                    board.link()
                    board.keep_time(clock, desk.ticks.ticks_ms())
                    desk.ticks.ms += 50

            # by the answer's 32 bits: 2104 to 1968; of these ports the first that do not fit
            for year in (2104, 2068) if PORTS[name] is not RP2 else (2104, 2068, 2038):
                days = (year - 1970) * 365 + (year - 1969) // 4 - (year > 2100) + 20
                desk.net.ntp_seconds = (25_567 + days) * 86400
                run(30_000)
                self.assertEqual((name, year, clock.day, desk.chip.rtc_set), (name, year, 0, None))
                self.assertTrue(board._net_time.failures, name)
                self.assertEqual(board._net_time.last_error, status.NTP_FAILED)
            desk.net.ntp_seconds = 3_953_000_000
            run(600_000)
            self.assertTrue(clock.day == 20_185 and desk.chip.rtc_set, name)

    def test_a_sleep_over_the_end_of_what_the_port_can_hold(self):
        for name in PORTS:
            if PORTS[name] is not RP2:
                continue
            desk = bench(name)
            desk.open(settings())
            clock = Clock(desk.ticks.ticks_ms())
            clock.set(24_854, 86_000_000, desk.ticks.ticks_ms())  # 2038-01-18
            desk.board.keep_time(clock, desk.ticks.ticks_ms())
            with self.assertRaises(Reset):
                desk.board.sleep(86_400_000)
            ticks = Ticks()
            again = bench(name, ticks=ticks, chip=desk.chip).open(settings())
            clock = Clock(0)
            again.set_clock(clock, 0)
            self.assertEqual((clock.day, desk.chip.rtc_set), (24_855, None), name)
            self.assertFalse(again._has_kept_time)  # TLS would judge dates by a wrong clock

    def test_the_end_of_a_sleep_is_no_reset_to_tell(self):
        """RP2's port says "watchdog" (3) of it, as of each reset by program."""
        for name in PORTS:
            is_rp2 = PORTS[name] is RP2
            for has_time in (False, True):
                desk = bench(name)
                desk.open(settings())
                clock = Clock(0)
                if has_time:
                    clock.set(20_500, 0, 0)
                desk.board.keep_time(clock, 0)
                with self.assertRaises(Reset):
                    desk.board.sleep(60_000)
                desk.chip.cause = 3 if is_rp2 else 4
                woken = bench(name, chip=desk.chip).open(settings())
                self.assertEqual(woken.about[1].read(), 4, name)
                clock = Clock(0)
                woken.set_clock(clock, 0)
                self.assertTrue(not is_rp2 or clock.is_set == has_time, name)
            desk.chip.cause = 3
            again = bench(name, chip=desk.chip).open(settings())
            self.assertEqual(again.about[1].read(), 3, name)  # no sleep before this one

    def test_the_network_joined_last_is_the_first_after_a_sleep(self):
        listed = [{"ssid": "far"}, {"ssid": "barn", "password": "secret12"}]
        flags = settings(wifi_ssid="", wifi_password="", wifi_networks=listed)
        for name in PORTS:
            desk = bench(name)
            desk.radio.near = {"barn": b"123456"}
            board = desk.open(flags)
            while not (board._wifi and board._wifi.is_up):
                board.link()
                desk.ticks.ms += 100
            with self.assertRaises(Reset):
                board.sleep(60_000)
            desk.radio.tries.clear()
            again = bench(name, chip=desk.chip)
            again.open(flags).link()
            self.assertEqual(again.radio.tries, [("barn", None)], name)
            again.board.begin()  # the count of starts is beside it
            self.assertEqual((again.board._starts(), again.board._joined_last()), (1, 1), name)

    def test_networks_at_fault_are_one_line_that_names_entry_and_key(self):
        flags = settings(wifi_ssid="", wifi_password="", wifi_networks=[{"ssid": "x", "key": "y"}])
        for name in PORTS:
            with self.assertRaises(ValueError) as caught:
                bench(name).board.open(flags)
            words = "key 'wifi_networks', entry 1: unknown key 'key'"
            self.assertTrue(words in str(caught.exception))

    def test_a_stopped_program_lets_go_of_the_watchdog(self):
        for name in PORTS:
            desk = bench(name)
            for _ in range(9):  # by hand is no crash
                desk.board.begin()
                desk.board.release_watchdog()
            self.assertEqual(desk.ticks.longest_sleep_ms, 0)
            if PORTS[name] is RP2:
                # "clear" alias of the control register
                enable = {"RPI_PICO_W": 0x4005B000, "RPI_PICO2_W": 0x400DB000}[name]
                self.assertEqual(desk.chip.word(enable), 1 << 30)
            else:
                self.assertEqual(desk.chip.watchdog_ms, 3_600_000)

    def test_a_crash_is_kept_once_and_ends_in_a_reset(self):
        for name in PORTS:
            board = bench(name).board
            for _ in range(2):
                with self.assertRaises(Reset):
                    try:
                        raise ZeroDivisionError("as an example")
                    except ZeroDivisionError as error:
                        board.crashed(error)
            with open("crash.txt") as file:
                self.assertTrue("as an example" in file.read())
            os.remove("crash.txt")

    def test_a_crash_ends_in_a_reset_though_its_reason_cannot_be_kept(self):
        def no_memory(path, text):
            raise MemoryError

        keep, crash_log.keep = crash_log.keep, no_memory
        try:
            for name in PORTS:
                with self.assertRaises(Reset):
                    bench(name).board.crashed(ZeroDivisionError("as an example"))
        finally:
            crash_log.keep = keep

    def test_a_run_without_memory_is_told_by_the_next_start_and_no_later(self):
        for name in PORTS:
            with self.assertRaises(Reset):
                bench(name).board.crashed(MemoryError("allocating 17000 bytes"))
            with open("crash.txt") as file:
                self.assertTrue("allocating 17000 bytes" in file.read(), name)
            os.remove("crash.txt")
            for expected in (1, 0):
                board = bench(name).open(settings())
                found = {one.name: one.read() for one in board.about}
                self.assertEqual(found[b"no_memory"], expected, name)

    def test_a_connection_without_memory_is_told_once_and_counted(self):
        for name in PORTS:
            board = bench(name).open(settings())
            client = Failing()
            lack = board.about[-1]
            for number, failures, expected in (
                (0, 0, 0), (-21, 1, 0), (12, 2, 1), (12, 2, 1), (12, 3, 2), (-21, 4, 2),
            ):  # fmt: skip
                client.last_error, client.failures = number, failures
                board.idle(client)
                self.assertEqual(lack.read(), expected, name)
            with open("crash.txt") as file:
                self.assertTrue("ENOMEM (12)" in file.read(), name)
            os.remove("crash.txt")
            client.failures, client.last_error = 5, 12
            board.idle(client)
            self.assertEqual((lack.read(), "crash.txt" in os.listdir()), (3, False), name)

    def test_a_reason_takes_the_place_of_what_is_no_text(self):
        with open("crash.txt", "wb") as file:
            file.write(b"\xff\xfe")
        self.assertTrue(crash_log.keep("crash.txt", "one"))
        self.assertFalse(crash_log.keep("crash.txt", "one"))
        os.remove("crash.txt")

    def test_a_reason_is_written_only_if_it_is_new_and_never_longer_than_1000(self):
        self.assertTrue(crash_log.keep("crash.txt", "one"))
        self.assertFalse(crash_log.keep("crash.txt", "one"))
        self.assertTrue(crash_log.keep("crash.txt", "two"))
        os.remove("crash.txt")
        self.assertFalse(crash_log.keep("no-such-folder/crash.txt", "one"))
        self.assertTrue(len(crash_log.text_of(ValueError("x" * 5000))) <= 1000)

    def test_a_network_fault_reaches_the_clients_last_error(self):
        desk = bench("ESP32_GENERIC_C3")
        desk.radio.fate = "wrong_password"
        client = desk.build(settings()).client
        for _ in range(60):
            client.poll(desk.ticks.ticks_ms())
            desk.ticks.ms += 100
        self.assertEqual(client.last_error, status.WIFI_WRONG_PASSWORD)

    def test_every_board_gets_a_radio_that_failed_or_hangs_going_again(self):
        for name in PORTS:
            desk = bench(name)
            radio = desk.radio
            radio.failing_starts = 2
            link = desk.open(settings()).link
            self.assertEqual(self.failures(desk, link), [status.WIFI_FAILED] * 2, name)
            self.assertEqual(radio.starts, 3, name)
            radio.is_hung = True
            self.assertEqual(self.failures(desk, link), [status.WIFI_TIMED_OUT] * 16, name)
            self.assertEqual(radio.starts, 4, name)

    def failures(self, desk, link):
        """What the link raised until there was a stream."""
        found, stream = [], None
        while not stream and len(found) < 100:
            try:
                stream = link()
            except OSError as error:
                found.append(error.args[0])
            desk.ticks.ms += 100
        return found

    def test_the_hot_path_of_a_board_takes_no_heap(self):
        if not IS_MICROPYTHON:
            raise unittest.SkipTest("the heap exists only in MicroPython")
        for name in PORTS:
            desk = bench(name)
            desk.ticks.ms = 1000  # the fake's own sums would take heap above 2^30
            board = desk.open(settings())
            link = board.link
            board.started(None)
            clock = _Clock()
            for _ in range(100):
                link()
                board.keep_time(clock, desk.ticks.ticks_ms())
                desk.ticks.ms += 50
            self.assertTrue(clock.day > 0)
            gc.collect()
            for _ in range(2):
                before = gc.mem_alloc()
                micropython.heap_lock()
                try:
                    now_ms = board.ticks_ms()
                    board.keep_time(clock, now_ms)
                    board.feed_watchdog()
                    board.idle(None)
                    board.stopping()
                finally:
                    micropython.heap_unlock()
                self.assertEqual(gc.mem_alloc() - before, 0)


class _Clock:
    day = 0

    def set(self, day, ms, now_ms):
        self.day = day


if __name__ == "__main__":
    unittest.main()

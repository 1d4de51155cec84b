"""What a program sees of its board in the virtual world: the modules of virtual/ports.py."""

import errno
import sys
import unittest

from virtual import world as worlds  # first: its imports go deep

# isort: split
from virtual import ports, sockets

IS_MICROPYTHON = sys.implementation.name == "micropython"
FROM_2000 = 946_684_800
CONNECT = b"\x10\x0e\0\x04MQTT\x04\x02\0\0\0\x02ab"
SETTINGS = {"device_id": "kitchen", "broker_host": "broker.test", "wifi_ssid": "home"}
Stop = worlds.Stop


def boot(board="ESP32_GENERIC", **scenario):
    """(world, modules) of a first boot."""
    world = worlds.World(dict(scenario, board=board))
    return world, modules(world)


def modules(world):
    """Of a boot. On CPython, those of an RP2 too: all but its littlefs works there."""
    kept = ports._IS_MICROPYTHON
    ports._IS_MICROPYTHON = kept or world.scenario["board"].startswith("RPI")
    try:
        return ports.modules(world)
    finally:
        ports._IS_MICROPYTHON = kept


def again(world, cause):
    """The modules of the next boot of that world."""
    world.on()
    world.cause = cause
    return modules(world)


def joined(world, found):
    """Join the Wi-Fi."""
    wlan = found["network"].WLAN(0)
    wlan.active(True)
    wlan.connect("home", "secret")
    while not wlan.isconnected():
        found["time"].sleep_ms(50)
    return wlan


class Installed:
    """The modules of this port, and none of an earlier boot, while it is entered."""

    FORGET = ("asyncio", "board", "outpost", "support", "uasyncio")

    def __init__(self, fakes):
        self._fakes = {name: fakes[name] for name in fakes if not name.startswith("virtual")}
        if not IS_MICROPYTHON:  # whose import system needs it
            self._fakes.pop("os")

    def _forget(self):
        for name in list(sys.modules):
            if name.split(".")[0] in self.FORGET and (IS_MICROPYTHON or name[:7] != "asyncio"):
                sys.modules.pop(name)

    def __enter__(self):
        self._kept = dict(sys.modules)
        self._forget()
        sys.modules.update(self._fakes)
        return self

    def __exit__(self, *error):
        self._forget()
        for name in self._fakes:
            sys.modules.pop(name, None)
        sys.modules.update(self._kept)


class Ticks(unittest.TestCase):
    def test_they_wrap_a_minute_after_power_on(self):
        _world, found = boot()
        time = found["time"]
        first = time.ticks_ms()
        time.sleep(70)
        last = time.ticks_ms()
        self.assertTrue(last < first < 1 << 30)
        self.assertEqual(time.ticks_diff(last, first), 70_000)
        self.assertEqual(time.ticks_add(first, 70_000), last)

    def test_they_count_from_a_reset(self):
        world, found = boot()
        found["time"].sleep(100)
        self.assertEqual(again(world, "reset")["time"].ticks_ms(), 0)

    def test_us_and_sleeps_are_exact(self):
        _world, found = boot()
        time = found["time"]
        start = time.ticks_us()
        time.sleep_us(700)
        time.sleep_ms(3)
        time.sleep(0.25)
        self.assertEqual(time.ticks_diff(time.ticks_us(), start), 253_700 + worlds.CALL_US)

    def test_each_call_takes_time(self):
        world, found = boot()
        for call in (
            found["time"].ticks_ms, found["time"].time, found["machine"].unique_id,
            found["machine"].Pin(2).value, lambda: found["os"].urandom(1), found["random"].random,
        ):  # fmt: skip
            before_us = world.now_us
            call()
            self.assertTrue(world.now_us - before_us >= worlds.CALL_US)

    def test_a_program_that_is_over_cannot_call_on(self):
        world, found = boot()
        world.until_us = world.now_us + 10_000_000
        for _ in range(2):
            with self.assertRaises(Stop):
                found["time"].sleep(3600)
        with self.assertRaises(Stop):
            found["machine"].Pin(2)
        self.assertTrue(world.now_us < 12_000_000)


class Calendar(unittest.TestCase):
    def test_it_begins_with_the_ports_time_0(self):
        self.assertEqual(boot()[1]["time"].gmtime(0), (2000, 1, 1, 0, 0, 0, 5, 1))
        self.assertEqual(boot("RPI_PICO_W")[1]["time"].gmtime(0), (1970, 1, 1, 0, 0, 0, 3, 1))

    def test_dates_come_back(self):
        time = boot()[1]["time"]
        for seconds, date in (
            (762_483_723, (2024, 2, 29, 1, 2, 3, 3, 60)),
            (789_004_799, (2024, 12, 31, 23, 59, 59, 1, 366)),
            (1_009_843_199, (2031, 12, 31, 23, 59, 59, 2, 365)),
        ):
            self.assertEqual(time.gmtime(seconds), date)
            self.assertEqual(time.mktime(date), seconds)

    def test_more_than_a_word_is_refused(self):
        with self.assertRaises(OverflowError):
            boot("RPI_PICO_W")[1]["time"].gmtime(1 << 31)

    def test_the_time_is_wrong_after_power_on(self):
        self.assertEqual(boot()[1]["time"].localtime()[:3], (2000, 1, 1))
        self.assertEqual(boot("RPI_PICO_W")[1]["time"].localtime()[:3], (2021, 1, 1))

    def test_an_esp32_keeps_it_over_reset_and_sleep_and_loses_it_with_the_power(self):
        world, found = boot()
        found["machine"].RTC().datetime((2025, 3, 4, 0, 5, 6, 7, 0))
        for cause in ("reset", "sleep", "watchdog"):
            world.now_us += 60_000_000
            self.assertEqual(again(world, cause)["time"].localtime()[:3], (2025, 3, 4))
        self.assertEqual(again(world, "reset")["time"].localtime()[3:5], (5, 9))
        self.assertEqual(modules(world.copy())["time"].localtime()[:3], (2000, 1, 1))

    def test_an_rp2_loses_it_with_a_reset_but_not_with_a_soft_one(self):
        world, found = boot("RPI_PICO_W")
        found["machine"].RTC().datetime((2025, 3, 4, 0, 5, 6, 7, 0))
        self.assertEqual(found["machine"].RTC().datetime(), (2025, 3, 4, 1, 5, 6, 7, 0))
        with self.assertRaises(Stop):
            found["machine"].soft_reset()
        found = again(world, "reset")
        self.assertEqual(found["time"].localtime()[:3], (2025, 3, 4))
        self.assertEqual(again(world, "reset")["time"].localtime()[:3], (2021, 1, 1))

    def test_ntp_sets_it(self):
        for board, first_s in (("ESP32_GENERIC", FROM_2000), ("RPI_PICO_W", 0)):
            world, found = boot(board)
            joined(world, found)
            found["ntptime"].settime()
            self.assertEqual(found["time"].time() + first_s, world.unix_s())

    def test_ntp_fails_without_a_network(self):
        _world, found = boot(outages=[])
        with self.assertRaises(OSError):
            found["ntptime"].time()


class Pins(unittest.TestCase):
    def test_an_input_reads_the_world_and_its_pull(self):
        world, found = boot(values={"pin 3": [[0, 0], [2, 1]]})
        kind = found["machine"].Pin
        pin = kind(3, kind.IN)
        self.assertEqual(pin.value(), 0)
        world.sleep_us(2_000_000)
        self.assertEqual((pin.value(), pin()), (1, 1))
        self.assertEqual(kind(4, kind.IN, kind.PULL_UP).value(), 1)
        self.assertEqual(kind(5, kind.IN, kind.PULL_DOWN).value(), 0)

    def test_an_output_drives_each_change_once(self):
        world, found = boot("RPI_PICO_W")
        kind = found["machine"].Pin
        lamp = kind("LED", kind.OUT, value=0)
        lamp.on()
        lamp.on()
        lamp.toggle()
        kind(2, kind.OUT)(1)
        driven = [one[1:] for one in world.driven]
        self.assertEqual(driven, [("pin LED", 0), ("pin LED", 1), ("pin LED", 0), ("pin 2", 1)])
        self.assertEqual(kind(2).value(), 1)

    def test_an_edge_interrupts_at_its_time(self):
        world, found = boot(values={"pin 3": [[0, 0], [1.29, 1], [1.5, 0], [2, 1]]})
        kind, seen = found["machine"].Pin, []
        pin = kind(3, kind.IN)
        pin.irq(lambda pin: seen.append((world.now_ms(), pin.value())), kind.IRQ_RISING)
        found["time"].sleep(1.7)
        self.assertEqual(seen, [(1290, 1)])
        found["time"].sleep(1)
        pin.irq(None)
        self.assertEqual(seen, [(1290, 1), (2000, 1)])

    def test_no_edge_while_interrupts_are_off(self):
        world, found = boot(values={"pin 3": [[0, 0], [1, 1]]})
        machine, seen = found["machine"], []
        machine.Pin(3).irq(lambda pin: seen.append(world.now_ms()), machine.Pin.IRQ_RISING)
        state = machine.disable_irq()
        found["time"].sleep(2)
        self.assertEqual(seen, [])
        machine.enable_irq(state)
        self.assertEqual(seen, [2000])

    def test_an_exception_in_an_interrupt_is_printed_and_the_program_goes_on(self):
        world, found = boot()

        def fails(timer):
            raise ValueError("bad")

        found["machine"].Timer(0, period=10, mode=0, callback=fails)
        found["time"].sleep_ms(20)
        self.assertEqual(world.output, ["Uncaught exception in a callback: ValueError: bad"])

    def test_a_signal_inverts(self):
        world, found = boot(values={"pin 3": 1})
        machine = found["machine"]
        self.assertEqual(machine.Signal(machine.Pin(3), invert=True).value(), 0)
        machine.Signal(2, machine.Pin.OUT, invert=True).on()
        self.assertEqual(world.driven[-1][1:], ("pin 2", 0))

    def test_analog_pins(self):
        _, found = boot(values={"adc 34": 30_000})
        machine = found["machine"]
        one = machine.ADC(machine.Pin(34), atten=machine.ADC.ATTN_11DB)
        self.assertEqual((one.read_u16(), one.read()), (30_000, 30_000 >> 4))
        self.assertEqual(one.read_uv(), 30_000 * 3_100_000 // 65_535)
        one.atten(machine.ADC.ATTN_0DB)
        self.assertEqual(one.read_uv(), 30_000 * 950_000 // 65_535)
        _, found = boot("RPI_PICO_W", values={"adc 26": 500, "chip temperature": 27})
        adc = found["machine"].ADC
        self.assertEqual((adc(0).read_u16(), adc(26).read_u16()), (500, 500))
        self.assertEqual(adc(adc.CORE_TEMP).read_u16(), 14_020)

    def test_pwm_and_bits_are_recorded(self):
        world, found = boot()
        machine = found["machine"]
        lamp = machine.PWM(machine.Pin(5), freq=1000, duty_u16=100)
        lamp.duty(1023)
        machine.bitstream(machine.Pin(6), 0, (400, 850, 800, 450), b"\x01\x02")
        self.assertEqual([one[1:] for one in world.driven], [
            ("pwm 5 freq", 1000), ("pwm 5", 100), ("pwm 5", 65_535), ("bits 6", "0102"),
        ])  # fmt: skip

    def test_a_pulse_takes_its_time(self):
        world, found = boot(values={"pulse 4": 5800})
        machine = found["machine"]
        before_us = world.now_us
        self.assertEqual(machine.time_pulse_us(machine.Pin(4), 1), 5800)
        self.assertTrue(5800 <= world.now_us - before_us < 6000)
        self.assertEqual(machine.time_pulse_us(machine.Pin(7), 1, 1000), -2)


class Timers(unittest.TestCase):
    def test_a_periodic_one_rings_until_deinit(self):
        world, found = boot("RPI_PICO_W")
        rung = []
        timer = found["machine"].Timer()
        start_ms = world.now_ms()
        timer.init(period=100, callback=lambda timer: rung.append(world.now_ms() - start_ms))
        found["time"].sleep_ms(350)
        timer.deinit()
        found["time"].sleep_ms(500)
        self.assertEqual(rung, [100, 200, 300])

    def test_a_one_shot_rings_once_and_an_esp32s_number_names_it(self):
        _world, found = boot()
        kind, rung = found["machine"].Timer, []
        kind(1, mode=kind.ONE_SHOT, freq=10, callback=lambda timer: rung.append(1))
        kind(2, mode=kind.ONE_SHOT, period=50, callback=lambda timer: rung.append(2))
        kind(2).init(mode=kind.ONE_SHOT, period=60, callback=lambda timer: rung.append(3))
        found["time"].sleep(1)
        self.assertEqual(rung, [3, 1])
        with self.assertRaises(ValueError):
            kind(-1)

    def test_it_does_not_interrupt_itself(self):
        _world, found = boot()
        depth, deepest = [0], [0]

        def slow(timer):
            depth[0] += 1
            deepest[0] = max(deepest[0], depth[0])
            found["time"].sleep_ms(25)
            depth[0] -= 1

        found["machine"].Timer(0, period=10, callback=slow)
        found["time"].sleep_ms(200)
        self.assertEqual(deepest, [1])

    def test_what_was_missed_is_not_made_up_for(self):
        world, found = boot()
        start_ms, rung = world.now_ms(), []

        def slow_at_first(timer):
            rung.append(world.now_ms() - start_ms)
            if len(rung) == 1:
                found["time"].sleep_ms(95)

        found["machine"].Timer(0, period=10, callback=slow_at_first)
        found["time"].sleep_ms(135)
        self.assertEqual(rung, [10, 105, 110, 120, 130])

    def test_nothing_rings_while_the_kit_looks(self):
        world, found = boot()
        rung = []
        found["machine"].Timer(0, period=1, mode=0, callback=lambda timer: rung.append(1))
        world.unseen(lambda: world.pass_us(5000))
        self.assertEqual(rung, [])
        found["time"].sleep_ms(2)
        self.assertEqual(rung, [1])


class Ends(unittest.TestCase):
    def test_the_watchdog_bites_who_does_not_feed_it(self):
        world, found = boot()
        dog = found["machine"].WDT(timeout=1000)
        for _ in range(5):
            found["time"].sleep_ms(900)
            dog.feed()
        fed_us = world.now_us
        with self.assertRaises(Stop) as context:
            found["time"].sleep(5)
        self.assertEqual(context.exception.why, "watchdog")
        self.assertEqual(world.now_us, fed_us + 1_000_000)
        self.assertEqual(again(world, "watchdog")["machine"].reset_cause(), 3)

    def test_an_rp2s_has_a_longest_time_and_can_be_switched_off(self):
        _world, found = boot("RPI_PICO_W")
        machine = found["machine"]
        with self.assertRaises(ValueError):
            machine.WDT(timeout=8389)
        machine.WDT(timeout=8388)
        machine.mem32[0x40058000 + 0x3000] = 1 << 30
        found["time"].sleep(20)

    def test_deep_sleep_and_reset_end_the_boot(self):
        for call, why, ms in (("deepsleep", "sleep", 60_000), ("reset", "reset", 0)):
            world, found = boot()
            seen = []
            world.on_effect = lambda world, kind, ms, seen=seen: seen.append((kind, ms))
            with self.assertRaises(Stop) as context:
                getattr(found["machine"], call)(*([ms] if ms else []))
            self.assertEqual((context.exception.why, world.slept_ms), (why, ms))
            self.assertEqual(seen, [(why, ms)])

    def test_causes_are_the_ports(self):
        for board, causes in (("ESP32_GENERIC", (1, 2, 3, 4)), ("RPI_PICO_W", (1, 3, 3, 3))):
            found = []
            for cause in ("power on", "reset", "watchdog", "sleep"):
                world, _ = boot(board)
                found.append(again(world, cause)["machine"].reset_cause())
            self.assertEqual(tuple(found), causes)
        world, found = boot()
        with self.assertRaises(Stop):
            found["machine"].soft_reset()
        machine = again(world, "reset")["machine"]
        self.assertEqual(machine.reset_cause(), machine.SOFT_RESET)

    def test_what_a_reset_keeps_a_cut_does_not(self):
        world, found = boot()
        found["machine"].RTC().memory(b"kept")
        self.assertEqual(again(world, "reset")["machine"].RTC().memory(), b"kept")
        self.assertEqual(modules(world.copy())["machine"].RTC().memory(), b"")
        with self.assertRaises(ValueError):
            found["machine"].RTC().memory(bytes(2049))

    def test_an_rp2_keeps_the_watchdogs_registers(self):
        world, found = boot("RPI_PICO2_W")
        words = found["machine"].mem32
        words[0x400D8000 + 0x0C], words[0x40000000] = 1 << 32 | 7, 8
        self.assertEqual((words[0x400D8000 + 0x0C], words[0x40000000]), (7, 8))
        words = again(world, "reset")["machine"].mem32
        self.assertEqual(words[0x400D8000 + 0x0C], 7)
        self.assertNotEqual(words[0x40000000], 8)

    def test_a_light_sleep_ends_when_something_is_due(self):
        world, found = boot("RPI_PICO_W")
        start_us = world.now_us
        found["machine"].Timer(period=2000, mode=0, callback=lambda timer: None)
        found["machine"].lightsleep(60_000)
        self.assertTrue(2_000_000 <= world.now_us - start_us < 2_001_000)
        found["machine"].lightsleep(1000)
        self.assertTrue(3_000_000 <= world.now_us - start_us < 3_001_000)
        with self.assertRaises(ValueError):
            found["machine"].lightsleep(4_294_968)


class Buses(unittest.TestCase):
    def test_registers_and_what_was_written_to_them(self):
        _world, found = boot(values={"i2c 0x76": {"0xD0": "60", "0xF7": "010203"}})
        machine = found["machine"]
        bus = machine.I2C(0, scl=machine.Pin(5), sda=machine.Pin(4))
        self.assertEqual(bus.scan(), [0x76])
        self.assertEqual(bus.readfrom_mem(0x76, 0xF7, 3), b"\x01\x02\x03")
        bus.writeto_mem(0x76, 0xF4, b"\x25")
        buf = bytearray(1)
        bus.readfrom_mem_into(0x76, 0xF4, buf)
        self.assertEqual(bytes(buf), b"\x25")
        self.assertEqual(bus.writeto(0x76, b"\xd0"), 1)
        self.assertEqual(bus.readfrom(0x76, 1), b"\x60")

    def test_a_chip_that_answers_with_text(self):
        _, found = boot(values={"i2c 0x44": "beef92"})
        bus = found["machine"].SoftI2C(scl=5, sda=4, freq=100_000)
        bus.writeto(0x44, b"\x24\x00")
        self.assertEqual(bus.readfrom(0x44, 3), b"\xbe\xef\x92")

    def test_who_does_not_answer_has_the_ports_number(self):
        for board, kind, number in (
            ("ESP32_GENERIC", "I2C", 19), ("RPI_PICO_W", "I2C", 5), ("RPI_PICO_W", "SoftI2C", 19),
        ):  # fmt: skip
            machine = boot(board)[1]["machine"]
            bus = machine.I2C(0) if kind == "I2C" else machine.SoftI2C(5, 4)
            with self.assertRaises(OSError) as context:
                bus.readfrom(0x44, 1)
            self.assertEqual(context.exception.args[0], number)

    def test_bytes_take_their_time(self):
        world, found = boot(values={"i2c 0x44": "00", "spi 1": "aa55"})
        bus = found["machine"].I2C(0, freq=100_000)
        before_us = world.now_us
        bus.readfrom(0x44, 99)
        self.assertTrue(9_000 <= world.now_us - before_us < 9_200)
        spi = found["machine"].SPI(1, baudrate=1_000_000)
        before_us = world.now_us
        self.assertEqual(spi.read(3), b"\xaa\x55\xaa")
        self.assertTrue(24 <= world.now_us - before_us < 100)

    def test_a_sensor_answers_by_uart_at_its_speed(self):
        _world, found = boot(values={"uart 9": "ff8601f4"})
        machine = found["machine"]
        uart = machine.UART(1, baudrate=9600, tx=machine.Pin(10), rx=machine.Pin(9))
        self.assertEqual((uart.any(), uart.read()), (0, None))
        uart.write(b"\xff\x01")
        self.assertEqual(uart.any(), 0)
        found["time"].sleep_us(2200)
        self.assertEqual(uart.any(), 2)
        buf = bytearray(4)
        self.assertEqual(uart.readinto(buf), 2)
        found["time"].sleep_ms(5)
        self.assertEqual(uart.read(8), b"\x01\xf4")

    def test_a_sensor_that_sends_by_itself_and_a_waiting_reader(self):
        world, found = boot(values={"uart 1": {"hex": b"$GPS,1\n".hex(), "every_ms": 1000}})
        uart = found["machine"].UART(1, 9600, timeout=1500)
        self.assertEqual([uart.readline() for _ in range(3)], [b"$GPS,1\n"] * 3)
        self.assertTrue(2_000_000 < world.now_us < 2_100_000)

    def test_what_nobody_reads_is_lost(self):
        _world, found = boot(values={"uart 1": {"hex": "00" * 100, "every_ms": 200}})
        uart = found["machine"].UART(1, 9600)
        uart.any()
        found["time"].sleep(5)
        self.assertTrue(256 <= uart.any() <= 257)


class WiFi(unittest.TestCase):
    def test_joining_takes_time_and_has_the_ports_numbers(self):
        for board, numbers in (("ESP32_GENERIC", (1000, 1001, 1010)), ("RPI_PICO_W", (0, 1, 3))):
            _world, found = boot(board, values={"signal": -70})
            wlan = found["network"].WLAN(found["network"].STA_IF)
            seen = [wlan.status()]
            wlan.active(True)
            wlan.connect("home", "secret")
            seen.append(wlan.status())
            self.assertFalse(wlan.isconnected())
            found["time"].sleep(2)
            self.assertTrue(wlan.isconnected() and wlan.active())
            self.assertEqual(tuple(seen) + (wlan.status(),), numbers)
            self.assertEqual((wlan.ifconfig()[0], wlan.status("rssi")), ("10.0.0.2", -70))
            wlan.disconnect()
            self.assertFalse(wlan.isconnected())

    def test_a_radio_that_is_off_refuses(self):
        for board, wanted in (("ESP32_GENERIC", "Wifi Not Started"), ("RPI_PICO_W", errno.EPERM)):
            with self.assertRaises(OSError) as context:
                boot(board)[1]["network"].WLAN(0).connect("home", "secret")
            self.assertEqual(context.exception.args[0], wanted)

    def test_starting_it_takes_long_on_rp2(self):
        world, found = boot("RPI_PICO_W")
        found["network"].WLAN(0).active(True)
        self.assertTrue(world.now_us > 800_000)

    def test_the_chips_temperature(self):
        given = {"values": {"chip temperature": 50}}
        self.assertEqual(boot(**given)[1]["esp32"].raw_temperature(), 122)
        found = boot("ESP32_GENERIC_C3", **given)[1]["esp32"]
        self.assertEqual(found.mcu_temperature(), 50)
        self.assertFalse(hasattr(found, "raw_temperature"))


class Narrow:
    """A stream that takes four bytes at a time."""

    came = b""

    def write(self, buf, offset, length):
        self.came += bytes(buf[offset : offset + min(length, 4)])
        return min(length, 4)

    def readinto(self, buf):
        return None


class NoWiFi(unittest.TestCase):
    """An outage of the network itself. The radio alone: a broker is not needed."""

    def radio(self, board, spans):
        world, found = boot(board, outages=[[start, end, "no_wifi"] for start, end in spans])
        return world, found, found["network"].WLAN(0)

    def at(self, world, second):
        world.sleep_us(second * 1_000_000 - world.now_us)

    def test_an_esp32_joins_again_by_itself(self):
        world, found, wlan = self.radio("ESP32_GENERIC", [(10, 20)])
        joined(world, found)
        self.at(world, 15)
        self.assertEqual((wlan.isconnected(), wlan.status()), (False, 1001))
        self.at(world, 21)
        self.assertFalse(wlan.isconnected())
        self.at(world, 22)
        self.assertTrue(wlan.isconnected())

    def test_it_does_not_if_told_so(self):
        world, found, wlan = self.radio("ESP32_GENERIC", [(10, 20)])
        wlan.config(reconnects=0)
        joined(world, found)
        self.at(world, 15)
        self.assertEqual(wlan.status(), 200)
        wlan.connect("home", "secret")
        self.at(world, 19)
        self.assertEqual(wlan.status(), 201)
        self.at(world, 30)
        self.assertFalse(wlan.isconnected())

    def test_an_rp2_must_be_told_to(self):
        world, found, wlan = self.radio("RPI_PICO_W", [(10, 20)])
        joined(world, found)
        self.at(world, 15)
        self.assertEqual((wlan.isconnected(), wlan.status()), (False, 0))
        wlan.connect("home", "secret")
        self.at(world, 19)
        self.assertEqual(wlan.status(), -2)
        self.at(world, 30)
        self.assertFalse(wlan.isconnected())
        wlan.connect("home", "secret")
        self.at(world, 32)
        self.assertTrue(wlan.isconnected())

    def test_what_is_written_meanwhile_arrives_later(self):
        world, found, _wlan = self.radio("ESP32_GENERIC", [(10, 20)])
        joined(world, found)
        tcp = found["socket"].socket()
        tcp.connect(("10.0.0.7", 1883))
        self.at(world, 11)
        tcp.setblocking(False)
        self.assertEqual(tcp.write(CONNECT), len(CONNECT))
        self.assertEqual(tcp.readinto(bytearray(4)), None)
        taken = 0
        while True:
            count = tcp.write(bytes(1000))
            if count is None:
                break
            taken += count
        self.assertEqual(taken + len(CONNECT), 5744)
        tcp._unsent = tcp._unsent[: len(CONNECT)]  # zeros are no packet
        self.at(world, 25)
        self.assertEqual(tcp.readinto(bytearray(4)), None)
        self.at(world, 26)
        buf = bytearray(4)
        self.assertEqual((tcp.readinto(buf), bytes(buf)), (4, b" \x02\0\0"))

    def test_the_server_does_not_learn_of_a_close_meanwhile(self):
        for second, effects in ((9, 1), (11, 0)):
            world, found, _ = self.radio("ESP32_GENERIC", [(10, 20)])
            joined(world, found)
            tcp = found["socket"].socket()
            tcp.connect(("10.0.0.7", 1883))
            tcp.write(CONNECT)
            self.at(world, second)
            before = world.effects
            tcp.close()
            self.assertEqual(world.effects - before, effects)

    def test_what_waited_may_go_out_in_parts(self):
        world, found, _ = self.radio("ESP32_GENERIC", [(10, 20)])
        joined(world, found)
        tcp = found["socket"].socket()
        tcp.connect(("10.0.0.7", 1883))
        tcp._stream = Narrow()
        self.at(world, 11)
        tcp.setblocking(False)
        tcp.write(b"0123456789")
        self.at(world, 25)
        while tcp._unsent:
            tcp.readinto(bytearray(1))
        self.assertEqual(tcp._stream.came, b"0123456789")

    def test_there_is_no_way_without_it(self):
        world, found, _wlan = self.radio("RPI_PICO_W", [(10, 20)])
        socket = found["socket"]
        with self.assertRaises(OSError) as context:
            socket.socket().connect(("10.0.0.7", 1883))
        self.assertEqual(context.exception.args[0], errno.EHOSTUNREACH)
        before_us = world.now_us
        with self.assertRaises(OSError) as context:
            socket.getaddrinfo("broker.test", 1883)
        self.assertEqual(context.exception.args[0], -2)
        self.assertTrue(world.now_us - before_us > 5_000_000)


class Tcp(unittest.TestCase):
    def setUp(self):
        self.world, self.found = boot()
        joined(self.world, self.found)
        self.socket = self.found["socket"]

    def connected(self):
        tcp = self.socket.socket()
        tcp.connect(self.socket.getaddrinfo("broker.test", 1883)[0][-1])
        return tcp

    def test_a_blocking_one_waits(self):
        tcp = self.connected()
        self.assertEqual(tcp.write(CONNECT[:-2]) + tcp.write("ab"), len(CONNECT))  # text, too
        self.assertEqual(tcp.read(2) + tcp.recv(2), b" \x02\0\0")
        tcp.settimeout(2)
        before_us = self.world.now_us
        with self.assertRaises(OSError) as context:
            tcp.recv(1)
        self.assertEqual(context.exception.args[0], errno.ETIMEDOUT)
        self.assertTrue(2_000_000 <= self.world.now_us - before_us < 2_010_000)

    def test_one_that_does_not_block(self):
        tcp = self.socket.socket()
        tcp.setblocking(False)
        with self.assertRaises(OSError) as context:
            tcp.connect(("10.0.0.7", 1883))
        self.assertEqual(context.exception.args[0], errno.EINPROGRESS)
        select = self.found["select"]
        poller = select.poll()
        poller.register(tcp, select.POLLOUT)
        self.assertEqual(poller.poll(0), [])
        self.assertEqual(poller.poll(1000), [(tcp, select.POLLOUT)])
        self.assertEqual((tcp.write(CONNECT, 0, 2), tcp.write(CONNECT[2:])), (2, 14))
        self.assertEqual(tcp.readinto(bytearray(4)), None)
        self.assertEqual(tcp.read(4), None)
        with self.assertRaises(OSError) as context:
            tcp.recv(4)
        self.assertEqual(context.exception.args[0], errno.EAGAIN)
        poller.modify(tcp, select.POLLIN)
        self.assertEqual([one for one in poller.ipoll(1000)], [(tcp, select.POLLIN)])
        self.assertEqual(tcp.recv(9), b" \x02\0\0")
        poller.unregister(tcp)
        self.assertEqual(poller.poll(10), [])

    def test_the_end(self):
        tcp = self.connected()
        tcp.write(CONNECT)
        tcp.write(b"\xe0\0")  # DISCONNECT: the server closes
        self.assertEqual(tcp.read(), b" \x02\0\0")
        self.assertEqual((tcp.recv(4), tcp.read(1)), (b"", b""))
        tcp.setblocking(False)
        self.assertEqual(tcp.readinto(bytearray(4)), 0)
        tcp.close()
        with self.assertRaises(OSError) as context:
            tcp.write(b"x")
        self.assertEqual(context.exception.args[0], errno.EBADF)

    def test_nothing_listens_at_a_web_servers_port(self):
        with self.assertRaises(OSError) as context:
            self.socket.socket().connect(("10.0.0.7", 80))
        self.assertEqual(context.exception.args[0], errno.ECONNREFUSED)

    def test_a_broker_that_is_away(self):
        for kind, number in (("refuses", errno.ECONNREFUSED), ("silent", errno.ECONNABORTED)):
            world, found = boot(outages=[[0, 1000, kind]])
            joined(world, found)
            start_us = world.now_us
            with self.assertRaises(OSError) as context:
                found["socket"].socket().connect(("10.0.0.7", 1883))
            self.assertEqual(context.exception.args[0], number)
            self.assertEqual(world.now_us - start_us > 180_000_000, kind == "silent")
            tcp = found["socket"].socket()
            tcp.settimeout(5)
            with self.assertRaises(OSError) as context:
                tcp.connect(("10.0.0.7", 1883))
            limit = number if kind == "refuses" else errno.ETIMEDOUT
            self.assertEqual(context.exception.args[0], limit)

    def test_a_refused_one_is_seen_by_poll(self):
        world, found = boot(outages=[[0, 1000, "refuses"]])
        joined(world, found)
        tcp, select = found["socket"].socket(), found["select"]
        tcp.setblocking(False)
        with self.assertRaises(OSError):
            tcp.connect(("10.0.0.7", 1883))
        poller = select.poll()
        poller.register(tcp, select.POLLOUT)
        self.assertEqual(poller.poll(1000)[0][1], select.POLLERR | select.POLLHUP)

    def test_a_name_is_answered_by_udp(self):
        udp = self.socket.socket(self.socket.AF_INET, self.socket.SOCK_DGRAM)
        udp.setblocking(False)
        udp.connect(("10.0.0.1", 53))
        question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x06broker\x04test\0\0\x01\0\x01"
        udp.send(question)
        self.assertEqual(udp.readinto(bytearray(512)), None)
        self.found["time"].sleep_ms(25)
        answer = udp.recv(512)
        self.assertEqual((answer[:2], answer[-4:]), (b"\x12\x34", b"\x0a\0\0\x07"))
        with self.assertRaises(OSError):
            udp.recv(512)


class Files(unittest.TestCase):
    def test_os_is_over_the_worlds_files(self):
        _world, found = boot(files={"/a/b.txt": "4142"})
        os = found["os"]
        self.assertEqual((os.listdir(), os.listdir("/a")), (["a"], ["b.txt"]))
        self.assertEqual(list(os.ilistdir("a")), [("b.txt", 0x8000, 0, 2)])
        os.rename("a/b.txt", "c.txt")
        self.assertEqual(os.stat("c.txt")[6], 2)
        os.remove("c.txt")
        with self.assertRaises(OSError) as context:
            os.stat("c.txt")
        self.assertEqual(context.exception.args[0], errno.ENOENT)
        self.assertEqual(os.statvfs("/")[2:4], (212, 212))
        self.assertEqual((os.uname()[0], os.uname().release), ("esp32", "1.25.0"))

    def test_the_program_opens_them(self):
        world, _ = boot(files={"a.txt": "4142"})
        with ports.opener(world)("a.txt") as file:
            self.assertEqual(file.read(), "AB")

    def test_randomness_is_the_worlds(self):
        def draw():
            _, found = boot()
            random = found["random"]
            numbers = [random.getrandbits(30), random.randint(1, 6), random.randrange(0, 100, 7)]
            random.seed(3)
            numbers.append(random.getrandbits(32))
            random.seed(3)
            self.assertEqual(numbers[-1], random.getrandbits(32))
            return numbers, random.random(), found["os"].urandom(8), random.choice(b"abc")

        first = draw()
        self.assertEqual(first, draw())
        self.assertTrue(1 <= first[0][1] <= 6 and first[0][2] % 7 == 0 and 0 <= first[1] < 1)

    def test_a_key_value_store_lasts_from_commit_on(self):
        world, found = boot()
        store = found["esp32"].NVS("app")
        store.set_i32("count", -5)
        store.set_blob("word", b"on")
        self.assertEqual(world.files.content, {})
        store.commit()
        twin = world.copy()
        store = modules(twin)["esp32"].NVS("app")
        buf = bytearray(2)
        self.assertEqual((store.get_i32("count"), store.get_blob("word", buf)), (-5, 2))
        self.assertEqual(bytes(buf), b"on")
        with self.assertRaises(OSError):
            store.get_i32("other")
        self.assertEqual(found["os"].listdir(), [])

    def test_flash_is_the_worlds_chip(self):
        world, found = boot()
        kind = found["esp32"].Partition
        outbox = kind.find(kind.TYPE_DATA, label="outbox")[0]
        self.assertEqual(kind.find(kind.TYPE_DATA, label="vfs"), [])
        self.assertEqual(outbox.info()[3], 16 * 4096)
        outbox.writeblocks(1, b"abcd", 8)
        self.assertEqual((world.chip.data[1][8:12], world.effects), (b"abcd", 1))
        world, found = boot("RPI_PICO_W")
        flash = found["rp2"].Flash()
        self.assertEqual(flash.ioctl(4, 0), 16)
        flash.writeblocks(1, b"ab" * 128)
        buf = bytearray(2)
        flash.readblocks(1, buf, 0)
        self.assertEqual(bytes(buf), b"ab")


class Boards(unittest.TestCase):
    def test_an_unknown_one_is_refused(self):
        with self.assertRaises(ValueError):
            boot("ESP8266")

    def test_cpython_has_no_littlefs(self):
        if IS_MICROPYTHON:
            self.skipTest("MicroPython has it")
        world = worlds.World({"board": "RPI_PICO_W"})
        for call in (ports.modules, ports.filesystem):
            with self.assertRaises(ValueError) as context:
                call(world)
            self.assertTrue("--python m" in str(context.exception))

    def reaches(self, board, folder):
        """Open the board's own board.py, and call its link until the broker answers."""
        world, found = boot(board, blocks=64)
        with Installed(found), ports.filesystem(world):
            sys.path.insert(0, folder)
            try:
                module = __import__("board")
            finally:
                sys.path.pop(0)
            board = module.Board()
            board.begin()
            board.open(dict(SETTINGS, outbox_blocks=4))
            stream = None
            while stream is None:
                stream = board.link()
                board.idle(None)
            stream.write(CONNECT, 0, len(CONNECT))
            board.idle(None)
            buf = bytearray(4)
            while stream.readinto(buf) is None:
                board.idle(None)
            self.assertEqual(bytes(buf), b" \x02\0\0")
            self.facts(world, board)

    def facts(self, world, board):
        self.assertEqual(board.device.ioctl(4, 0) in (4, 64), True)
        named = {one.name: one.read() for one in board.sensors}
        self.assertTrue(26 <= named[b"temperature"] // 10 ** (named[b"temperature"] > 100) <= 27)
        self.assertEqual(named[b"signal"], -61)
        self.assertTrue(len(board.random_hex()) == 8)

    def folder_of(self, name):
        """Of the sources, or of what ships."""
        import outpost

        return outpost.__file__.rsplit("/", 3)[0] + "/boards/" + name

    def test_real_esp32_boards_reach_the_broker(self):
        for name in ("ESP32_GENERIC", "ESP32_GENERIC_S3", "ESP32_GENERIC_C3"):
            self.reaches(name, self.folder_of(name))

    def test_a_real_pico_does_over_a_real_littlefs(self):
        if not IS_MICROPYTHON:
            self.skipTest("CPython has no littlefs")
        for name in ("RPI_PICO_W", "RPI_PICO2_W"):
            self.reaches(name, self.folder_of(name))

    def test_a_copy_mounts_its_own_littlefs(self):
        """A power cut starts it while the first board's is mounted."""
        if not IS_MICROPYTHON:
            self.skipTest("CPython has no littlefs")
        world, found = boot("RPI_PICO_W")
        with ports.filesystem(world):
            open_file, os = ports.opener(world), found["os"]
            with open_file("/outbox/a", "w") as file:
                file.write("kept")
            self.assertEqual(os.listdir("/outbox"), ["a"])
            self.assertEqual((world.files.content, os.stat("/outbox/a")[8]), ({}, 0))
            twin = world.copy()
            found = modules(twin)
            with ports.filesystem(twin):
                with ports.opener(twin)("/outbox/a") as file:
                    self.assertEqual(file.read(), "kept")
                found["os"].remove("/outbox/a")
        with ports.filesystem(world):
            self.assertEqual(os.listdir("/outbox"), ["a"])
        with self.assertRaises(OSError):
            os.listdir("/outbox")

    def test_bench_does(self):
        self.reaches("BENCH", self.folder_of("BENCH"))

    def test_benchs_link_gives_up(self):
        world, _found = boot("BENCH", outages=[[0, 100, "silent"]])
        link = sockets.Link(ports.current())
        with self.assertRaises(OSError) as context:
            while not link():
                world.sleep_us(5000)
        self.assertEqual(context.exception.args[0], errno.ETIMEDOUT)
        self.assertTrue(10_000_000 <= world.now_us < 10_100_000)


class Waiting:
    """A program that waits in all ways; notes (what, ms)."""

    def __init__(self, world, asyncio):
        self._world, self._asyncio, self._start_us = world, asyncio, world.now_us
        self.seen = []

    def note(self, what):
        self.seen.append((what, (self._world.now_us - self._start_us) // 10_000 * 10))

    async def tick(self):
        while True:
            await self._asyncio.sleep_ms(100)
            self.note("a")

    async def never(self):
        try:
            await self._asyncio.sleep(1000)
        except self._asyncio.CancelledError:
            self.note("cancelled")
            raise

    async def set_later(self, event):
        await self._asyncio.sleep(0.1)
        event.set()

    async def main(self):
        asyncio = self._asyncio
        ticking = asyncio.create_task(self.tick())
        try:
            await asyncio.wait_for(self.never(), 0.25)
        except asyncio.TimeoutError:
            self.note("late")
        event = asyncio.Event()
        setter = asyncio.create_task(self.set_later(event))
        await event.wait()
        self.note("event")
        await setter
        ticking.cancel()
        await asyncio.sleep(3600)
        self.note("end")
        return "done"


class Asyncio(unittest.TestCase):
    def test_it_runs_in_the_worlds_time(self):
        world, found = boot()
        with Installed(found):
            asyncio = __import__("asyncio")
            program = Waiting(world, asyncio)
            self.assertEqual(asyncio.run(program.main()), "done")
        self.assertEqual(
            program.seen,
            [("a", 100), ("a", 200), ("cancelled", 250), ("late", 250), ("a", 300), ("event", 350),
             ("end", 3_600_350)],
        )  # fmt: skip

    def test_a_dead_world_ends_it(self):
        world, found = boot()
        world.until_us = 5_000_000
        with Installed(found):
            asyncio = __import__("asyncio")

            async def main():
                while True:
                    await asyncio.sleep(0.05)

            with self.assertRaises(Stop):
                asyncio.run(main())


class Imports(unittest.TestCase):
    def test_from_takes_functions_classes_and_numbers(self):
        """MicroPython's takes no method of an object."""
        _, found = boot()
        lines = (
            "from machine import Pin, unique_id", "from time import sleep_ms, ticks_diff",
            "from os import urandom", "from socket import getaddrinfo, SOCK_STREAM",
            "from random import getrandbits", "from select import poll, POLLIN",
            "from network import WLAN, STA_IF", "from ntptime import settime",
        )  # fmt: skip
        names = {}
        with Installed(found):
            for line in lines:
                if IS_MICROPYTHON or "os" not in line:
                    exec(line, names)
            self.assertEqual(names["unique_id"](), b"\x02BENCH")
        self.assertEqual(names["SOCK_STREAM"], 1)


class OnCpythonAlone(unittest.TestCase):
    def setUp(self):
        if IS_MICROPYTHON:
            self.skipTest("MicroPython's own stay, and it cannot read stubs")
        self.world = worlds.World({"board": "ESP32_GENERIC"})

    def test_the_heaps_lock_has_a_depth(self):
        micropython = ports.modules(self.world)["micropython"]
        self.assertEqual((micropython.heap_lock(), micropython.heap_lock()), (None, None))
        self.assertEqual((micropython.heap_unlock(), micropython.heap_unlock()), (1, 0))

    def test_what_is_scheduled_runs_soon(self):
        found = ports.modules(self.world)
        seen = []
        found["micropython"].schedule(seen.append, 7)
        self.assertEqual(seen, [7])

    def test_a_fake_has_no_name_that_its_port_lacks(self):
        import typecheck
        from test_fakes import names_of, public_names

        typecheck.stubs_folder("esp32")
        for board in ("ESP32_GENERIC", "ESP32_GENERIC_C3", "RPI_PICO_W"):
            port = "rp2" if board == "RPI_PICO_W" else "esp32"
            _, found = boot(board)
            for title, thing in _things(found, port):
                more = public_names(thing) - names_of(port, title) - NOT_IN_THE_STUBS
                self.assertTrue(public_names(thing), title)
                self.assertEqual((title, more), (title, set()))


# mcu_temperature: of S3 and C3, the stubs are the first ESP32's. TCP_NODELAY: see test_fakes.py.
NOT_IN_THE_STUBS = {"TCP_NODELAY", "mcu_temperature"}


def _things(found, port):
    """(title, fake) as test_fakes.py names them."""
    machine, socket = found["machine"], found["socket"]
    made = {
        "machine.Pin": machine.Pin(2), "machine.ADC": machine.ADC(26), "machine.RTC": machine.RTC(),
        "machine.WDT": machine.WDT(timeout=8000), "machine.PWM": machine.PWM(2),
        "machine.Signal": machine.Signal(2), "machine.I2C": machine.I2C(0),
        "machine.Timer": machine.Timer(-1 if port == "rp2" else 0),
        "machine.SoftI2C": machine.SoftI2C(5, 4), "machine.SPI": machine.SPI(1),
        "machine.SoftSPI": machine.SoftSPI(), "machine.UART": machine.UART(1),
        "network.WLAN": found["network"].WLAN(0), "socket.socket": socket.socket(),
        "select.poll": found["select"].poll(),
    }  # fmt: skip
    if port == "rp2":
        made["rp2.Flash"] = found["rp2"].Flash()
    else:
        made["esp32.Partition"] = found["esp32"].Partition
        made["esp32.NVS"] = found["esp32"].NVS("a")
    if "gc" in found:
        made["gc"], made["micropython"] = found["gc"], found["micropython"]
    names = "machine", "network", "time", "socket", "select", "random", "ntptime", port
    return [(name, found[name]) for name in names] + list(made.items())


if __name__ == "__main__":
    unittest.main()

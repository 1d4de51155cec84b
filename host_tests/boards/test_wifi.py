"""Wi-Fi, names and time on a fake network with the ports' real status numbers: each fault has its
status, its deadline, its backoff, and no call waits. Where the numbers come from:
fakes/fake_network.py.
"""

import unittest

from fake_network import ESP32, RP2
from outpost import status
from support.dns import Ask, Dns
from support.wifi import fault
from wifi_world import World


class TestWifi(unittest.TestCase):
    def each_port(self, fate, expected, ms=600_000):
        for numbers in (RP2, ESP32):
            with self.subTest(joined=numbers["joined"]):
                world = World(numbers)
                world.radio.fate = fate
                world.run(ms)
                self.assertEqual(set(world.errors), {expected})
                self.backs_off(world)
                self.assertEqual(world.net.open, 0)
                world.radio.fate = "joined"  # and it comes back by itself
                world.run(90_000)
                self.assertEqual(world.net.stream.take()[:1], b"\x10")

    def backs_off(self, world):
        """Half a second, doubling to a minute: `client.backoff_ms`, without its random part."""
        self.assertEqual(world.waits[:4], [250, 500, 1000, 2000])
        self.assertEqual(max(world.waits), 60_000)

    def test_wrong_password(self):
        self.each_port("wrong_password", status.WIFI_WRONG_PASSWORD)

    def test_no_access_point(self):
        self.each_port("no_ap", status.WIFI_NO_AP)

    def test_other_failures(self):
        self.each_port("failed", status.WIFI_FAILED)

    def test_no_address_from_dhcp_within_20_s(self):
        self.each_port("no_address", status.WIFI_TIMED_OUT, 900_000)

    def test_every_number_of_the_ports(self):
        wrong, none, other = status.WIFI_WRONG_PASSWORD, status.WIFI_NO_AP, status.WIFI_FAILED
        for number, expected in (
            (-3, wrong), (15, wrong), (202, wrong), (204, wrong), (-2, none), (201, none),
            (210, none), (211, none), (212, none), (-1, other), (200, other), (203, other),
            (205, other), (8, other), (0, 0), (1, 0), (2, 0), (3, 0), (1000, 0), (1001, 0),
            (1010, 0),
        ):  # fmt: skip
            self.assertEqual(fault(number), expected, str(number))

    def test_esp32_without_reconnects_0_would_never_tell(self):
        """Why a board prepares its interface: ports/esp32/network_wlan.c says "connecting" as long
        as it may try again.
        """
        world = World(ESP32)
        world.wifi._prepare = None
        world.radio.fate = "wrong_password"
        world.run(60_000)
        self.assertEqual(set(world.errors), {status.WIFI_TIMED_OUT})

    def test_lost_in_the_middle(self):
        for numbers, fate in ((RP2, "idle"), (ESP32, "lost")):
            world = World(numbers)
            world.run(5000)
            self.assertEqual((world.net.stream.take()[:1], world.radio.connects), (b"\x10", 1))
            world.radio.fate = fate
            world.net.stream.broken = True
            world.run(100_000)
            lost = status.WIFI_FAILED if numbers is ESP32 else status.WIFI_TIMED_OUT
            self.assertEqual(world.errors[0], status.LINK_LOST)
            self.assertEqual(set(world.errors[1:]), {lost})
            world.radio.fate = "joined"
            world.net.stream.broken = False
            world.run(60_000)
            self.assertEqual(world.net.stream.take()[:1], b"\x10")

    def test_a_signal_that_the_port_refuses_is_no_reading(self):
        def status(what=None):
            raise OSError("Wifi Unknown Error 0x300f")

        world = World(ESP32)
        world.run(5000)
        self.assertEqual(world.wifi.signal(), -61)
        world.wifi._wlan.status = status
        self.assertTrue(world.wifi.signal() is None)

    def test_the_name_server_does_not_answer_or_knows_no_such_name(self):
        for host, answers in (
            ("broker.test", False),
            ("nowhere.test", True),
            ("broken..name", True),
        ):
            world = World(RP2, host=host)
            world.net.dns_answers = answers
            world.run(300_000)
            self.assertEqual(set(world.errors), {status.DNS_FAILED})
            self.backs_off(world)
            self.assertEqual(world.net.open, 0)
            self.assertEqual(world.radio.connects, 1)
        world = World(RP2)
        world.net.dns_answers = False
        world.run(1700)
        began = world.ticks.ms
        while not world.errors:
            world.run(50)
        self.assertTrue(5800 <= world.ticks.ms - began <= 6300, world.ticks.ms - began)

    def test_datagrams_that_answer_nothing_do_not_prolong_the_wait(self):
        world = World(RP2)
        world.net.dns_answers, world.net.flood = False, b"no answer"
        world.run(1700)
        began = world.ticks.ms
        while not world.errors and world.ticks.ms - began < 60_000:
            world.run(50)
        self.assertEqual(world.errors, [status.DNS_FAILED])
        self.assertTrue(5800 <= world.ticks.ms - began <= 6300, world.ticks.ms - began)

    def test_names_compare_without_regard_to_case_and_may_end_in_a_dot(self):
        for host in ("BROKER.Test", "broker.test.", "Broker.TEST."):
            for echo in (bytes, lambda packet: packet.upper(), lambda packet: packet.lower()):
                world = World(RP2, host=host)
                world.net.echo = echo
                world.run(5000)
                self.assertEqual((world.errors, world.net.stream.take()[:1]), ([], b"\x10"))
        for host in ("broker.test..", ".", ".."):
            world = World(RP2, host=host)
            world.run(20_000)
            self.assertEqual(set(world.errors), {status.DNS_FAILED})

    def test_local_names_in_capital_letters_are_asked_for_by_multicast(self):
        for host in ("BROKER.LOCAL", "Broker.Local."):
            world = World(RP2, host=host)
            world.net.names["broker.local"] = b"\x0a\0\0\x07"
            world.run(5000)
            self.assertEqual((world.errors, world.net.stream.take()[:1]), ([], b"\x10"))
            self.assertEqual(world.net.questions[0][0], ("224.0.0.251", 5353))

    def test_an_address_needs_no_name_server(self):
        world = World(ESP32, host="10.0.0.7")
        world.net.dns_answers = False
        world.run(3000)
        self.assertEqual(world.net.stream.take()[:1], b"\x10")

    def test_tcp_that_does_not_connect_and_tcp_that_is_refused(self):
        for answers, expected in (
            ([], status.TIMED_OUT),
            ([(None, 8)], status.LINK_LOST),
            ([(None, 20)], status.LINK_LOST),
        ):
            world = World(RP2)
            world.net.tcp_answers = answers
            world.run(300_000)
            self.assertEqual(set(world.errors), {expected})
            self.backs_off(world)

    def test_nagles_rule_is_off_by_the_ports_own_number(self):
        for numbers in (RP2, ESP32):
            world = World(numbers)
            world.run(5000)
            self.assertEqual(world.net.nodelay, [1], str(numbers["joined"]))

    def test_a_port_without_tcp_nodelay_connects_all_the_same(self):
        world = World(ESP32)
        world.net.nodelay_option = None
        world.run(5000)
        self.assertEqual(world.net.stream.take()[:1], b"\x10")

    def test_no_time_server_plain_tcp_goes_on(self):
        world = World(RP2)
        world.net.ntp_answers = False
        world.run(700_000)
        self.assertEqual((world.time.last_error, world.clock.is_set), (status.NTP_FAILED, False))
        self.assertEqual(world.net.stream.take()[:1], b"\x10")
        # 3 questions each time; waits of 8, 16, 32, 64, 128, 256 s and 6 s for each
        self.assertEqual(len([one for one in world.net.questions if one[0][1] == 123]), 3 * 7)

    def test_no_time_server_tls_waits_and_says_so(self):
        made = []
        world = World(RP2, secure=lambda give: made.append(give) or give)
        world.net.ntp_answers = False
        world.run(120_000)
        self.assertEqual(set(world.errors), {status.NTP_FAILED})
        self.assertEqual((world.client.last_error, world.net.stream.length), (status.NTP_FAILED, 0))
        world.net.ntp_answers = True
        world.run(200_000)
        self.assertTrue(world.clock.is_set)
        self.assertEqual(world.net.stream.take()[:1], b"\x10")


class TestRadio(unittest.TestCase):
    """Times of the calls, in ms. 0.8 s: a start, measured on the emulated Pico W. 2.2 s: one that
    fails last, 70 + 10 + 10 of delays, 1,000 for the clock, 1,000 for the chip's answer
    (cyw43_ll_bus_init, by reading). The watchdog has 8 s."""

    def worlds(self):
        for numbers in (RP2, ESP32):
            world = World(numbers)
            world.radio.start_ms, world.radio.failed_start_ms = 800, 2200
            world.may_wait_ms = 8000
            yield world

    def tells_times(self, world, name):
        port = "RP2" if world.radio.numbers is RP2 else "ESP32"
        print(
            "%s, %s: longest call %d ms, longest poll %d ms"
            % (name, port, world.radio.longest_call_ms, world.longest_poll_ms)
        )
        self.assertTrue(0 < world.radio.longest_call_ms <= world.longest_poll_ms <= 2200)

    def test_a_radio_whose_start_failed_is_switched_on_again(self):
        for world in self.worlds():
            world.radio.failing_starts = 3
            world.run(14_000)
            self.assertEqual(world.errors, [status.WIFI_FAILED] * 3)
            self.assertEqual(world.waits, [250, 500, 1000])
            self.assertEqual(world.net.stream.take()[:1], b"\x10")
            self.assertEqual(
                (world.wifi.radio_failures, world.radio.starts, world.radio.connects), (3, 4, 1)
            )
            self.tells_times(world, "3 starts failed")

    def test_a_radio_that_never_starts_is_tried_at_the_clients_backoff_and_comes_back(self):
        for world in self.worlds():
            world.radio.failing_starts = 1 << 20
            world.run(3_600_000)
            self.assertEqual(set(world.errors), {status.WIFI_FAILED})
            self.assertEqual((world.waits[:4], max(world.waits)), ([250, 500, 1000, 2000], 60_000))
            # one each, not a second one by disconnect()
            self.assertEqual(world.radio.starts, len(world.errors))
            self.assertEqual(world.wifi.radio_failures, len(world.errors))
            world.radio.failing_starts = 0
            world.run(65_000)
            self.assertEqual(world.net.stream.take()[:1], b"\x10")
            self.tells_times(world, "an hour of failed starts")

    def test_a_radio_that_hangs_gets_its_power_cut_after_16_failures_in_a_row(self):
        for world in self.worlds():
            world.run(5000)
            self.assertEqual(world.net.stream.take()[:1], b"\x10")
            world.radio.is_hung = True
            world.net.stream.broken = True
            world.run(5000)
            world.net.stream.broken = False
            while not world.wifi.radio_failures and len(world.errors) < 100:
                world.run(1000)
            world.run(65_000)
            self.assertEqual(world.errors, [status.LINK_LOST] + [status.WIFI_TIMED_OUT] * 16)
            self.assertEqual((world.wifi.radio_failures, world.radio.starts), (1, 2))
            self.assertEqual(world.net.stream.take()[:1], b"\x10")
            self.tells_times(world, "a radio that hangs")

    def test_failures_between_joins_do_not_add_up(self):
        for world in self.worlds():
            for _ in range(6):
                world.radio.fate = "no_ap"
                world.run(120_000)
                world.radio.fate = "joined"
                world.run(60_000)
                self.assertTrue(world.wifi.is_up)
                world.radio.is_trying = False  # out of reach
                world.net.stream.broken = True
                world.run(50)
                world.net.stream.broken = False
            self.assertTrue(world.errors.count(status.WIFI_NO_AP) > 16, world.errors)
            self.assertEqual((world.wifi.radio_failures, world.radio.starts), (0, 1))


class Away:
    is_up = False


class TestTime(unittest.TestCase):
    def test_the_clock_is_set_as_soon_as_the_server_answers(self):
        world = World(RP2)
        world.run(3000)
        self.assertTrue(world.clock.is_set)
        self.assertEqual(world.clock.day, 3_953_000_000 // 86400 - 25567)
        ms = 3_953_000_000 % 86400 * 1000 + 500
        self.assertTrue(ms <= world.rtc[0][1] <= ms + 50)
        self.assertEqual(
            (world.rtc[0][0], world.time.failures, len(world.rtc)), (world.clock.day, 0, 1)
        )

    def test_a_week_without_a_network_does_not_put_the_question_off(self):
        """TLS would wait as long."""
        world = World(RP2)
        world.net.ntp_answers = False
        world.run(20_000)
        self.assertTrue(world.time.failures)
        for _ in range(7 * 24):
            world.ticks.ms += 3_600_000
            world.time.step(world.clock, Away, world.ticks.ticks_ms())
        world.net.ntp_answers = True
        world.run(10_000)
        self.assertTrue(world.clock.is_set)

    def test_after_2036(self):
        world = World(ESP32)
        world.net.ntp_seconds = (1 << 32) + 86400 * 3
        world.run(3000)
        self.assertEqual(world.clock.day, ((1 << 32) + 86400 * 3) // 86400 - 25567)

    def test_a_server_whose_own_clock_was_never_set_has_no_time(self):
        for day in (-100, 0, 10_957, 20_088):  # 1969, 1970, 2000, 2024
            world = World(RP2)
            world.net.ntp_seconds = (25_567 + day) * 86400 + 600
            world.run(30_000)
            self.assertEqual((day, world.time.is_set, world.rtc), (day, False, []))
            self.assertEqual(world.time.last_error, status.NTP_FAILED)
            world.net.ntp_seconds = 3_953_000_000
            world.run(30_000)
            self.assertTrue(world.time.is_set and world.clock.is_set)

    def test_an_answer_to_another_question_is_not_taken(self):
        world = World(RP2)
        good = b"\x24\x02" + bytes(22) + b"12345678" + bytes(8) + b"\xeb\x9e\0\0\0\0\0\0"
        world.time._question = bytes(40) + b"12345678"
        self.assertTrue(world.time._check(good))
        for bad in (
            good[:47],
            b"\x23" + good[1:],  # a question
            b"\xe4" + good[1:],  # a server without time
            b"\x24\x00" + good[2:],  # "kiss of death"
            good[:24] + b"87654321" + good[32:],
            good[:40] + bytes(8),
        ):
            self.assertTrue(world.time._check(bad) is None)

    def test_answers_that_are_none_of_a_name_server(self):
        dns = Dns(Ask(None, None), None, None)
        dns._packet = b"\x12\x34\1\0\0\1\0\0\0\0\0\0\4test\0\0\1\0\1"
        head = b"\x12\x34\x81\x80\0\1\0\1\0\0\0\0\4test\0\0\1\0\1"
        good = head + b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\1\2\3\4"
        self.assertEqual(dns._address(good), "1.2.3.4")
        for other in (
            b"",
            head[:11],
            b"\x12\x35" + good[2:],
            b"\x12\x34\1" + good[3:],
            good.replace(b"test", b"tesd"),
        ):
            self.assertTrue(dns._address(other) is None)
        for length in range(len(head), len(good)):
            with self.assertRaises(OSError):
                dns._address(good[:length])


if __name__ == "__main__":
    unittest.main()

"""More than one network, an access point by its address, addresses without DHCP: what a board tries
in which order, and what it says. On fakes with the ports' numbers: fakes/fake_network.py.
"""

import unittest

from fake_network import ESP32, RP2
from outpost import status
from support.wifi_networks import networks
from wifi_world import World

ATTIC = b"\x3c\x84\x6a\x12\x34\x56"
OTHER = b"\x3c\x84\x6a\x12\x34\x57"
STATIC = ("192.168.1.50", "255.255.255.0", "192.168.1.1", "192.168.1.1")
NO_AP, WRONG = status.WIFI_NO_AP, status.WIFI_WRONG_PASSWORD


def world_of(numbers, listed, near, first=0):
    world = World(numbers, networks=listed, first=first)
    world.radio.near = near
    return world


class TestOrder(unittest.TestCase):
    def worlds(self, *arguments):
        for numbers in (RP2, ESP32):
            yield world_of(numbers, *arguments)

    def test_the_first_that_is_there_is_joined_and_nothing_is_reported(self):
        listed = [("home", "secret12", None, None), ("barn", None, None, None)]
        for world in self.worlds(listed, {"barn": OTHER}):
            world.run(6000)
            self.assertEqual(world.net.stream.take()[:1], b"\x10")
            self.assertEqual(world.radio.tries, [("home", None), ("barn", None)])
            self.assertEqual((world.errors, world.wifi.at), ([], 1))

    def test_a_lost_network_is_tried_first_then_the_others(self):
        listed = [("home", "secret12", None, None), ("barn", None, None, None)]
        for world in self.worlds(listed, {"barn": OTHER}):
            world.run(6000)
            world.radio.tries.clear()
            world.radio.near = {"home": ATTIC}
            world.radio.ended_as = "idle"
            world.net.stream.broken = True
            world.run(50)
            world.net.stream.broken = False
            world.run(8000)
            self.assertEqual(world.radio.tries[:2], [("barn", None), ("home", None)])
            self.assertEqual((world.errors, world.wifi.at), ([status.LINK_LOST], 0))

    def test_a_round_without_a_network_is_one_failure_with_its_most_telling_reason(self):
        listed = [("home", "secret12", None, None), ("barn", "secret34", None, None)]
        for world in self.worlds(listed, {}):
            world.run(300_000)
            self.assertEqual(set(world.errors), {NO_AP})
            self.assertEqual((world.waits[:4], max(world.waits)), ([250, 500, 1000, 2000], 60_000))
            self.assertEqual(len(world.radio.tries), 2 * len(world.errors))
        for world in self.worlds(listed, {"home": ATTIC}):  # the second is out of reach
            world.radio.fate = "wrong_password"
            world.run(60_000)
            self.assertEqual(set(world.errors), {WRONG})

    def test_an_access_point_is_tried_once_by_its_address_then_wherever_the_network_is(self):
        listed = [("home", "secret12", ATTIC, None)]
        for world in self.worlds(listed, {"home": ATTIC}):
            world.run(3000)
            self.assertEqual((world.radio.tries, world.wifi.is_up), ([("home", ATTIC)], True))
        for world in self.worlds(listed, {"home": OTHER}):
            world.run(6000)
            self.assertEqual(world.radio.tries, [("home", ATTIC), ("home", None)])
            self.assertEqual((world.errors, world.wifi.is_up), ([], True))
        for world in self.worlds(listed, {}):
            world.run(60_000)
            self.assertEqual(set(world.errors), {NO_AP})
            self.assertEqual(world.radio.tries[:4], [("home", ATTIC), ("home", None)] * 2)

    def test_the_network_joined_before_a_sleep_is_tried_first(self):
        listed = [("home", "secret12", None, None), ("barn", None, None, None)]
        for numbers in (RP2, ESP32):
            world = world_of(numbers, listed, {"home": ATTIC, "barn": OTHER}, 1)
            world.run(3000)
            self.assertEqual(world.radio.tries, [("barn", None)])
            # the settings have become shorter meanwhile
            world = world_of(numbers, listed[:1], {"home": ATTIC}, 1)
            world.run(3000)
            self.assertEqual(world.radio.tries, [("home", None)])

    def test_a_radio_that_hangs_gets_its_power_cut_after_16_rounds(self):
        listed = [("home", "secret12", ATTIC, None), ("barn", None, None, None)]
        for world in self.worlds(listed, None):
            world.radio.is_hung = True
            while not world.wifi.radio_failures and len(world.errors) < 100:
                world.run(1000)
            self.assertEqual(world.errors, [status.WIFI_TIMED_OUT] * 16)
            self.assertEqual(len(world.radio.tries), 16 * 3)


class TestAddresses(unittest.TestCase):
    def test_addresses_of_a_network_hold_for_that_network_alone(self):
        listed = [("home", "secret12", None, STATIC), ("barn", None, None, None)]
        for numbers in (RP2, ESP32):
            world = world_of(numbers, listed, {"home": ATTIC})
            world.run(3000)
            self.assertEqual((world.radio.addresses, world.wifi.is_up), (STATIC, True))
            self.assertEqual(world.wifi.name_server, "192.168.1.1")
            world = world_of(numbers, listed, {"barn": OTHER})
            world.run(6000)
            self.assertEqual((world.radio.addresses, world.wifi.is_up), (None, True))


class TestSettings(unittest.TestCase):
    def test_what_a_network_may_say(self):
        listed = [
            {
                "ssid": "home", "password": "secret12", "bssid": "3c:84:6a:12:34:56",
                "address": "192.168.1.50/24", "gateway": "192.168.1.1",
            },
            {"ssid": "caf\u00e9"},
            {
                "ssid": "far", "address": "10.1.2.3/20", "gateway": "10.1.0.1",
                "name_server": "9.9.9.9",
            },
        ]  # fmt: skip
        home, open_one, far = networks(listed)
        self.assertEqual(home, ("home", "secret12", ATTIC, STATIC))
        self.assertEqual(open_one, ("caf\u00e9", None, None, None))
        self.assertEqual(far[3], ("10.1.2.3", "255.255.240.0", "10.1.0.1", "9.9.9.9"))

    def test_what_is_wrong_is_named_with_its_entry_and_key(self):
        good = {"ssid": "home"}
        for wrong, words in (
            ("home", "an object"),
            ({}, "'ssid'"),
            ({"ssid": "x" * 33}, "'ssid'"),
            ({"ssid": 5}, "'ssid' must be text"),
            ({"ssid": "home", "pass": "secret12"}, "unknown key 'pass'"),
            ({"ssid": "home", "password": "short"}, "'password'"),
            ({"ssid": "home", "bssid": "3c:84:6a:12:34"}, "'bssid'"),
            ({"ssid": "home", "bssid": "3c-84-6a-12-34-56"}, "'bssid'"),
            ({"ssid": "home", "bssid": "3c:84:6a:12:34:5g"}, "'bssid'"),
            ({"ssid": "home", "address": "192.168.1.50"}, "'address'"),
            ({"ssid": "home", "address": "192.168.1.50/24"}, "'gateway'"),
            (
                {"ssid": "home", "address": "192.168.1.500/24", "gateway": "192.168.1.1"},
                "'address'",
            ),
            ({"ssid": "home", "address": "192.168.1.5/33", "gateway": "192.168.1.1"}, "'address'"),
            ({"ssid": "home", "address": "192.168.1.5/24", "gateway": "router"}, "'gateway'"),
            ({"ssid": "home", "gateway": "192.168.1.1"}, "need 'address'"),
        ):
            with self.assertRaises(ValueError) as caught:
                networks([good, wrong])
            text = str(caught.exception)
            self.assertTrue(text.startswith("key 'wifi_networks', entry 2: "), text)
            self.assertTrue(words in text, text)
            self.assertTrue("short" not in text)
        with self.assertRaises(ValueError):
            networks([])
        with self.assertRaises(ValueError):
            networks([good] * 9)


if __name__ == "__main__":
    unittest.main()

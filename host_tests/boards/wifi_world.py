"""A client over the link of a Wi-Fi board, on a fake network with time under control."""

from fake_network import ESP32, FakeSelect, FakeSocketModule, Net, Radio, Ticks, wlan_of
from outpost.client import Client
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from station.clock import Clock
from support.dns import Ask, Dns
from support.ntp import NetTime
from support.wifi import Wifi
from support.wifi_link import WifiLink

HOME = [("home", "secret", None, None)]


class World:
    """A client over the link of a board, with time under control."""

    def __init__(self, numbers, secure=None, host="broker.test", networks=HOME, first=0):
        self.ticks = ticks = Ticks()
        self.radio, self.net = Radio(numbers, ticks), Net(ticks)
        sockets = FakeSocketModule(self.net, numbers)
        switch_off = (lambda wlan: wlan.deinit(), lambda wlan: wlan.active(False))
        prepare = (lambda wlan: wlan.config(reconnects=0)) if numbers is ESP32 else None
        switch_off = switch_off[numbers is ESP32]
        radio = lambda: wlan_of(self.radio)  # noqa: E731
        self.wifi = Wifi(radio, networks, ticks.ticks_ms, switch_off, prepare, first=first)

        def ask():
            return Ask(sockets, ticks.ticks_ms)

        def bits():
            return 0x1234

        self.rtc = []
        self.time = NetTime(
            ask(),
            Dns(ask(), self.wifi, bits),
            "pool.ntp.org",
            bits,
            ticks.ticks_ms,
            lambda *t: self.rtc.append(t),
        )
        dns = Dns(ask(), self.wifi, bits)
        link = WifiLink(
            self.wifi, dns, self.time, sockets, FakeSelect(), host, 1883, ticks.ticks_ms, secure
        )
        self.client = Client(link, Session(RamOutbox(), b"board-1"))
        self.clock = Clock(ticks.ticks_ms())
        self.errors = []
        self.waits = []
        self.may_wait_ms = self.longest_poll_ms = 0

    def run(self, ms):
        """As main's loop. Notes each failure and the client's wait after it."""
        end = self.ticks.ms + ms
        while self.ticks.ms < end:
            failures = self.client.failures
            before = self.ticks.ms
            self.client.poll(self.ticks.ticks_ms())
            self.time.step(self.clock, self.wifi, self.ticks.ticks_ms())
            self.longest_poll_ms = max(self.longest_poll_ms, self.ticks.ms - before)
            if self.ticks.ms - before > self.may_wait_ms:
                raise AssertionError("a call waited")
            if self.client.failures != failures:
                self.errors.append(self.client.last_error)
                self.waits.append(self.client._wait_ms)
            self.ticks.ms += 50

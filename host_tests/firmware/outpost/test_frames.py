# cpython-only: reads what MicroPython prints of the code that it compiles
"""A call whose frame needs more than 11 words takes it from the heap: no function of the steady
state may.

The interpreter says how many words a function needs: names and stack (N_STATE), and 3 for each
`try` inside another (N_EXC_STACK). The limit is VM_MAX_STATE_ON_STACK in MicroPython's py/vm.c and
py/objfun.c.
"""

import re
import subprocess

import pytest

from outpost_tools.machine import interpreters
from paths import PRODUCT, dotted, joined, library_module

PATH = joined(*PRODUCT)
MOST_WORDS = 11
WORDS_OF_A_TRY = 3
LIBRARY = (  # in whichever room
    "aio checksum client durable exactly_once in_flight level5_aliases level5_expiry "
    "level5_own_aliases level5_subscribing memory outbox packets policies portable "
    "portable_series ram_outbox ram_shelf retry ring series series_outbox session "
    "state_note streaming subscribing suspects "
).split()
MODULES = [dotted(library_module(name)) for name in LIBRARY]
MODULES += (
    "station.clock station.flash_wear station.guard station.health station.sensor_notices "
    "station.series_station station.station station.telemetry support.esp32_board "
    "support.rp2_board support.tls_link support.wifi support.wifi_board support.wifi_link "
    "support.dns support.ntp support.sensor_bus support.sensor_pin support.sensor_uart "
    "sensors.adc sensors.aht20 sensors.battery sensors.bme280 sensors.digital sensors.dht22 "
    "sensors.ds18b20 sensors.pulse sensors.sht3x sensors.sht4x sensors.bh1750 sensors.scd4x "
    "sensors.ina219 sensors.ina226 sensors.pms5003 sensors.mhz19 sensors.hx711 "
).split()
MAY = {  # set-up, and what a page says allocates
    "__init__", "<module>", "<listcomp>", "<genexpr>",
    # coroutines allocate in any case
    "aio.py run", "aio.py publish", "aio.py delivered", "aio.py connected",
    "outbox.py format", "state_note.py _take_note", "exactly_once.py _take_note",  # once a boot
    "subscribing.py encode_filters", "subscribing.py subscribe",  # SUBSCRIBE does
    "subscribing.py _start_request", "session.py _load_suspects",
    "series.py _check", "series.py _check_texts", "series.py _header_of",  # set-up
    "level5_session.py _learn", "level5.py over",  # once a connection; set-up
    "level5_session.py _lengthen",  # a long CONNACK
    "level5_subscribing.py _keep_codes",  # SUBSCRIBE
    "level5_subscribing.py subscribe", "level5_subscribing.py _on_connected",  # SUBSCRIBE
    "ram_shelf.py put", "suspects.py refuse",  # a message that is set aside
    "tls_link.py client_context", "tls_link.py read", "wifi_board.py _pinned_blocks",  # set-up
    "wifi_board.py _open_link", "wifi_board.py _open_wifi", "wifi_board.py _networks",  # set-up
    "wifi_board.py _open_rest",  # the link's second call
    "series_station.py start", "series_station.py _watch",  # set-up
    "chip_sensors.py _one", "chip_sensors.py _at_pin",  # set-up
    "guard.py guarded", "guard.py channels",  # set-up
    "bme280.py _load", "ds18b20.py _choose", "sensor_bus.py i2c", "sensor_uart.py uart",
    "scd4x.py _set",  # construction
    # once a question or answer
    "dns.py _question", "dns.py begin", "dns.py _address", "wifi_board.py _set_rtc",
    "wifi_link.py _connect", "wifi_link.py _give", "tls_link.py _begin",  # once a connection
    "main.py find_built_in", "main.py main", "main.py build", "assembly.py build",
    "assembly.py new_session",
    "main.py settle_update",  # before all imports
    "crash_log.py text_of", "crash_log.py keep",  # the end
}  # fmt: skip


def frames(module: str) -> dict[str, int]:
    """Words of the frame of each function of the modules that importing this one brings along, by
    "file function".
    """
    command = interpreters.find_micropython("i386")
    if command is None:
        pytest.skip("missing MicroPython for i386: run make setup")
    done = subprocess.run(
        [*command, "-v", "-v", "-c", f"import {module}"],
        env={"MICROPYPATH": PATH}, capture_output=True, check=False,
    )  # fmt: skip
    text = done.stdout.decode(errors="replace")
    found = re.findall(
        r"File \S*?([^/\s]+), code block '(\S+)'.*?\(N_STATE (\d+)\)\n\(N_EXC_STACK (\d+)\)",
        text,
        re.DOTALL,
    )
    return {
        f"{file} {name}": int(state) + WORDS_OF_A_TRY * int(tries)
        for file, name, state, tries in found
    }


def too_large(found: dict[str, int]) -> dict[str, int]:
    large = {name: words for name, words in found.items() if words > MOST_WORDS}
    return {
        name: words
        for name, words in large.items()
        if name not in MAY and name.split()[1] not in MAY
    }


@pytest.mark.parametrize("module", MODULES)
def test_no_frame_of_the_steady_state_comes_from_the_heap(module):
    found = frames(module)
    assert any(name.startswith(f"{module.rpartition('.')[2]}.py ") for name in found), (
        "the interpreter printed nothing of it"
    )
    assert not too_large(found), f"words of these frames; at most {MOST_WORDS}"


def test_no_frame_of_the_loop_of_main_comes_from_the_heap():
    found = {name: words for name, words in frames("main").items() if name.startswith("main.py ")}
    assert "main.py run" in found
    assert not too_large(found), f"words of these frames; at most {MOST_WORDS}"

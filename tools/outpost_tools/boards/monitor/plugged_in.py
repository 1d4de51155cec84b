"""The serial ports of USB devices, and what is probably at each."""

from __future__ import annotations

from outpost_tools.errors import ToolError

NOTHING = "no USB device with a serial port is plugged in; is it a data cable?"
_RP2, _ESPRESSIF, _SILICON_LABS, _WCH, _FTDI = 0x2E8A, 0x303A, 0x10C4, 0x1A86, 0x0403
_MAKERS = {
    _RP2: "Raspberry Pi (Pico)",
    _ESPRESSIF: "Espressif (ESP32-S3, C3)",
    _SILICON_LABS: "CP210x (many ESP32 boards)",
    _WCH: "CH340 (many ESP32 boards)",
    _FTDI: "FTDI",
}


def rows(answer_s: float | None) -> list[tuple[str, str]]:
    """One or more rows for each port.

    answer_s: how long to wait for the answers of each board; None: do not ask the boards.
    """
    from serial.tools import list_ports

    ports = [port for port in list_ports.comports() if port.vid is not None]
    found = []
    for port in sorted(ports, key=lambda port: port.device):
        maker = _MAKERS.get(port.vid, "unknown maker")
        found.append((port.device, f"{maker}, {port.description}, {port.vid:04x}:{port.pid:04x}"))
        if answer_s is not None:
            found += _probed(port.device, answer_s)
    return found


def _probed(port: str, answer_s: float) -> list[tuple[str, str]]:
    from outpost_tools.boards.monitor import watching

    try:
        return [("", f"{name}: {value}") for name, value in watching.probe(port, answer_s)]
    except ToolError as error:
        return [("", str(error))]

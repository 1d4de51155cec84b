"""`outpost devices`: what is plugged in."""

from __future__ import annotations

import argparse

_DESCRIPTION = """\
List the serial ports of USB devices, and what is probably behind each, by its USB numbers.
With --probe each is asked: MicroPython, which board, whether Outpost is on it. That interrupts the program of a board,
which then starts anew.
"""
_EXAMPLES = """\
examples:
  outpost devices
  outpost devices --probe
"""
_RP2, _ESPRESSIF, _SILICON_LABS, _WCH, _FTDI = 0x2E8A, 0x303A, 0x10C4, 0x1A86, 0x0403
_MAKERS = {
    _RP2: "Raspberry Pi (Pico)",
    _ESPRESSIF: "Espressif (ESP32-S3, C3)",
    _SILICON_LABS: "CP210x (many ESP32 boards)",
    _WCH: "CH340 (many ESP32 boards)",
    _FTDI: "FTDI",
}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "devices", help="what is plugged in", description=_DESCRIPTION, epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--probe", action="store_true", help="ask each: its program is interrupted")
    parser.add_argument("--timeout", metavar="S", type=float, default=5.0, help="with --probe: wait so long for each answer")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """0; also when nothing is plugged in."""
    from serial.tools import list_ports

    from outpost_tools.device import table

    ports = sorted((port for port in list_ports.comports() if port.vid is not None), key=lambda port: port.device)
    rows = []
    for port in ports:
        rows.append((port.device, f"{_MAKERS.get(port.vid, 'unknown maker')}, {port.description}, {port.vid:04x}:{port.pid:04x}"))
        rows += _probed(port.device, args.timeout) if args.probe else []
    print(table.text(rows) if rows else "nothing is plugged in that has a serial port over USB; is the cable one for data?")
    return 0


def _probed(port: str, answer_s: float) -> list[tuple[str, str]]:
    from outpost_tools.device import watching
    from outpost_tools.errors import ToolError

    try:
        return [("", f"{name}: {value}") for name, value in watching.probe(port, answer_s)]
    except ToolError as error:
        return [("", str(error))]

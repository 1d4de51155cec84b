"""`outpost build`: the firmware as .mpy files, in a compact form, and a table of what they weigh."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.firmware_build import mpy

_DESCRIPTION = """\
Compile firmware/outpost/*.py to .mpy files for an architecture. Names that are not public (firmware/public_names.txt) are
replaced by words that every interpreter has in ROM already, because names are a third of what the firmware takes of a
board's RAM. Line numbers are left out. The folder gets names.txt, which tells what the short names stand for.
"""
_EXAMPLES = """\
examples:
  outpost build --arch armv6m                      Raspberry Pi Pico; armv7emsp: Pico 2; xtensawin: ESP32, S3; rv32imc: C3
  outpost build --arch x86 --board UNIX            with main.py and the board's modules
  outpost build --arch xtensawin --debug           names and line numbers as in the source
  outpost build --explain build/firmware/armv6m/names.txt < traceback.txt
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "build", help="the firmware as .mpy files, with short names", description=_DESCRIPTION, epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    what = f"one of {', '.join(mpy.ARCHITECTURES)}, or `boards`: all that a supported board has (default)"
    parser.add_argument("--arch", metavar="ARCH", choices=[*mpy.ARCHITECTURES, "boards"], default="boards", help=what)
    parser.add_argument("--out", type=Path, help="folder to write to; default build/firmware/ARCH")
    parser.add_argument("--source", type=Path, help="the folder with outpost/ and public_names.txt; default firmware/")
    parser.add_argument("--board", metavar="BOARD", help="with main.py and boards/BOARD/*.py")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--plain", action="store_true", help="with the names of the source, without line numbers")
    form.add_argument("--debug", action="store_true", help="with the names and line numbers of the source, and assertions")
    form.add_argument("--explain", metavar="NAMES", type=Path, help="read a traceback from stdin, write it with long names")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    if args.explain:
        return _explain(args.explain)
    from outpost_tools.firmware_build import output
    from outpost_tools.simulate.interpreter import repository

    root = repository()
    architectures = mpy.BOARD_ARCHITECTURES if args.arch == "boards" else (args.arch,)
    if args.out and len(architectures) > 1:
        raise ToolError("--out takes the files of one architecture: name it with --arch")
    form = "plain" if args.plain else "debug" if args.debug else "compact"
    firmware = output.read(args.source or root / "firmware")
    for name in firmware.unknown:
        print(f"outpost: public_names.txt: {name}: not in the firmware", file=sys.stderr)
    for architecture in architectures:
        folder = args.out or root / "build" / "firmware" / architecture
        built = output.build(firmware, architecture, form)
        if args.board:
            built |= output.board_files(root, args.board, architecture, form)
        output.write(folder, built, firmware, form)
        print(output.table(firmware, architecture), f"{folder}: {len(built)} files, {form}", sep="\n")
    return 0


def _explain(path: Path) -> int:
    from outpost_tools.firmware_build import legend

    entries = legend.load(path)
    for line in sys.stdin:
        sys.stdout.write(legend.explain(line, entries))
    return 0

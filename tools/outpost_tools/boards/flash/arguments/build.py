"""`outpost build`: compiles the firmware to .mpy files, as `outpost flash` copies them, and prints
their sizes."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.boards.flash.arguments import options
from outpost_tools.errors import ToolError
from outpost_tools.terminal.command_line import add_command

SUMMARY = "compile the firmware to .mpy files, as `outpost flash` copies them"
_DESCRIPTION = """\
Compile firmware/outpost, firmware/station and boards/support to .mpy files for an architecture,
with mpy-cross, as `outpost flash` does. Names and line numbers are kept, so a traceback from a
board names file, line and function as in the repository.
"""
_EXAMPLES = """\
examples:
  outpost build --arch armv6m                 Raspberry Pi Pico
                                              (Pico 2 armv7emsp; ESP32, S3 xtensawin; C3 rv32imc)
  outpost build --arch x86 --board UNIX       with main.py and the board's modules
  outpost build --arch armv6m --board RPI_PICO_W --settings kitchen.toml --out kitchen
                                              all that `flash` copies, to be copied by hand
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    from outpost_tools.boards.files.firmware_build import ARCHITECTURES

    parser = add_command(
        subparsers, "build", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument(
        "--arch",
        metavar="ARCH",
        choices=[*ARCHITECTURES, "boards"],
        default="boards",
        help=(
            f"one of {', '.join(ARCHITECTURES)}, or `boards` for those of all supported boards "
            "(default)"
        ),
    )
    parser.add_argument("--out", type=Path, help="folder to write to; default build/firmware/ARCH")
    parser.add_argument(
        "--source", type=Path, help="the folder with outpost/ and station/; default firmware/"
    )
    parser.add_argument("--board", metavar="BOARD", help="add main.py and boards/BOARD/*.py")
    parser.add_argument(
        "--settings",
        metavar="TOML",
        type=Path,
        help="only the modules that these settings of a board need, with drivers and settings",
    )
    options.add_settings_source(parser)


def run(args: argparse.Namespace) -> int:
    """Return 0. Raises ToolError."""
    from outpost_tools.boards.files import firmware_build
    from outpost_tools.machine import source_tree

    root = source_tree.repository()
    every = args.arch == "boards"
    architectures = firmware_build.BOARD_ARCHITECTURES if every else (args.arch,)
    if args.out and len(architectures) > 1:
        raise ToolError("--out takes the files of one architecture: name it with --arch")
    if args.settings:
        return _write_for_a_board(args, root)
    firmware = args.source or root / "firmware"
    texts = firmware_build.sources(firmware)
    if args.board:
        texts |= firmware_build.board_sources(root / "boards" / args.board)
    for architecture in architectures:
        folder = args.out or Path("build", "firmware", architecture)
        built = firmware_build.compile_all(texts, architecture)
        print(firmware_build.table(texts, built, architecture))
        if args.board:
            built[firmware_build.MAIN] = (firmware / firmware_build.MAIN).read_bytes()
        firmware_build.write(folder, built)
        print(f"{folder}: {len(built)} files")
    return 0


def _write_for_a_board(args: argparse.Namespace, root: Path) -> int:
    """Write the files of one board, including its settings, to a new folder. Raises ToolError."""
    from outpost_tools.boards.files import payload
    from outpost_tools.boards.port import kinds
    from outpost_tools.boards.settings import sensor_drivers, settings_file

    if not args.board or not args.out or args.arch == "boards" or args.source:
        raise ToolError("--settings needs --board, --arch and --out, and takes no --source")
    kind = kinds.load(root, args.board)
    settings = settings_file.load(args.settings, kind, args.credentials, keep_names=args.keep_names)
    settings_file.tell_mode(settings, args.settings.name)
    programs = [driver.source for driver in settings.drivers.values()]
    built = payload.build(root, kind, args.arch, settings.full, programs)
    built |= sensor_drivers.files(settings.drivers, args.arch) | settings.files
    try:
        args.out.mkdir(mode=0o700, parents=True)  # it will hold passwords and keys
        for path, data in built.items():
            target = args.out / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    except OSError as error:
        raise ToolError(f"{args.out}: cannot write the build: {error.strerror}") from None
    print(f"{args.out}: {len(built)} files, {sum(map(len, built.values())):,} bytes")
    return 0

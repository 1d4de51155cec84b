"""The image that the arguments name: from a file, or from a live board."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from outpost_tools.boards.outbox import aside, faults
from outpost_tools.boards.outbox.image import Image, read_image
from outpost_tools.boards.outbox.shelf import Shelf, read_shelf
from outpost_tools.errors import ToolError


def examined(args: argparse.Namespace) -> tuple[Image, faults.Findings]:
    """Also sets args.pins and args.shelf, and with --live args.image. Raises ToolError."""
    args.pins = ""
    data = _data(args)
    image = read_image(data)
    args.shelf = read_shelf(data, image.stream, image.age)
    align = getattr(args, "align", "auto")
    return image, faults.examine(data, image, None if align == "auto" else int(align))


def shelf(args: argparse.Namespace) -> Shelf:
    """The messages set aside. With --live, also sets args.image. Raises ToolError."""
    args.pins = ""
    data = _data(args)
    image = read_image(data)
    return read_shelf(data, image.stream, image.age)


@contextlib.contextmanager
def changeable_shelf(args: argparse.Namespace) -> Iterator[aside.Shelf]:
    """The shelf on the board, or in the file itself. Raises ToolError."""
    _check_one(args)
    if args.live is None:
        with aside.image_shelf(args.image) as found:
            yield found
    else:
        from outpost_tools.boards.outbox import board  # late, as below

        with board.shelf(args.live, args.timeout) as found:
            yield found


def arrived_ms(args: argparse.Namespace) -> int:
    """The arrival time for the messages: now for a live board, its last change for a file."""
    if args.live is not None:
        return time.time_ns() // 1_000_000
    return os.stat(args.image).st_mtime_ns // 1_000_000


def _check_one(args: argparse.Namespace) -> None:
    if (args.image is None) == (args.live is None):
        raise ToolError("give an IMAGE or --live PORT" + (", not both" if args.live else ""))


def _data(args: argparse.Namespace) -> bytes:
    _check_one(args)
    if args.live is None:
        if args.save is not None or args.raw:
            raise ToolError("--save and --raw go with --live")
        return aside.bytes_of(args.image)
    data = _read_live(args)
    args.image = args.save or Path(args.live)
    return data


def _read_live(args: argparse.Namespace) -> bytes:
    from outpost_tools.boards.flash import (
        outbox_image,
    )  # late: an image needs neither pyserial nor tqdm

    if args.save is not None and args.save.exists():  # check before waiting for the board
        raise ToolError(f"{args.save} exists already: name another file, or remove it")
    with outbox_image.progress_bar() as show:
        found = outbox_image.read_outbox(args.live, args.timeout, show, raw=args.raw)
    args.pins = found.pins
    if found.pins:
        print(f"note: {args.live}: {found.pins}; reading it anyway", file=sys.stderr)
    if args.save is not None:
        _save(args.save, found.data)
    return found.data


def _save(path: Path, data: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(data)
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None

"""Freeze list of the image `pico-outpost`: as `pico`, with what boards/RPI_PICO_W/manifest.py
freezes for a Pico W.

That list itself needs the port's list for the Pico W, and with it micropython-lib, which Debian's
source leaves out.
"""
# pyright: reportUndefinedVariable=false

include("manifest_stock.py")  # noqa: F821 - the build's own function
include("../../firmware/manifest.py")  # noqa: F821
module("board.py", base_path="../../boards/RPI_PICO_W")  # noqa: F821
module("main.py", base_path="../../firmware")  # noqa: F821

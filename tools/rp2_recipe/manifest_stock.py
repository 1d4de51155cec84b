"""Freeze list of the image `pico`: the port's own modules and asyncio.

The port's own list adds onewire, ds18x20, dht and neopixel of micropython-lib, which Debian's
source leaves out.
"""
# pyright: reportUndefinedVariable=false

freeze("$(PORT_DIR)/modules")  # noqa: F821 - the build's own function
include("$(MPY_DIR)/extmod/asyncio")  # noqa: F821

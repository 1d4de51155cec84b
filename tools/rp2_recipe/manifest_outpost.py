"""Freeze list of the image `pico-outpost`: as `pico`, with the firmware's package in it."""
# pyright: reportUndefinedVariable=false

include("manifest_stock.py")  # noqa: F821 - the build's own function
include("../../firmware/manifest.py")  # noqa: F821

"""The desktop half of Outpost: simulate, collect, pipeline, report. One command, `outpost`."""

from pathlib import Path

# where this package is, whatever room asks: a folder, or a place inside a zip for executors
FOLDER = Path(__file__).resolve().parent
DISTRIBUTION = "outpost-mqtt"  # `outpost` on the package index is somebody else's

"""The desktop half of Outpost: simulate, collect, pipeline, report. One command, `outpost`."""

DISTRIBUTION = "outpost-mqtt"  # `outpost` on the package index is somebody else's

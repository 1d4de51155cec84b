"""The desktop half of Outpost: simulate, collect, pipeline, report. One command, `outpost`."""

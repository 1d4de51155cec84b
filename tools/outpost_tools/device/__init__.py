"""Boards on a serial port: what `outpost flash`, `provision`, `monitor` and `devices` have in
common."""

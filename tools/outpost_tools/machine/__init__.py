"""This machine: files, processes, clock, programs; and the firmware's sources on it.

files.py          replaces files atomically
exposure.py       who else can read a password
children.py       child processes that do not outlive us, signals, free ports
machine_clock.py  whether this machine's clock is set
interpreters.py   MicroPython and mosquitto on this machine
java.py           finds the Java that runs Spark
needs.py          third-party packages: what is missing, and the command that installs it
source_tree.py    where firmware, boards and pages are
firmware.py       what the tools take from the firmware's own sources
board_json.py     JSON for a board: settings and commands
"""

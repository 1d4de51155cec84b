"""Firmware to boards over the broker. What a board does with it: firmware/station/UPDATES.md.

arguments.py   `outpost update`
image.py       the firmware of a board as a signed list and messages; pure
contents.py    the files that a board of a kind should have
course.py      look, transfer, put on trial, report
transfer.py    transfers an image to a board, and continues where an earlier try ended
"""

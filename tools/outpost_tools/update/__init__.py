"""Firmware to boards over the broker; what a board does with it: firmware/station/UPDATES.md.

arguments.py   `outpost update`
image.py       the firmware of a board as a signed list and messages; pure
contents.py    which files a board of a kind is to have
course.py      look, bring, put on trial, report
transfer.py    brings an image to a board, and goes on where an earlier try ended
"""

"""Sends firmware to boards over the broker. firmware/station/UPDATES.md says what a board does with
it.

arguments.py   `outpost update`
image.py       the firmware of a board as a signed list and messages; pure
contents.py    the files that a board of one kind should have
course.py      the steps of an update: look, transfer, put on trial, report
transfer.py    transfers an image to a board, and continues where an earlier try ended
"""

"""Reads a copy of an outbox's flash without a board: a second implementation of
`firmware/OUTBOX_FORMAT.md`.

layout.py    the bytes: header, record, CRC; one block at a time; pure
series_room.py   the samples of a series after its record; pure
salvage.py   what follows damage, where a CRC proves it; pure
image.py     the ring: head, chain, which messages are held
faults.py    the faults of an image, by name
show.py      text and JSON for people and programs
series_show.py   a series, in both
export.py    messages out: JSON lines, or a sealed segment for the pipeline
readings.py  readings out, one per row
wear.py      the model of wear; pure
health.py    the condition of the flash, and what to do about it; pure
board.py     changes to the outbox of a live board: a new one, messages set aside
source.py    the image that the arguments name, examined
arguments/   `outpost outbox show`, check, health, export, wear, new
"""

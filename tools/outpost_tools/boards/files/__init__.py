"""The files of a board: what it should have, what it has, and how one becomes the other.

needed.py          which modules a board needs
firmware_build.py  compiles them
flat_layout.py     the same in one folder, for boards of an older version
payload.py         the files that a board gets
inventory.py       what is on the board
plan.py            the changes, before any is made
install.py         carries them out
"""

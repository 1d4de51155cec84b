"""`outpost flash`, `outpost provision` and `outpost build`.

flashing.py       the steps
first_message.py  whether the first message gets through
held.py           what becomes of messages that the board holds
outbox_image.py   reads the outbox of a live board
"""

"""What the pages, reports and alerts agree on: how boards are.

attention.py  which board needs attention, and what to do about it
silence.py    when a board counts as silent
restarts.py   which starts of a board were unwanted
"""

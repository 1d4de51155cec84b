"""Commands to boards, over the broker; what a board does with one: firmware/station/COMMANDS.md.

arguments.py   `outpost send`
wording.py     words of the command line into a command; pure
delivery.py    sends commands, waits for their answers
line.py        one connection to the broker, and the boards' answers
"""

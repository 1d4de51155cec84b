"""Commands to boards over the broker. What a board does with them: firmware/station/COMMANDS.md.

arguments.py   `outpost send`
wording.py     turns words of the command line into a command; pure
delivery.py    sends commands, waits for their answers
line.py        one connection to the broker, and the boards' answers
"""

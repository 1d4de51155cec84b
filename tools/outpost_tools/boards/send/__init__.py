"""Sends commands to boards over the broker. firmware/station/COMMANDS.md says what a board does
with them.

arguments.py   `outpost send`
wording.py     turns words of the command line into a command; reads files, knows no broker
delivery.py    sends commands and waits for their answers
line.py        one connection to the broker, and the boards' answers
"""

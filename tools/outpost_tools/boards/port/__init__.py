"""A board at a serial port: its console, what it is, its pins.

console.py     stops the program, runs scripts, writes files
connection.py  runs scripts on a board whose program is stopped
kinds.py       the kinds of boards, and whether a board is of one
pinout.py      what the pins of a kind can do, and what uses them
progress.py    shows the steps of the work on a board
table.py       rows in two columns
options.py     options that several subcommands share
"""

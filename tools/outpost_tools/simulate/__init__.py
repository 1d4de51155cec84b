"""A fleet of simulated boards.

children.py      child processes that do not outlive us; free ports
interpreter.py   which MicroPython runs the boards
proxy.py         a board's link: a loopback TCP relay that can be cut
offline.py       the longest time without a connection; pure
orders.py        when the power goes, by seed; pure
journal.py       reads the ground truth that a board writes
board.py         one board: its folder, its process, booted again after each power cut
fleet.py         all boards, the events, draining; the interface for programs (`outpost demo`)
cli.py           `outpost simulate`
"""

from outpost_tools.simulate.cli import add_parser as add_parser

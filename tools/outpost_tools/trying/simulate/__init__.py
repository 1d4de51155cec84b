"""A fleet of simulated boards.

arguments.py     `outpost simulate`
run.py           a fleet for some seconds, then draining, and the table at the end
fleet.py         all boards, the events, draining; the interface for programs (`outpost demo`)
board.py         one board: its folder, its process, booted again after each power cut
interpreter.py   which MicroPython runs the boards
orders.py        when the power is cut, by seed; pure
proxy.py         a board's link: a loopback TCP relay that can be cut
offline.py       the longest time without a connection; pure
journal.py       reads the ground truth that a board writes
"""

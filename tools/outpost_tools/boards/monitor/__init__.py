"""`outpost monitor` and `outpost devices`.

watching.py    at the board's port: listens, or stops it and looks
following.py   at the broker
plugged_in.py  the ports of this machine
"""

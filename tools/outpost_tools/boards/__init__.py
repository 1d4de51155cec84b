"""The commands for boards: `outpost setup`, `flash`, `provision` and so on, and their broker.

broker/    makes a broker with TLS, users and rights
port/      a board at a serial port: its console, what it is, its pins
files/     what a board should have, has, and gets: no step without a plan
settings/  a board's settings, checked before a board is touched
flash/     `outpost flash`, `provision` and `build`
selftest/  `outpost selftest`: a board tests itself
monitor/   `outpost monitor` and `devices`: watches boards, changes nothing
setup/     `outpost setup`: settings, then flashing, in the browser
send/      commands over the broker
update/    new firmware over the broker, on trial
outbox/    reads the image of an outbox, and rescues its messages
"""

"""`outpost demo`: everything for half a minute, with disasters, and then the accounts.

disasters.py   what happens when, by seed; pure
stage.py       broker, collector and fleet of one run, and the disasters done to them
verify.py      journals against tables, row for row; pure
wire.py        how often each message came over the wire
tables.py      the pipeline's tables as verify.py wants them
accounts.py    the table and summary.json
progress.py    what the user sees meanwhile
arguments.py   the subcommand
run.py         the order of it all
"""

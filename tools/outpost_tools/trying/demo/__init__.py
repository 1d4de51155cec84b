"""`outpost demo`: runs everything for half a minute, with disasters, and then does the accounts.

disasters.py   which disasters happen when, by seed; pure
stage.py       broker, collector and fleet of one run, and the disasters that hit them
verify.py      journals against tables, row for row; pure
wire.py        how often each message came over the wire
tables.py      reads the pipeline's tables in the form that verify.py needs
accounts.py    the table and summary.json
progress.py    what the user sees during the run
arguments.py   the subcommand
run.py         the sequence of all steps
"""

"""The collector: MQTT in, durable segments out, PUBACK and confirmation only after fsync.

link.py      the MQTT connection: what arrived, acknowledge, publish, reconnect
log.py       the directory: lock, segments, the snapshot of what is durable
durable.py   message keys -> "durable up to seq N"; pure
confirm.py   when a confirmation is due; pure
loop.py      the order: take, append, fsync, PUBACK, confirm
cli.py       `outpost collect`
"""

from outpost_tools.collect.cli import add_parser as add_parser

"""The collector: MQTT in, durable segments out, PUBACK and confirmation only after fsync.

link.py      the MQTT connection: what arrived, acknowledge, publish (connecting: outpost_tools.mqtt_connection)
log.py       the directory: lock, segments, the snapshot of what is durable
ranges.py    sets of sequence numbers; pure
durable.py   message keys -> "durable up to seq N"; pure
exchange.py  several collectors: what each says to the others, who confirms, and why a word is true; pure
confirm.py   when a confirmation is due; pure
place.py     is this disk the newest under its id? the broker remembers how far it went
loop.py      the order: take, append, fsync, PUBACK, confirm
metrics.py   what is counted: the line on stderr, Prometheus' text format
cli.py       `outpost collect`
"""

from outpost_tools.collect.cli import add_parser as add_parser

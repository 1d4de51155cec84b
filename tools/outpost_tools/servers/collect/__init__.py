"""The collector: MQTT in, durable segments out, PUBACK and confirmation only then.

arguments.py  `outpost collect`
start.py      from the arguments to a running collector
access.py     the broker's address and the login: from options, or from `outpost broker`
link.py       the MQTT connection: what arrived, acknowledge, publish
foreign.py    other people's messages: which are stored, and copies of them
batch.py      what came from the broker in one go
log.py        what a log is, and its law; the two kinds:
disk_log.py   on a disk: lock, segments, fsync
identifiers.py    and the packet identifiers of other people's messages
store_log.py  in a bucket: one PUT, one segment
background.py what goes on meanwhile
upload.py     copies the sealed segments of a disk into a bucket
state.py      the snapshot of what is durable, and what changed since
admission.py  when a key counts as durable: in the log, or in the tables (--confirm-tables); pure
reach.py      how far the tables have read this log
durable.py    from message keys to "durable up to seq N" and what is durable beyond a gap; pure
exchange.py   several collectors: what each says to the others, who confirms, why it is safe; pure
confirm.py    when a confirmation is due; pure
oddities.py   properties that MQTT 5 messages carry beside their payload
rights.py     may the collector write confirmations?
place.py      is this log the newest for its id? the broker remembers how far it had got
shares.py     does the broker have shared subscriptions?
loop.py       the order: take, add, commit, PUBACK, confirm
metrics.py    the counters: the line on stderr, Prometheus' text format, /healthz
health.py     is it well? for /healthz and systemd
clock.py      what is known of this machine's clock, and where it is said
audit.py      damage in sealed segments that the start did not read
notes.py      notes for the report about this collector, kept in its log
"""

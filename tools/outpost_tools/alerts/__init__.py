"""`outpost alerts`, and the alerts of `outpost run` and `outpost live`: they report a problem to a
person, once when it begins and once when it ends.

arguments/     the subcommands
settings.py    alerts.toml as a whole; mistakes are reported by key, at the start
recipients.py  its channels
rules.py       its rules
table.py       a table in it, read key by key
example.py     an example to start from
readings.py    which rules the newest readings break
conditions.py  what is wrong now: readings, silence, what needs attention, collector and disk
ledger.py      what was reported, and what is still to be reported; pure
store.py       the file with both, replaced atomically
text.py        a message as words and JSON
channels.py    e-mail, webhook, command: one attempt each
deadline.py    limits a conversation that trickles
status.py      the output of `outpost alerts status`
trial.py       the message of `outpost alerts test`
courier.py     a channel's queue: when to try, and how often at most
watch.py       the threads, beside the live page

Only watch.py, courier.py and store.py know a clock or a thread.
"""

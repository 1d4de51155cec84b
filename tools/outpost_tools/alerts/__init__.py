"""`outpost alerts`, and the alerts of `outpost run` and `outpost live`: what is wrong reaches a
person, once when it begins and once when it ends.

arguments/     the subcommands
settings.py    alerts.toml, all of it; mistakes are told by key, at the start
recipients.py  its channels
rules.py       its rules
table.py       a table of it, key by key
example.py     one to begin with
readings.py    which rules the newest readings break
conditions.py  what is wrong now: readings, silence, what needs attention, collector and disk
ledger.py      what was told of it, and what is to be told; pure
store.py       the file with both, replaced as a whole
text.py        words and JSON of a message
channels.py    e-mail, webhook, command: one attempt each
deadline.py    bounds a conversation that trickles
status.py      what `outpost alerts status` says
trial.py       the message of `outpost alerts test`
courier.py     a channel's queue: when to try, how often at most
watch.py       the threads of it, beside the live page

No module here but watch.py, courier.py and store.py knows a clock or a thread.
"""

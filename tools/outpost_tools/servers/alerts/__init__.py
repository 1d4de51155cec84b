"""`outpost alerts`, and the alerts of `outpost run` and `outpost live`. An alert reports a problem
to a person, once when it begins and once when it ends.

arguments/     the subcommands
settings.py    alerts.toml as a whole; mistakes are reported by key, at the start
recipients.py  the channels in alerts.toml
rules.py       the rules in alerts.toml
table.py       a table of alerts.toml, read key by key
example.py     an example to start from
readings.py    which rules the newest readings break
conditions.py  what else is wrong now: silence, boards that need attention, collector, disk
ledger.py      what was reported, and what is still to be reported; pure
store.py       the file with both, replaced atomically
text.py        a message as words and JSON
channels.py    one attempt to send: by e-mail, webhook, command or apprise
services.py    the services of the package apprise
deadline.py    limits a conversation in which data only trickles
status.py      the output of `outpost alerts status`
trial.py       the message of `outpost alerts test`
courier.py     a channel's queue: when to try, and how often at most
watch.py       the threads, beside the live page
watched.py     what the alerts read of the live page's fleet

Only watch.py, courier.py and store.py know a clock or a thread.
"""

"""Other people's messages: one TOML file says how topics and payloads become readings.

A mapping is a value, and decoding is a function of it, decode.decode(). The log keeps topic and
bytes as they came, so a mended mapping can be applied to an old log. Needs msgspec (the extra
`sources`).

A reader of the log asks belongs.is_foreign() whether a frame is for the mapping or from a board,
and decodes it with decode.of_frame(). guarantee.identity() is equal for copies of a message;
bounds.Names refuses floods of names, in the order of the log. A message that is_last_known is no
new reading.

The file
schema.py        its keys, typed; reference.py explains them
file.py          from its text to a mapping; refuses patterns that overlap
wording.py       faults in words: file, line, source, what to do
ready/           ready files, each with examples; ready_files.py reads these and a person's own
examples.py      runs the examples of a file
option.py        the option --sources of other commands

From a live broker
listen.py        the connection
heard.py         what was heard, bounded
survey.py        which message matches what
draft.py         a first file from what was heard
unknown.py       drafts for payloads that no ready source reads
guess.py         units, times and kinds of payload by their looks
toml_text.py     writes tables as TOML

A message
mapping.py       a file made ready for decoding: who reads a topic
topics.py        topic patterns with {device} and {metric}, and whether two overlap
paths.py         values by path with `*`
times.py         formats of time, local time with a named zone
pack.py          plain SenML
belongs.py       whether a message is for a mapping, or from a board
decode.py        from topic and bytes to a result
result.py        what a message becomes
guarantee.py     what is promised for it, and how copies are recognised
idents.py        what devices are called beside boards
as_board.py      a message as readers of boards' messages take it
bounds.py        limits, and the names that were seen
"""

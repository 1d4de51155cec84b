"""IBM MQ Publish command messages: MQRFH2 headers with a `<psc>` folder, and the bridge that makes
them from MQTT.

reasons.py    IBM's reason codes, and the faults and errors that carry them
folder.py     one NameValueData folder: XML as MQ uses it; no DTD, no entities, no recursion
header.py     MQRFH2: bytes to headers, folders and body, and back, byte for byte
descriptor.py the MQMD fields that are the other half of a command message
psc.py        the Publish command (`<psc>`): an ordered list of properties
pscr.py       the response (`<pscr>`)
service.py    the folders `<mcd>` and `<usr>`
check.py      every fault of a message, with the reason code that a queue manager would return
mapping.py    MQTT to MQ and back
storage.py    durable output: JSON lines, files, and the list of refused messages
live.py       durable output: a put under syncpoint through `ibmmq`, if that is installed
sources.py    input: an MQTT subscription, or the collector's segments
bridge.py     the loop: take, put, commit, acknowledge
form.py       what build, parse and check read and print
make.py       from the arguments of build to a message
faults.py     every fault of the messages in a file
serve.py      from the arguments of bridge to a running bridge
arguments/    `outpost mq build`, parse, check, bridge

All but sources.py, serve.py and live.py need only Python itself. `tools/MQ.md` is the manual.

`host_tests/tools/servers/mq/test_mq_seed.py` lists each rule of IBM's page with its tests. Those
that let other readers read our bytes are optional:
`host_tests/tools/servers/mq/fetch_mq_readers.py` fetches pymqi and ibmmq, and `apt-get install
tshark` Wireshark. `host_tests/fuzz/fuzz_mq.py` feeds a million random and mutated messages. The
live put runs against a fake `ibmmq`, and against IBM's own Python layer with its C part replaced.
"""

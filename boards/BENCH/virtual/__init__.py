"""A board's world in virtual time, for programs under test. Runs under both Pythons.

What survives a power cut is in one object, and changes only at effects. So a cut is a copy of that
object, damaged as chip.py says, and not an exception: no `except` in the program can swallow it,
and no part of the program runs twice. A board is started in the copy with fresh modules; the
program itself runs on.

world.py                         time, effects, copies
chip.py, flash.py, files.py      flash and its cuts; files by the rules of littlefs and FAT
broker.py, connection.py, sessions.py, packets.py, stream.py, outages.py, collector.py
                                 the server, MQTT 3.1 to 5.0, and the path to it
ports.py and what it names       `machine`, `network`, `socket`, `select`, `time`, `os` of the ports
ledger.py, samples.py            the truth about messages and samples
boots.py, cuts.py, hunt.py, report.py
                                 boot after boot; every cut; what a run left
"""

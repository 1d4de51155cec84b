"""What a run left, as plain data: the same from both Pythons, so that one set of tools reads it.

Bytes are hexadecimal text. An arrival: [ms, topic, payload, QoS, packet identifier, DUP, stream].
"""


def report(world, why, fault=""):
    ledger, broker = world.ledger, world.broker
    stream, first, end = ledger.held()
    return {
        "why": why,
        "fault": fault,
        "ms": world.now_ms(),
        "boots": world.boots,
        "effects": world.effects,
        "came": [_plain(one) for one in broker.came],
        "retained": {topic.hex(): broker.retained[topic].hex() for topic in broker.retained},
        "connects": broker.connects[:],
        "accepted": [_plain(one) for one in ledger.accepted],
        "samples": len(ledger.samples.stored),
        "refused": [_plain(one) + [status] for one, status in ledger.refused],
        "maybe": [_plain(one) for one in ledger.maybe],
        "lost": [_plain(one) for one in ledger.lost()],
        "pending": [_plain(one) for one in ledger.pending()],
        "duplicates": [_plain(one) for one in ledger.duplicates()],
        "invented": [_plain(one) for one in ledger.invented()],
        "out_of_order": [_plain(one) for one in ledger.out_of_order()],
        "violations": broker.violations[:],
        "bites": world.bites[:],
        "open_sockets": world.open_sockets,
        "driven": [list(one) for one in world.driven],
        "held": [stream.hex(), first, end],
        "longest_poll_us": world.longest_poll_us,
        "longest_turn_us": world.longest_turn_us,
        "output": world.output[-200:],
        "files": {name: world.files.content[name].hex() for name in world.files.content},
    }


def _plain(entry):
    return [one.hex() if isinstance(one, bytes) else one for one in entry]

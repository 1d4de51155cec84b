# cpython-only: it starts mosquitto with what `outpost broker` made
"""Who may do what: each kind of user tries each attack at a real mosquitto, over TLS. ALLOWED is
the table of SECURITY.md, and the test of that page compares them."""

import socket
from dataclasses import replace

import paho.mqtt.client as mqtt
import pytest

from made_broker import HOST, MadeBroker, Peer
from outpost_tools.mqtt import credentials
from paths import REPOSITORY
from virtual import packets

KINDS = {
    "anyone": "", "board": "rogue", "monitor": "monitor-1", "reader": "home-assistant",
    "republisher": "republisher", "operator": "desk", "collector": "collector-2", "admin": "admin",
}  # fmt: skip
REFUSED = 0x80
VICTIM = "collector-1"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with MadeBroker(tmp_path_factory.mktemp("made"), "rogue", "cellar") as made:
        for role in ("collector", "reader", "republisher", "operator"):
            made.outpost("add", f"--{role}", KINDS[role])
        made.outpost("add", "--reader", "home-assistant-2")
        yield made


def found(broker, kind):
    """The credentials; of anyone: a board's name with a guessed password."""
    if kind == "anyone":
        return replace(broker.credentials("rogue"), password="guessed")
    if kind == "admin":
        return credentials.load(broker.folder / "admin.json", "admin")
    return broker.credentials(KINDS[kind], kind)


def rogue(broker, kind, **how):
    return Peer(found(broker, kind), **how)


# --- The attacks: each returns whether it succeeded ---


def enters_without_tls(broker, kind):
    who = found(broker, kind)
    texts = (one.encode() for one in (who.client_id, who.user, who.password))
    fields = dict(zip(("client_id", "user", "password"), texts, strict=True), clean=True)
    with socket.create_connection((HOST, broker.port), 10) as link:
        link.sendall(packets.encode("CONNECT", **fields))
        try:
            return link.recv(4)[:1] == b"\x20"
        except ConnectionResetError:
            return False


def empties_a_collectors_queue(broker, kind):
    """CONNECT with its client identifier and a clean session."""
    with broker.peer(VICTIM, "collector", clean=False) as away:
        away.subscribe("outpost/+/data")
    with broker.peer("cellar") as board:
        board.publish("outpost/cellar/data", b"queued")
    with rogue(broker, kind, client_id=VICTIM):
        pass
    with broker.peer(VICTIM, "collector", clean=False) as back:
        back.subscribe("outpost/+/data")
        with broker.peer("cellar") as board:
            board.publish("outpost/cellar/data", b"end")
        topic = "outpost/cellar/data"
        back.until(lambda: (topic, b"end") in back.received, "the last message")
        is_lost = (topic, b"queued") not in back.received
    broker.peer(VICTIM, "collector").client.disconnect()  # a clean session: nothing stays
    return is_lost


def takes_over_a_board(broker, kind):
    """Connects with its client identifier, so that its connection ends."""
    with broker.peer("cellar") as board:
        with rogue(broker, kind, client_id="cellar") as thief:
            return thief.is_connected or not board.is_connected


def _reads(broker, kind, *filters):
    with rogue(broker, kind) as peer:
        return peer.is_connected and any(peer.subscribe(one) != REFUSED for one in filters)


def reads_messages(broker, kind):
    return _reads(broker, kind, "outpost/cellar/data", "outpost/+/data", "outpost/#", "#")


def reads_commands(broker, kind):
    return _reads(broker, kind, "outpost/cellar/command", "outpost/+/command")


def takes_messages_away(broker, kind):
    group = broker.credentials(VICTIM, "collector").share
    return _reads(broker, kind, f"$share/{group}/outpost/+/data", "$share/mine/outpost/+/data")


def _arrives(broker, kind, topic, *, by_will=False):
    """Whether it reaches one who may read that topic. MQTT 3.1.1 acknowledges what it denies."""
    watcher = {
        "outpost/cellar/data": ("collector-1", "collector"),
        "outpost/cellar/durable": ("collector-1", "collector"),
        "outpost/cellar/command": ("cellar", "board"),
        "outpost/cellar/latest/temperature": ("home-assistant-2", "reader"),
        "outpost/collectors/group/collector-1": ("collector-1", "collector"),
    }[topic]
    with broker.peer(*watcher) as seen:
        assert seen.subscribe(topic) != REFUSED
        evil = rogue(broker, kind, will=(topic, b"evil") if by_will else None)
        if evil.is_connected:
            evil.vanish() if by_will else evil.publish(topic, b"evil")
        with rogue(broker, kind):  # its CONNACK comes when the broker is done with the first
            pass
        evil.client.disconnect()
        seen.subscribe(topic)  # its answer comes after all that came
        return (topic, b"evil") in seen.received


def sends_as_another_board(broker, kind):
    return _arrives(broker, kind, "outpost/cellar/data")


def leaves_a_will_as_another_board(broker, kind):
    return _arrives(broker, kind, "outpost/cellar/data", by_will=True)


def confirms(broker, kind):
    return _arrives(broker, kind, "outpost/cellar/durable")


def commands(broker, kind):
    return _arrives(broker, kind, "outpost/cellar/command")


def shows_wrong_values(broker, kind):
    return _arrives(broker, kind, "outpost/cellar/latest/temperature")


def adds_users(broker, kind):
    with rogue(broker, kind, version=mqtt.MQTTv5) as peer:
        made = '{"commands":[{"command":"getDefaultACLAccess"}]}'
        return (
            peer.is_connected and peer.publish("$CONTROL/dynamic-security/v1", made.encode()) == 0
        )


# The table's line -> the attack, and the kinds of users that succeed.
ALLOWED = {
    "connect without TLS": (enters_without_tls, ""),
    "empty a collector's queue, by its client identifier": (empties_a_collectors_queue, ""),
    "end a board's connection, by its client identifier": (takes_over_a_board, ""),
    "read the messages of a board": (
        reads_messages, "monitor republisher operator collector",
    ),
    "read commands to a board": (reads_commands, ""),
    "take messages away (shared subscription)": (takes_messages_away, "collector"),
    "send messages as another board": (sends_as_another_board, ""),
    "leave a will as another board": (leaves_a_will_as_another_board, ""),
    "confirm, so that a board forgets its messages": (confirms, "collector"),
    "send commands to boards": (commands, "operator"),
    "show wrong values to readers": (shows_wrong_values, "republisher"),
    "add or revoke users": (adds_users, "admin"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attack", ALLOWED)
def test_each_kind_of_user_succeeds_in_what_it_may_alone(broker, attack, kind):
    try_it, allowed = ALLOWED[attack]
    assert try_it(broker, kind) == (kind in allowed.split())


def test_the_table_of_the_security_page_says_the_same():
    page = (REPOSITORY / "SECURITY.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()
            if line.startswith("|")]  # fmt: skip
    head = next(row for row in rows if "board" in row and "republisher" in row)
    told = {row[0]: row[1:] for row in rows if row[0] in ALLOWED}
    assert head[1:] == list(KINDS) and told.keys() == ALLOWED.keys()
    for attack, (_, allowed) in ALLOWED.items():
        wanted = ["**yes**" if kind in allowed.split() else "no" for kind in KINDS]
        assert told[attack] == wanted, attack

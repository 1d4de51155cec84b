# cpython-only: tests a desktop tool
"""The simulator's parts without boards: link, offline time, orders, journal."""

import asyncio
import fcntl

import pytest

from outpost_tools import cli
from outpost_tools.trying.simulate.journal import Entry, JournalError, JournalTail, read_journal
from outpost_tools.trying.simulate.offline import OfflineMeter
from outpost_tools.trying.simulate.orders import CUT_MODES, Orders
from outpost_tools.trying.simulate.proxy import Proxy


async def _echo(reader, writer):
    try:
        while data := await reader.read(100):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def with_proxy(scenario):
    """Run `scenario(proxy)` with an echo server behind the proxy."""

    async def run():
        server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        proxy = Proxy("127.0.0.1", server.sockets[0].getsockname()[1])
        await proxy.start()
        try:
            await asyncio.wait_for(scenario(proxy), 120)
        finally:
            await proxy.close()
            server.close()

    asyncio.run(run())


async def _say(link, data):
    """Send, and wait for the echo."""
    reader, writer = link
    writer.write(data)
    assert await asyncio.wait_for(reader.readexactly(len(data)), 60) == data


async def _is_closed(link):
    try:
        return await asyncio.wait_for(link[0].read(1), 60) == b""
    except ConnectionError:
        return True


def connect(proxy):
    return asyncio.open_connection("127.0.0.1", proxy.port)


def test_proxy_relays_and_knows_when_it_is_online():
    async def scenario(proxy):
        link = await connect(proxy)
        assert not proxy.meter.is_online
        await _say(link, b"hello")
        assert proxy.meter.is_online
        link[1].close()
        while proxy.meter.is_online:  # until the loop has seen it
            await asyncio.sleep(0.01)

    with_proxy(scenario)


def test_a_reset_link_ends_connections_and_refuses_new_ones():
    async def scenario(proxy):
        link = await connect(proxy)
        await _say(link, b"hello")
        proxy.cut("reset")
        assert await _is_closed(link)
        assert not proxy.meter.is_online
        assert await _is_closed(await connect(proxy))
        proxy.restore()
        await _say(await connect(proxy), b"again")
        assert proxy.meter.is_online

    with_proxy(scenario)


def test_a_silent_link_carries_nothing_and_then_everything():
    async def scenario(proxy):
        link = await connect(proxy)
        await _say(link, b"hello")
        proxy.cut("silence")
        assert not proxy.meter.is_online
        later = asyncio.create_task(_say(link, b"late"))
        new = await connect(proxy)
        new_later = asyncio.create_task(_say(new, b"new"))
        await asyncio.sleep(0.3)
        assert not later.done() and not new_later.done()
        proxy.restore()
        await later
        await new_later
        assert proxy.meter.is_online

    with_proxy(scenario)


def test_a_broker_that_is_away_ends_the_connection():
    async def scenario(proxy):
        proxy._target = ("127.0.0.1", 1)
        assert await _is_closed(await connect(proxy))

    with_proxy(scenario)


def test_a_proxy_that_was_never_started_can_be_closed():
    asyncio.run(Proxy("127.0.0.1", 1).close())


def test_an_unknown_cut_is_refused():
    with pytest.raises(ValueError, match="choose one of: reset, silence"):
        Proxy("127.0.0.1", 1).cut("axe")


def test_offline_meter():
    meter = OfflineMeter(10.0)
    assert meter.longest_s(12.0) == 2.0
    meter.up(13.0)
    assert meter.longest_s(50.0) == 3.0
    meter.up(60.0)  # a second connection, before the first is known to be dead
    meter.down(61.0)
    assert meter.is_online
    meter.down(70.0)
    assert meter.longest_s(71.0) == 3.0
    assert meter.longest_s(75.0) == 5.0
    meter.finish(75.0)
    assert meter.longest_s(80.0) == 5.0


def plan(seed, **more):
    orders = Orders(seed, **{"cuts": 4, "seconds": 30, "interval_ms": 50, **more})
    return [orders.next_boot() for _ in range(6)]


def test_orders_repeat_with_the_seed_and_cut_in_time():
    assert plan("1/a") == plan("1/a") != plan("1/b")
    for seed in range(100):
        boots = plan(seed)
        operations = [boot["cut_at_operation"] for boot in boots]
        assert all(operations[:4]) and operations[4:] == [0, 0]
        # 4 times up to 1 s without power: what is left must do for the operations.
        assert sum(operations) < (30 - 4) * 20 * 1.3
        assert len({boot["cut_mode"] for boot in boots[:5]}) == len(CUT_MODES)


def test_orders_can_be_told_to_stop():
    orders = Orders("x", cuts=4, seconds=30, interval_ms=50)
    orders.no_more_cuts()
    assert orders.next_boot()["cut_at_operation"] == 0


def test_a_very_short_run_still_cuts():
    assert all(boot["cut_at_operation"] >= 1 for boot in plan("x", seconds=1, interval_ms=1000)[:4])


def test_a_folder_that_cannot_be_made_is_named(tmp_path, capsys):
    (tmp_path / "file").touch()
    out = str(tmp_path / "file")
    assert cli.main(["simulate", "--broker", "127.0.0.1:1", "--out", out]) == 2
    assert "Not a directory" in capsys.readouterr().err


def test_a_second_one_in_the_same_folder_is_refused(tmp_path, capsys):
    """Both would write to the flash of board-1."""
    with (tmp_path / ".lock").open("a") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        assert cli.main(["simulate", "--broker", "127.0.0.1:1", "--out", str(tmp_path)]) == 2
    assert "another `outpost simulate` runs there" in capsys.readouterr().err


def test_journal(tmp_path):
    path = tmp_path / "journal.txt"
    path.write_bytes(
        b'boot 1 0badcafe\nok 0 [{"a": "b c"}]\nrefused 3\ncut 17 random\n'
        b"boot 2 0badcafe\nok 1 half a li"
    )
    assert read_journal(path) == [
        Entry("boot", "0badcafe"),
        Entry("ok", "0badcafe", 0, b'[{"a": "b c"}]'),
        Entry("refused", "0badcafe"),
        Entry("cut", "0badcafe"),
        Entry("boot", "0badcafe"),
    ]


@pytest.mark.parametrize(
    "line", [b"ok 1 x", b"boot 1 a\nok x y", b"boot 1 a\nwhat 1", b"\n", b"boot 1"]
)
def test_damaged_journal_is_named_with_its_line(tmp_path, line):
    path = tmp_path / "journal.txt"
    path.write_bytes(line + b"\n")
    with pytest.raises(JournalError, match=r"journal.txt: line \d"):
        read_journal(path)


LINES = b"ok %d payload ok 3\n", b"sample %d [] sample 3\n"


def test_journal_tail_counts_a_growing_file(tmp_path):
    path = tmp_path / "journal.txt"
    tail = JournalTail(path)
    assert tail.update() == 0
    text = b"boot 1 a\n" + b"".join(LINES[n % 2] % n for n in range(50)) + b"cut 1 all\n"
    for at in range(len(text)):
        with path.open("ab") as file:
            file.write(text[at : at + 1])
        tail.update()
    assert tail.published == 50


def test_a_broker_that_never_answers_or_refuses_is_named():
    async def run():
        answers = [b"", b"\x20\x02\x00\x05", b"\x20\x02\x00\x00"]

        async def answer(reader, writer):
            await reader.read(100)
            writer.write(answers.pop(0))
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        proxy = Proxy("127.0.0.1", server.sockets[0].getsockname()[1])
        await proxy.start()
        faults = []
        while answers:
            reader, writer = await connect(proxy)
            writer.write(b"CONNECT")
            while await reader.read(100):
                pass
            faults.append(proxy.fault)
            writer.close()
        await proxy.close()
        server.close()
        return faults

    silent, refused, taken = asyncio.run(asyncio.wait_for(run(), 120))
    assert "does not answer" in silent and "code 5" in refused and taken == ""

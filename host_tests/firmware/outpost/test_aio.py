import asyncio
import unittest

from bench_client import CONNACK, TOPIC, Bench, puback, publishes, split
from outpost.aio import AsyncClient, PublishError, Stopped
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.series import Series
from outpost.series_outbox import over
from outpost.session import Session
from series_samples import Clock


class Answering(Bench):
    """A server that accepts and acknowledges whatever comes, looked at with each tick."""

    acknowledges = True

    def ticks_ms(self):
        self.now_ms += 10
        if self.stream and not self.stream.closed:
            data = self.stream.take()
            for first, _ in split(data):
                if first == 0x10:
                    self.stream.say(CONNACK)
            for packet_id, _, payload in publishes(data):
                self.got.append(payload)
                if self.acknowledges:
                    self.stream.say(puback(packet_id))
        return self.now_ms


def run(work, **options):
    """work(client, bench), a coroutine, beside the client's own task; returns the bench."""
    bench = Answering(**options)
    bench.got = []

    async def main():
        client = AsyncClient(bench.client, bench.ticks_ms, 1)
        task = asyncio.create_task(client.run())
        await work(client, bench)
        client.stop()
        await task

    asyncio.run(main())
    return bench


class TestAio(unittest.TestCase):
    def test_publish_and_wait_for_delivery(self):
        async def work(client, bench):
            await client.connected()
            seq = await client.publish(TOPIC, b"one")
            self.assertEqual(seq, 0)
            await client.delivered(seq)
            self.assertTrue(client.client.is_drained())

        bench = run(work)
        self.assertEqual(bench.got, [b"one"])
        self.assertFalse(bench.client.is_connected())

    def test_several_tasks_publish_side_by_side(self):
        async def one(client, number):
            for i in range(20):
                await client.delivered(await client.publish(TOPIC, b"%d %d" % (number, i)))

        async def work(client, bench):
            await asyncio.gather(*[one(client, number) for number in range(5)])

        bench = run(work)
        self.assertEqual(
            sorted(bench.got), sorted([b"%d %d" % (n, i) for n in range(5) for i in range(20)])
        )
        for number in range(5):
            mine = [payload for payload in bench.got if payload.startswith(b"%d " % number)]
            self.assertEqual(mine, [b"%d %d" % (number, i) for i in range(20)])

    def test_a_full_outbox_makes_publishers_wait_not_fail(self):
        async def work(client, bench):
            for _ in range(200):
                seq = await client.publish(TOPIC, bytes(100))
            await client.delivered(seq)

        bench = run(work, blocks=2)
        self.assertEqual(len(bench.got), 200)

    def test_qos_0_waits_for_the_connection(self):
        async def work(client, bench):
            self.assertEqual(await client.publish(TOPIC, b"now", qos=0), None)
            self.assertTrue(client.client.is_connected())

        run(work)

    def test_what_waiting_cannot_mend_is_raised_with_its_status(self):
        async def work(client, bench):
            try:
                await client.publish(b"a/#", b"")
            except PublishError as error:
                bench.got.append(error.status)

        self.assertEqual(run(work).got, [-6])

    def test_the_number_is_that_of_the_message_whatever_was_stored_with_it(self):
        """A series that it closes has the number before it; delivered() would wait for that."""

        async def work(client, bench):
            bench.acknowledges = False
            series = Series(bench.outbox, TOPIC, b"board-1", ((b"t", b"Cel", 0),))
            series.add(Clock(20_000, 0), (20,))
            bench.got = await client.publish(TOPIC, b"alarm")

        self.assertEqual(run(work, outbox_class=over(Outbox)).got, 1)

    def test_an_outbox_that_is_not_mounted_is_not_waited_for(self):
        async def work(client, bench):
            session = Session(Outbox(bench.flash), b"board-1")
            try:
                await AsyncClient(Client(None, session), bench.ticks_ms).publish(TOPIC, b"")
            except PublishError as error:
                bench.got.append(error.status)

        self.assertEqual(run(work).got, [-3])


class TestEnd(unittest.TestCase):
    """What is awaited would never come."""

    def ended(self, wait, end):
        """What a task said that awaits wait(client, bench), when end(client, task) was called."""
        bench, said = Answering(blocks=2), []
        bench.got, bench.acknowledges = [], False

        async def waiter(client):
            try:
                await wait(client, bench)
            except Stopped:
                said.append("stopped")

        async def main():
            client = AsyncClient(bench.client, bench.ticks_ms, 1)
            running = asyncio.create_task(client.run())
            waiting = asyncio.create_task(waiter(client))
            await asyncio.sleep(0.01)
            end(client, running)
            await waiting
            try:
                await running
            except (asyncio.CancelledError, ZeroDivisionError):
                pass

        asyncio.run(main())
        return said

    async def for_delivery(self, client, bench):
        await client.delivered(await client.publish(TOPIC, b"one"))

    async def for_room(self, client, bench):
        while True:
            await client.publish(TOPIC, bytes(400))

    async def for_a_connection(self, client, bench):
        bench.client._link = lambda: None
        client.client._lost(-23)
        await client.connected()

    def test_by_stop(self):
        for wait in (self.for_delivery, self.for_room, self.for_a_connection):
            said = self.ended(wait, lambda client, running: client.stop())
            self.assertEqual(said, ["stopped"], wait)

    def test_by_cancelling_run(self):
        said = self.ended(self.for_delivery, lambda client, running: running.cancel())
        self.assertEqual(said, ["stopped"])

    def test_by_a_fault_of_the_board(self):
        def fail(client, running):
            client._ticks_ms = lambda: 1 // 0

        self.assertEqual(self.ended(self.for_delivery, fail), ["stopped"])

    def test_another_one_goes_on(self):
        bench = Answering()
        bench.got = []

        async def main():
            for payload in (b"one", b"two"):
                client = AsyncClient(bench.client, bench.ticks_ms, 1)
                running = asyncio.create_task(client.run())
                await client.delivered(await client.publish(TOPIC, payload))
                client.stop()
                await running

        asyncio.run(main())
        self.assertEqual(bench.got, [b"one", b"two"])


if __name__ == "__main__":
    unittest.main()

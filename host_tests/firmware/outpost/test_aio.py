import asyncio
import unittest

from bench_client import CONNACK, TOPIC, Bench, puback, publishes, split
from outpost.aio import AsyncClient, PublishError


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


if __name__ == "__main__":
    unittest.main()

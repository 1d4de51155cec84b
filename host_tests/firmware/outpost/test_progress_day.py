# slow: a day of virtual time
"""The law of progress (`suspects.py`) at a server that says nothing for a day."""

import unittest

from test_suspects import World, numbered, on_flash


class TestSilence(unittest.TestCase):
    def test_a_server_that_is_silent_for_a_day_has_nothing_set_aside(self):
        world = World(outbox=on_flash())
        world._take = lambda *_: b""
        world.publish(*numbered(10)).run(24 * 3600)
        self.assertEqual(world.outbox.aside, 0)


if __name__ == "__main__":
    unittest.main()

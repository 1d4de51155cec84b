"""Status numbers are repeated in the modules as private constants (an imported name costs RAM): they must be the same."""

import unittest

from outpost import status

_SOURCES = (
    "firmware/outpost/outbox", "firmware/outpost/client", "firmware/station/station", "firmware/station/deep_sleep",
    "boards/support/tls_link", "boards/support/wifi", "boards/support/dns", "boards/support/ntp",
    "boards/support/wifi_link", "firmware/main",
)  # fmt: skip


def _source(name):
    folder = __file__.rsplit("/", 1)[0] if "/" in __file__ else "."
    with open(folder + "/../../../" + name + ".py") as file:
        return file.read()


class TestStatus(unittest.TestCase):
    def test_private_copies_agree(self):
        compared = 0
        names = {name: getattr(status, name) for name in dir(status) if name.isupper()}
        for module in _SOURCES:
            for line in _source(module).split("\n"):
                name, _, rest = line.partition(" = const(")
                if name[1:] in names and name[:1] == "_":
                    value = int(rest.split(")")[0])
                    self.assertEqual(value, names[name[1:]], module + "." + name)
                    compared += 1
        self.assertTrue(compared >= 15)


if __name__ == "__main__":
    unittest.main()

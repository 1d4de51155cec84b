# cpython-only: the desktop's tools
"""Values with their units, as the pages write them."""

import pytest

from outpost_tools.text import words


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (21.5, "Cel", "21.5 °C"),
        (40, "%RH", "40 %"),
        (1, "/", "1"),
        (500, "ppm", "500 ppm"),
        (12, "ug/m3", "12 µg/m³"),
        (28_067, "lx", "28067 lx"),
        (0.1, "A", "0.1 A"),
        (3, "furlong", "3 furlong"),
    ],
)
def test_units_are_as_people_write_them(value, unit, text):
    assert words.with_unit(value, unit) == text

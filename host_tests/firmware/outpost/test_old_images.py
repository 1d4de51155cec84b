# cpython-only: unpacks images with lzma
"""Outboxes of earlier versions: what was promised is there, and they are continued. The sample is
from `old_images.py`, which makes and tries 72 of each version.
"""

import pytest

import old_images

SAMPLE = old_images.sample()


@pytest.mark.parametrize("name", SAMPLE)
def test_it_is_read_and_continued(name):
    old_images.check(SAMPLE[name], seed=len(name))


def test_the_sample_has_every_size_alignment_and_content():
    for version in old_images.VERSIONS:
        names = [name for name in SAMPLE if name.startswith(f"{version}: ")]
        parts = [{*part} for part in zip(*[name.split(": ")[1].split(", ") for name in names])]
        assert [len(part) for part in parts] == [3, 4, 6]

# cpython-only: unpacks images with lzma
"""Outboxes of earlier versions: what was promised is there, and they are continued. The sample is
from `old_images.py`, which makes and tries 72 of each version.
"""

import subprocess

import pytest

import old_images
import paths

SAMPLE = old_images.sample()


@pytest.mark.parametrize("name", SAMPLE)
def test_it_is_read_and_continued(name):
    old_images.check(SAMPLE[name], seed=len(name))


def test_the_sample_has_every_size_alignment_and_content():
    for version in old_images.VERSIONS:
        names = [name for name in SAMPLE if name.startswith(f"{version}: ")]
        parts = [{*part} for part in zip(*[name.split(": ")[1].split(", ") for name in names])]
        assert [len(part) for part in parts] == [3, 4, 6]


def _is_there(commit):
    command = ["git", "cat-file", "-e", f"{commit}:firmware/outpost"]
    return not subprocess.run(command, cwd=paths.REPOSITORY, check=False).returncode


@pytest.mark.long
@pytest.mark.parametrize("version", old_images.VERSIONS)
def test_the_sample_is_what_that_firmware_makes(version):
    commit = old_images.VERSIONS[version]
    if not _is_there(commit):
        pytest.skip("optional: a clone with the whole history")
    made = old_images.made_by(commit)
    of_version = {name: old for name, old in SAMPLE.items() if name.startswith(f"{version}: ")}
    assert len(made) == 72
    assert of_version.items() <= {f"{version}: {name}": old for name, old in made.items()}.items()

# cpython-only: it tests the set-up of the emulated RP2040
"""The image for the emulated RP2040: its recipe, its parts, and what is said where it cannot be
built.
"""

import dataclasses
import io
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

import arm_toolchain
import rp2_image
from outpost_tools.trying.fetch.cache_rules import drop_unused, whole
from outpost_tools.trying.fetch.debian_packages import Unobtainable, unpack_source
from outpost_tools.trying.fetch.program import LOADERS

PROGRAM = Path(rp2_image.__file__)


def run_program(cache, *arguments, **environment):
    """tools/rp2_image.py in a process of its own, with an empty cache."""
    return subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        capture_output=True, text=True, check=False, timeout=120,
        env=os.environ | {"XDG_CACHE_HOME": str(cache)} | environment,
    )  # fmt: skip


def left_in(cache):
    return sorted(path.name for path in (cache / "outpost" / "rp2").glob("*"))


def a_path_with(folder, *programs):
    """A PATH that holds these programs of this machine and no others."""
    folder.mkdir()
    for name in programs:
        (folder / name).symlink_to(shutil.which(name) or pytest.skip(f"optional: no {name} here"))
    return str(folder)


@pytest.fixture
def parts(tmp_path):
    """Toolchain and sources as far as the recipe looks at them."""
    folders = [tmp_path / "toolchain", tmp_path / "sources"]
    for folder in folders:
        folder.mkdir()
        (folder / "packages.txt").write_text("gcc_14.deb\n")
    return folders


def test_the_recipe_key_is_the_same_for_the_same_recipe(parts):
    keys = {
        rp2_image.recipe_key(image, parts) for image in rp2_image.IMAGES.values() for _ in range(2)
    }
    assert len(keys) == len(rp2_image.IMAGES)


def test_another_package_is_another_recipe(parts):
    image = rp2_image.IMAGES["pico"]
    before = rp2_image.recipe_key(image, parts)
    (parts[0] / "packages.txt").write_text("gcc_15.deb\n")
    assert rp2_image.recipe_key(image, parts) != before


def test_a_changed_frozen_file_is_another_recipe(parts, tmp_path, monkeypatch):
    monkeypatch.setattr(rp2_image, "REPOSITORY", tmp_path)
    monkeypatch.setattr(rp2_image, "RECIPE", tmp_path / "recipe")
    firmware = tmp_path / "firmware"
    firmware.mkdir()
    (firmware / "client.py").write_text("A = 1\n")
    image = dataclasses.replace(rp2_image.IMAGES["pico-outpost"], frozen=(firmware,))
    before = rp2_image.recipe_key(image, parts)
    (firmware / "notes.txt").write_text("not frozen\n")
    assert rp2_image.recipe_key(image, parts) == before
    (firmware / "client.py").write_text("A = 2\n")
    assert rp2_image.recipe_key(image, parts) != before


def test_nothing_is_found_in_an_empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert [rp2_image.find(name) for name in rp2_image.IMAGES] == [None] * len(rp2_image.IMAGES)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("usr/bin/arm-none-eabi-gcc", True),
        ("usr/lib/gcc/arm-none-eabi/14.2.1/cc1", True),
        ("usr/lib/gcc/arm-none-eabi/14.2.1/thumb/v6-m/nofp/libgcc.a", True),
        ("usr/lib/gcc/arm-none-eabi/14.2.1/thumb/v7-m/nofp/libgcc.a", False),
        ("usr/lib/arm-none-eabi/newlib/thumb/v6-m/nofp/libc.a", True),
        ("usr/lib/arm-none-eabi/newlib/arm/v5te/hard/libc.a", False),
        ("usr/lib/arm-none-eabi/newlib/nosys.specs", True),
        ("usr/lib/x86_64-linux-gnu/libc.so.6", True),
        ("usr/share/doc/cmake/copyright", False),
    ],
)
def test_of_the_compilers_only_what_the_rp2040_needs_is_kept(name, kept):
    assert arm_toolchain.is_kept(name) is kept


def test_a_program_starts_through_the_unpacked_loader(tmp_path):
    library = Path("/usr/lib") / Path(LOADERS["amd64"]).parent
    if not (Path("/usr/lib") / LOADERS["amd64"]).exists():
        pytest.skip("optional: not an x86-64 Debian machine")
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "usr" / "lib").mkdir()
    (tmp_path / "usr" / "lib" / library.name).symlink_to(library)
    program = tmp_path / "usr" / "bin" / "tool"
    shutil.copy("/bin/echo", program)
    arm_toolchain._start_by_loader(program, tmp_path)
    (tmp_path / "usr" / "bin" / "other-name").symlink_to("tool")
    done = subprocess.run(
        [tmp_path / "usr" / "bin" / "other-name", "a b", "c"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "a b c\n"


def test_uf2_holds_every_page_at_its_address():
    image = bytes(range(256)) * 2 + b"end"
    blocks = rp2_image.uf2(image)
    assert len(blocks) == 3 * 512
    pages = b""
    for number in range(3):
        block = blocks[512 * number : 512 * (number + 1)]
        first, second, flags, address, size, index, count, family = struct.unpack_from("<8I", block)
        assert (first, second, flags, family) == (0x0A324655, 0x9E5D5157, 0x2000, 0xE48BFF56)
        assert (address, size, index, count) == (0x10000000 + 256 * number, 256, number, 3)
        assert block[-4:] == bytes.fromhex("306fb10a")
        pages += block[32 : 32 + size]
    assert pages == image.ljust(768, b"\0")


def test_a_failed_part_leaves_nothing_and_a_killed_one_is_cleared_away(tmp_path):
    (tmp_path / "unfinished-dead").mkdir()
    with pytest.raises(ZeroDivisionError), whole(tmp_path / "part") as work:
        (work / "file").write_text("half")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with whole(tmp_path / "part") as work:
        (work / "file").write_text("whole")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == [
        "part",
        "part/file",
    ]


def test_of_older_recipes_only_what_is_long_unused_goes(tmp_path):
    for name in ("part-1", "part-2", "part-3"):
        (tmp_path / name).mkdir()
    long_ago = time.time() - 15 * 86_400
    os.utime(tmp_path / "part-1", (long_ago, long_ago))
    os.utime(tmp_path / "part-3", (long_ago, long_ago))
    drop_unused(tmp_path / "part-3", "part-*")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["part-2", "part-3"]
    drop_unused(tmp_path / "part-2", "part-*")  # part-3 was used just now
    assert (tmp_path / "part-3").is_dir()


def a_source_package(folder):
    """An upstream archive, and Debian's with one patch for it."""
    patch = b"--- a/hello.c\n+++ b/hello.c\n@@ -1 +1 @@\n-old\n+new\n"
    archives = {
        "thing_1.orig.tar.gz": {"thing-1/hello.c": b"old\n"},
        "thing_1-1.debian.tar.gz": {
            "debian/patches/series": b"# ours\nfix.patch\n",
            "debian/patches/fix.patch": patch,
        },
    }
    for archive_name, contents in archives.items():
        with tarfile.open(folder / archive_name, "w:gz") as archive:
            for name, data in contents.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return sorted(folder.glob("thing_*"))


@pytest.mark.parametrize(
    "in_work_tree", [False, True], ids=["outside", "inside of a git work tree"]
)
def test_a_source_package_is_unpacked_with_its_patches(tmp_path, in_work_tree):
    if in_work_tree:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    source = unpack_source(a_source_package(tmp_path), tmp_path / "unpacked")
    assert (source / "hello.c").read_text() == "new\n"


def test_a_patch_that_does_not_fit_is_an_error(tmp_path):
    source = unpack_source(a_source_package(tmp_path), tmp_path / "unpacked")
    shutil.rmtree(source)
    files = a_source_package(tmp_path)
    with tarfile.open(tmp_path / "thing_1.orig.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("thing-1/hello.c")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"else"))
    with pytest.raises(Unobtainable, match=r"git: error: patch failed: hello\.c"):
        unpack_source(files, tmp_path / "unpacked")


@pytest.mark.parametrize("name", ["../outside.c", "/tmp/outside.c", "thing-1/../../outside.c"])
def test_a_file_outside_of_its_archives_folder_is_refused(tmp_path, name):
    with tarfile.open(tmp_path / "thing_1.orig.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(Unobtainable, match="outside of its folder"):
        unpack_source([tmp_path / "thing_1.orig.tar.gz"], tmp_path / "unpacked")
    assert not list(tmp_path.rglob("outside.c"))


def test_a_machine_without_git_is_told_so(tmp_path):
    path = a_path_with(tmp_path / "bin", "apt-get", "dpkg-deb")
    done = run_program(tmp_path / "cache", PATH=path)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr
        == "image pico: not on this machine: git (they fetch and unpack Debian's packages)\n"
    )
    assert left_in(tmp_path / "cache") == []


def test_a_machine_without_debian_tools_is_told_so(tmp_path):
    done = run_program(tmp_path / "cache", PATH=a_path_with(tmp_path / "bin", "git"))
    assert done.returncode == 1
    assert "not on this machine: apt-get, dpkg-deb" in done.stderr


def test_an_archive_out_of_reach_is_one_line_and_leaves_nothing_half_made(tmp_path):
    a_path_with(tmp_path / "bin", "apt-get", "dpkg-deb", "git")
    address = "http://127.0.0.1:1/debian"  # nothing listens there
    done = run_program(tmp_path / "cache", OUTPOST_DEBIAN_ARCHIVE=address)
    assert done.returncode == 1
    assert (
        done.stderr.startswith("image pico: apt-get: E: Failed to fetch")
        and done.stderr.count("\n") == 1
    )
    assert left_in(tmp_path / "cache") == ["lock"]


def test_an_unknown_image_is_named_with_the_known_ones(tmp_path):
    done = run_program(tmp_path / "cache", "esp32")
    assert done.returncode == 2
    assert "no image esp32; there are pico, pico-outpost, pico-ppp, pico-ppp-outpost" in done.stderr


@pytest.mark.parametrize("name", sorted(rp2_image.IMAGES))
def test_a_built_image_holds_what_its_name_says(name):
    folder = rp2_image.find(name) or pytest.skip(
        f"missing: no image {name}: .venv/bin/python tools/rp2_image.py {name}"
    )
    image = (folder / "firmware.bin").read_bytes()
    assert b"1.25.0" in image and b"asyncio/core.py" in image
    assert (b"outpost/client.py" in image) is name.endswith("outpost")
    assert (b"recvfrom" in image) is name.startswith("pico-ppp")
    assert (folder / "firmware.uf2").read_bytes() == rp2_image.uf2(image)
    assert "gcc-arm-none-eabi" in (folder / "packages.txt").read_text()

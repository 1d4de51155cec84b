# cpython-only: tests a desktop tool
"""Programs out of an archive whose index apt refuses, as of a mirror that is being updated."""

import functools
import hashlib
import http.server
import json
import shutil
import subprocess
import threading

import pytest

import lock_packages
from outpost_tools.machine import interpreters
from outpost_tools.trying.fetch import pinned, programs
from outpost_tools.trying.fetch.debian_packages import Unobtainable
from outpost_tools.trying.fetch.program import Program

PATH = "pool/main/h/hello/hello_1.0+b1_all.deb"  # `+` is another character in an address
HELLO = Program("hello", "hello", "amd64", "/usr/bin/hello", is_static=True)

pytestmark = pytest.mark.skipif(
    not all(shutil.which(name) for name in ("apt-get", "dpkg-deb")),
    reason="optional: apt and dpkg, which Debian and Ubuntu have",
)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def package(folder, target):
    """A package with one program."""
    program = folder / "usr" / "bin" / "hello"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    (folder / "DEBIAN").mkdir()
    (folder / "DEBIAN" / "control").write_text(
        "Package: hello\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@b.example>\n"
        "Description: says hello\n"
    )
    target.parent.mkdir(parents=True)
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-b", folder, target], check=True, capture_output=True
    )


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """An archive with the package, and with a Release file that nothing fits. Its folder."""
    folder = tmp_path / "debian"
    package(tmp_path / "hello", folder / PATH)
    release = folder / "dists" / "trixie" / "InRelease"
    release.parent.mkdir(parents=True)
    release.write_text("Codename: trixie\n")
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        monkeypatch.setenv("OUTPOST_DEBIAN_ARCHIVE", f"http://127.0.0.1:{port}/debian")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(pinned, "LOCK", tmp_path / "packages.lock")
        pin(hashlib.sha256((folder / PATH).read_bytes()).hexdigest())
        yield folder
        server.shutdown()


def pin(digest, path=PATH):
    pinned.LOCK.write_text(json.dumps({HELLO.folder: {path: digest}}))


@pytest.fixture
def fetcher(tmp_path):
    for name in ("cache", "work"):
        (tmp_path / name).mkdir()
    return programs.Fetcher(tmp_path / "cache", tmp_path / "work", interpreters.machine("x86_64"))


def test_a_program_is_had_by_the_hash_of_its_files(archive, fetcher, tmp_path, capsys):
    fetcher.get(HELLO)
    done = subprocess.run([tmp_path / "cache" / "bin" / "hello"], check=True, capture_output=True)
    assert done.stdout == b"hello\n"
    assert "InRelease" in capsys.readouterr().out, "why the index was not used"


def test_a_file_that_is_not_what_it_was_is_refused(archive, fetcher, tmp_path):
    pin("0" * 64)
    with pytest.raises(Unobtainable, match=r"InRelease.*nor by packages\.lock: .*Hash"):
        fetcher.get(HELLO)
    assert not HELLO.is_in(tmp_path / "cache")


def test_a_file_that_the_archive_has_no_more_is_named(archive, fetcher):
    pin("0" * 64, "pool/main/h/hello/hello_0.9_all.deb")
    with pytest.raises(Unobtainable, match=r"hello_0\.9_all\.deb"):
        fetcher.get(HELLO)


def test_a_program_without_pins_is_told_so(archive, fetcher):
    pinned.LOCK.write_text("{}")
    with pytest.raises(Unobtainable, match=f"packages.lock has no files for {HELLO.folder}"):
        fetcher.get(HELLO)


def test_each_package_that_is_fetched_has_its_files():
    for architecture, package in lock_packages.all_packages():
        files = pinned.files_of(architecture, package)
        names = {path.rpartition("/")[2].partition("_")[0] for path in files}
        assert package in names, f"{package} for {architecture}: run `make lock-packages`"
        assert all(path.startswith("pool/main/") for path in files)
        assert all(len(bytes.fromhex(digest)) == 32 for digest in files.values())


def test_so_has_all_that_such_a_program_needs():
    for program in lock_packages.all_programs():
        paths = pinned.files_of(program.architecture, program.package)
        assert program.is_static or any("/libc6_" in path for path in paths), program

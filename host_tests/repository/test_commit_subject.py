# cpython-only: it tests a script of the desktop
"""Subjects of commits have one form, checked by a hook that needs nothing from elsewhere."""

import shutil
import subprocess

import pytest
import yaml

import commit_subject
from paths import REPOSITORY

# Commits that were there before the hook, with what it says of them.
KNOWN = {"Makefile, .ci/run: make rp2; the emulated RP2040 runs in CI."}


@pytest.mark.parametrize(
    "subject",
    [
        "outpost/client: None is no topic, before the first good one either.",
        "CHANGELOG, README: What a message costs now, and what was shown where.",
        "tools: 100 columns; docstrings and comments rewrapped.",
        "boards/*/board.py: `sleep` takes milliseconds.",
        ".ci/run: A shell that fails ends it.",
        "tools: " + "X" * 64 + ".",
        "Merge branch 'main' into tools",
        'Revert "outpost/client: None is no topic."',
        "fixup! tools: It.",
    ],
)
def test_a_good_subject_passes(subject):
    assert commit_subject.fault(subject) is None


@pytest.mark.parametrize(
    ("subject", "says"),
    [
        ("tools: " + "X" * 65 + ".", "73 characters, 72 at most"),
        ("tools: no capital.", "form"),
        ("tools: No full stop", "form"),
        ("tools:No space.", "form"),
        ("tools:  Two spaces.", "form"),
        ("Only a sentence.", "form"),
        ("two words: A sentence.", "form"),
        ("tools, : A sentence.", "form"),
        ("", "form"),
    ],
)
def test_another_one_is_refused_with_the_reason(subject, says):
    assert says in commit_subject.fault(subject)


@pytest.mark.parametrize(("first", "status"), [("tools: It works.", 0), ("it works", 1)])
def test_the_hook_reads_the_first_line_that_is_no_comment(tmp_path, capsys, first, status):
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text(f"# on branch x\n\n{first}\n\nany body, of any form\n# comment\n")
    assert commit_subject.main([str(file)]) == status
    assert (first in capsys.readouterr().err) == bool(status)


def test_the_last_subjects_of_this_repository_have_the_form():
    if not (REPOSITORY / ".git").exists() or not shutil.which("git"):
        pytest.skip("optional: no history: a copy of the sources without git")
    command = ["git", "log", "--no-merges", "-30", "--format=%s"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    wrong = [subject for subject in done.stdout.splitlines() if commit_subject.fault(subject)]
    assert set(wrong) <= KNOWN


def test_a_range_is_read_from_git(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "init", "-q"], check=True)
    for subject in ("a: One.", "b: Two.", "three"):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", subject], check=True)
    assert commit_subject.main(["--range", "HEAD~2..HEAD~1"]) == 0
    assert commit_subject.main(["--range", "HEAD~1..HEAD"]) == 1


def test_every_hook_is_local_and_its_program_is_there():
    config = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())
    assert {repository["repo"] for repository in config["repos"]} == {"local"}
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    assert {hook["id"] for hook in hooks} == {"ruff-check", "ruff-format", "commit-subject"}
    for hook in hooks:
        words = hook["entry"].split()
        assert hook["language"] == "system" and words[0] in (".venv/bin/ruff", ".venv/bin/python")
        assert all((REPOSITORY / word).exists() for word in words if word.startswith("tools/"))

# cpython-only: builds and installs the desktop tools
# ruff: noqa: F811 - fixtures of built_package
"""What `pip install` brings: the whole command, in one package, from any folder.

Built offline by the build backend of .venv, from the files that git knows, and installed into an
empty environment that sees the other packages of .venv but not this one. PACKAGE_DEMO=1 runs the
demo from there, too.
"""

import ast
import os
import re
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from built_package import (  # noqa: F401 - fixtures
    OFFLINE,
    PIP,
    bare,
    done,
    installed,
    run,
    source,
    tracked,
    users_environment,
    wheel,
)
from outpost_tools import DISTRIBUTION
from outpost_tools.loopback.broker import ANY_USER, Broker
from outpost_tools.machine import children, needs
from paths import REPOSITORY
from real_broker import need_mosquitto, wait_for

TREE = "outpost_tools/tree/"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
# In the repository, and not in the package: what works on the repository itself.
NOT_SHIPPED = re.compile(
    r"(\.|host_tests/|Makefile|pyproject\.toml|tools/(rp2_recipe/|[^/]+\.(py|lock)$))"
)
pytestmark = pytest.mark.timeout(900)


def place(name: str) -> str:
    """Where a file of the repository is in the wheel."""
    is_code = name.startswith("tools/outpost_tools/") and not name.endswith(".md")
    return name.removeprefix("tools/") if is_code else TREE + name


@pytest.fixture(scope="module")
def archive(source, tmp_path_factory) -> Path:
    """The source archive."""
    folder = tmp_path_factory.mktemp("archive")
    code = "import sys, setuptools.build_meta as backend; backend.build_sdist(sys.argv[1])"
    done([sys.executable, "-c", code, folder], source)
    return next(folder.glob("*.tar.gz"))


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist() if not name.endswith("/")}


# --- What is in it ---


def test_the_list_of_packages_is_complete():
    tools = REPOSITORY / "tools"
    found = {
        ".".join(path.parent.relative_to(tools).parts)
        for path in (tools / "outpost_tools").rglob("__init__.py")
    }
    assert {*found, "outpost_tools.tree"} == set(PROJECT["tool"]["setuptools"]["packages"])


def test_the_wheel_holds_the_repository_without_what_works_on_it(wheel):
    wanted = {place(name): name for name in tracked() if not NOT_SHIPPED.match(name)}
    found = {name: data for name, data in contents(wheel).items() if ".dist-info/" not in name}
    assert sorted(set(wanted) - set(found)) == [], "missing in the wheel"
    assert sorted(set(found) - set(wanted)) == [], "in the wheel, and should not be"
    assert [name for name in found if found[name] != (REPOSITORY / wanted[name]).read_bytes()] == []
    assert f"{TREE}firmware/main.py" in found and f"{TREE}boards/RPI_PICO_W/board.py" in found


def test_the_wheel_takes_one_name_at_top_level(wheel):
    assert {name.split("/")[0] for name in contents(wheel) if ".dist-info/" not in name} == {
        "outpost_tools"
    }
    assert not [name for name in contents(wheel) if "__pycache__" in name or "host_tests" in name]


@pytest.mark.long
def test_the_source_archive_builds_the_same_wheel(archive, wheel, tmp_path):
    with tarfile.open(archive) as file:
        assert not [name for name in file.getnames() if "host_tests" in name]
    done([*PIP, "wheel", *OFFLINE, "--wheel-dir", tmp_path, archive], tmp_path)
    assert contents(next(tmp_path.glob("*.whl"))) == contents(wheel)


def test_links_between_the_pages_lead_somewhere_in_the_package_too(wheel):
    """But for those to the tests, which are not in it."""
    files = set(contents(wheel))
    folders = {str(parent) for name in files for parent in Path(name).parents}
    for name in (name for name in files if name.startswith(TREE) and name.endswith(".md")):
        page = name.removeprefix(TREE)
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", (REPOSITORY / page).read_text()):
            target = os.path.normpath(f"{Path(page).parent}/{link}")
            if not link.startswith("http") and not NOT_SHIPPED.match(f"{target}/"):
                assert place(target) in files | folders or TREE + target in folders, (
                    f"{page}: {link}"
                )


def test_each_hint_names_an_extra_that_is_there():
    extras = PROJECT["project"]["optional-dependencies"]
    named = {extra: needs.EXTRAS[extra] for extra in needs.EXTRAS if extra != "boards"}
    for extra, modules in named.items():
        listed = {re.split(r"[=<>]", text)[0] for text in extras[extra]}
        assert set(modules) <= listed, f"{extra}: {modules}"
    assert PROJECT["project"]["name"] == DISTRIBUTION


def imported(tree: ast.AST, *, anywhere: bool) -> list[str]:
    """Names of modules. anywhere: in functions, too; else what importing it imports."""
    found, left = [], [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
        is_later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not anywhere
        is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not is_later and not is_for_types:
            left += ast.iter_child_nodes(node)
    return found


def needed_by(job: str) -> set[str]:
    """Packages of others that a job imports, itself anywhere or by another module of ours."""
    tools = REPOSITORY / "tools"
    own = set((tools / "outpost_tools" / job).rglob("*.py"))
    left, seen, found = [*own], set(own), set()
    while left:
        path = left.pop()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name in imported(tree, anywhere=path in own):
            place = tools / Path(*name.split("."))
            if not name.startswith("outpost_tools"):
                found.add(name.split(".")[0])
                continue
            new = {place.with_suffix(".py"), place / "__init__.py"} - seen
            left += [one for one in new if one.is_file()]
            seen |= new
    return found - sys.stdlib_module_names


@pytest.mark.parametrize(
    ("job", "extras"),
    [("readings/export", ["export"]), ("readings/report", ["report"]),
     ("readings/pipeline", ["pipeline"]), ("readings/sources", ["sources"]),
     ("servers/home", []), ("servers/live", ["sources"]),
     ("servers/collect", ["sources", "tables"]), ("servers/republish", ["sources"]),
     ("boards/flash", []), ("boards/monitor", []), ("boards/selftest", [])],
)  # fmt: skip
def test_an_extra_brings_all_that_its_job_imports(job, extras):
    """[report] alone ended in a traceback: numpy and pandas came with [pipeline] only."""
    listed = [*PROJECT["project"]["dependencies"]]
    for extra in extras:
        listed += PROJECT["project"]["optional-dependencies"][extra]
    brought = {re.split(r"[=<>]", text)[0].replace("-", "_") for text in listed}
    brought |= {"paho", "prometheus_client", "markupsafe"}  # markupsafe: of jinja2
    brought |= {"serial"} if job.startswith("boards/") else set()
    assert needed_by(job) - brought == set()


@pytest.mark.parametrize(
    ("marks", "uses", "told"),
    [
        ({"pipx_metadata.json": ""}, "", "pipx runpip outpost-mqtt install 'outpost-mqtt[report]'"),
        ({"uv-receipt.toml": ""}, "", "uv tool install 'outpost-mqtt[report]"),
        ({"pyvenv.cfg": "home = /usr\nuv = 0.9\n"}, "", "uvx --from 'outpost-mqtt[report]"),
        ({}, "", "/bin/python -m pip install 'outpost-mqtt[report]'"),
        ({}, "pip", "run: pip install 'outpost-mqtt[report]'"),
    ],
)  # fmt: skip
def test_the_hint_fits_the_way_of_installation(tmp_path, monkeypatch, marks, uses, told):
    """Debian's pip refuses to install outside of a virtual environment."""
    for name, text in marks.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pip").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "pip").chmod(0o755)
    monkeypatch.setattr(needs.source_tree, "is_checkout", lambda: False)
    monkeypatch.setattr(needs, "find_spec", lambda name: None)
    monkeypatch.setattr(needs.sys, "prefix", str(tmp_path))
    monkeypatch.setattr(needs.sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin") if uses else "/usr/bin")
    assert told in needs.remedy("report")


def test_no_hint_names_somebody_elses_package():
    """`outpost` on the package index is an application proxy."""
    texts = [REPOSITORY / name for name in tracked() if name.endswith((".py", ".md", ".toml"))]
    wrong = re.compile(r"pip(x| install| download)[^\n]*\boutpost(?!-mqtt|_|\.)['\"\[ `]")
    found = [path for path in texts if wrong.search(path.read_text(encoding="utf-8"))]
    assert found == [Path(__file__).resolve()] or found == []


def test_the_tools_import_nothing_of_the_firmware():
    """Its packages are on no path of theirs: an installed `outpost` may be somebody else's."""
    pattern = re.compile(r"^(from|import) (outpost|station|support|board|micropython)\b", re.M)
    for path in (REPOSITORY / "tools" / "outpost_tools").rglob("*.py"):
        # programs for boards are text in quotes
        code = re.sub(r'"""(.|\n)*?"""', "", path.read_text(encoding="utf-8"))
        assert not pattern.search(code), path


# --- Installed, from another folder ---


@pytest.mark.parametrize("name", ["micropython", "machine", "board", "outpost", "station", "lib"])
def test_nothing_else_becomes_importable(installed, tmp_path, name):
    python = installed.parent / "python"
    finished = run([python, "-c", f"import {name}"], tmp_path)
    assert "ModuleNotFoundError" in finished.stderr


def test_the_command_runs_outside_the_repository(installed, tmp_path):
    told = done([installed, "--help"], tmp_path)
    manuals = Path(told.rpartition("The manuals: ")[2].strip())
    assert "simulate" in told and manuals.is_file() and installed.parents[1] in manuals.parents
    assert done([installed, "--version"], tmp_path).split()[0] == "outpost"
    assert "broker_host" in done([installed, "provision", "--example"], tmp_path)
    done([installed, "build", "--arch", "armv6m", "--board", "RPI_PICO_W"], tmp_path)
    built = tmp_path / "build" / "firmware" / "armv6m"
    assert {path.name for path in built.iterdir()} >= {"main.py", "board.mpy", "outpost", "support"}


def test_boards_publish_and_the_collector_keeps_it(installed, tmp_path):
    need_mosquitto()
    with Broker("mosquitto", tmp_path / "broker") as broker:
        address = f"127.0.0.1:{broker.port}"
        words = ["--broker", address, "--log", tmp_path / "log", "--id", "c1", "--user", ANY_USER]
        log = tmp_path / "collector.log"
        collector = children.start(
            [str(installed), "collect", *map(str, words)],
            log=log,
            cwd=tmp_path,
            env=users_environment(),
        )
        try:
            wait_for(lambda: "subscribed to" in children.tail(log), "the collector subscribes")
            words = ["--boards", 1, "--broker", address, "--seconds", 2, "--out", tmp_path / "out"]
            done([installed, "simulate", *words, "--user", ANY_USER], tmp_path)
        finally:
            status = children.stop(collector)
        assert status == 0, children.tail(log)
    assert (tmp_path / "out" / "board-1" / "journal.txt").read_text().count("\n") > 2
    assert sum(path.stat().st_size for path in (tmp_path / "log").rglob("*.seg")) > 0


@pytest.mark.skipif(
    not os.environ.get("PACKAGE_DEMO"), reason="optional: PACKAGE_DEMO=1, 2 minutes"
)
def test_the_demo_runs(installed, tmp_path):
    assert "EXACT" in done([installed, "demo"], tmp_path)
    assert (tmp_path / "build" / "demo" / "report.html").exists()


# --- Without the extras, as `pip install` leaves it ---

NO_JAVA = {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}


@pytest.mark.parametrize(
    ("words", "extra", "also"),
    [
        ("pipeline run --log log --tables t", "pipeline", "no Java found"),
        ("pipeline compact --tables t", "tables", ""),
        ("pipeline status --log log --tables t", "tables", ""),
        ("pipeline delete --tables t --before 2020-01-01", "tables", ""),
        ("collect --broker 127.0.0.1:1 --log log --confirm-tables t", "tables", ""),
        ("report --tables t --out r.html", "report", ""),
        ("export --log log --out r.csv", "export", ""),
        ("demo", "pipeline,report,broker", "no Java found"),
        ("demo --broker mosquitto", "pipeline,report", "no Java found"),
        ("mq bridge --segments log --put Q --queue A", "mq", ""),
    ],
)
def test_what_is_missing_is_named_with_the_line_that_installs_it(
    bare, tmp_path, words, extra, also
):
    (tmp_path / "log").mkdir()
    finished = run([bare, *words.split()], tmp_path, XDG_CACHE_HOME=str(tmp_path), **NO_JAVA)
    assert finished.returncode == 2, finished.stderr
    assert f"-m pip install 'outpost-mqtt[{extra}]'" in finished.stderr
    assert also in finished.stderr and finished.stderr.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == [tmp_path / "log"], "nothing was begun"


def test_what_needs_no_extra_runs_without_one(bare, tmp_path):
    for words in ("--help", "devices", "service --home --out units", "provision --example"):
        done([bare, *words.split()], tmp_path, PATH="/nowhere")
    done([bare, "build", "--arch", "armv6m"], tmp_path, PATH="/nowhere")

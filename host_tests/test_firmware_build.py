# cpython-only: it tests the desktop command
"""`outpost build`: the compact firmware is the same program under shorter names, and nobody outside can tell."""

import ast
import builtins
import dis
import json
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from outpost_tools import cli
from outpost_tools.broker import Broker
from outpost_tools.errors import ToolError
from outpost_tools.firmware_build import compact, legend, mpy, output, public
from outpost_tools.firmware_build.words import ROM_WORDS, STATIC_WORDS, UNUSABLE, words
from outpost_tools.interpreters import find_micropython

REPOSITORY = Path(__file__).resolve().parent.parent
FIRMWARE = REPOSITORY / "firmware"
NOT_ARGUMENTS = {"file"}  # print(file=...)
PROGRAMS = [FIRMWARE / "main.py", *sorted((REPOSITORY / "boards").glob("*/*.py"))]


def shortened(names: str, **sources: str) -> compact.Compact:
    return compact.compact({"__init__": "", **sources}, public.parse(names), "pkg")


def said(folder: Path, sources: dict[str, str], program: str) -> str:
    """What a program prints that uses the package made of the sources."""
    (folder / "pkg").mkdir(parents=True)
    for name, source in {"__init__": "", **sources}.items():
        (folder / "pkg" / f"{name}.py").write_text(source)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(REPOSITORY / "tools" / "cpython_stubs")])}
    program = "import builtins; builtins.const = int\n" + program  # MicroPython's compiler knows it by itself
    done = subprocess.run([sys.executable, "-S", "-c", program], check=False, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def same(folder: Path, names: str, program: str, **sources: str) -> compact.Compact:
    """The compact package does what the one of the sources does; gives it for a closer look."""
    small = shortened(names, **sources)
    assert said(folder / "compact", small.sources, program) == said(folder / "plain", sources, program)
    return small


# --- Words ---


def names_in(data: bytes) -> list[str | int]:
    """The table of names of an .mpy file: texts, and static ones by number. Behind a head of 4 bytes and two counts."""
    place = 4

    def number() -> int:
        nonlocal place
        value, more = 0, 128
        while more:
            value, more = value << 7 | data[place] & 127, data[place] & 128
            place += 1
        return value

    found: list[str | int] = []
    count, _ = number(), number()
    for _ in range(count):
        length = number()
        if length & 1:
            found.append(length >> 1)
        else:
            found.append(data[place : place + (length >> 1)].decode())
            place += (length >> 1) + 1
    return found


def test_the_words_are_those_of_the_mpy_format():
    """mpy-cross writes a static word as a number, in the order of its list, and any other word as a text."""
    found = names_in(mpy.compiled("".join(f"x.{word}\n" for word in (*STATIC_WORDS, "sectors")), "", "armv6m"))
    assert sorted(name for name in found if isinstance(name, str)) == ["sectors", "x"]
    numbers = {name for name in found if isinstance(name, int)} - {1, 6, 7}  # "", "<module>" ...
    assert len(numbers | {8}) == len(STATIC_WORDS)


@pytest.mark.parametrize(("architecture", "mpy_architecture"), [("i386", "x86"), ("amd64", "x64")])
def test_the_words_are_in_the_interpreters_rom(tmp_path, architecture, mpy_architecture):
    command = find_micropython(architecture)
    if command is None:
        pytest.skip(f"missing: MicroPython for {architecture}; run `make setup`")
    for name, some in (("a", (*STATIC_WORDS, *ROM_WORDS)), ("b", ("no_such_word",))):
        source = "def f(x):\n" + "".join(f" x.{word}\n" for word in some)
        (tmp_path / f"{name}.mpy").write_bytes(mpy.compiled(source, "abs", mpy_architecture))
    program = "import micropython\nx = f = a = b = 0\n" + "micropython.qstr_info()\nimport a\nmicropython.qstr_info()\nimport b\n"
    env = {**os.environ, "MICROPYPATH": str(tmp_path)}
    words = [*command, "-c", program + "micropython.qstr_info()"]
    printed = subprocess.run(words, env=env, check=True, capture_output=True, text=True, timeout=60).stdout
    counts = [int(line.split("n_qstr=")[1].split(",")[0]) for line in printed.splitlines()]
    assert counts[1] - counts[0] <= 2  # the file's name
    assert counts[2] > counts[1]


def test_words_never_repeat_and_never_hit_what_the_compiler_knows():
    some = [word for word, _ in zip(words(), range(2000), strict=False)]
    assert len(set(some)) == 2000
    assert UNUSABLE & set(some) == set()
    assert [word for word in some if not word.isidentifier()] == []


# --- Small programs ---


def test_inheritance_over_modules_and_calls_of_the_class_above(tmp_path):
    base = """
class Base:
    def __init__(self, size):
        self._size = size
        self._reset()
    def _reset(self):
        self._head = 1
    def _grow(self, by):
        self._size += by
        return self._size
"""
    more = """
from pkg.base import Base
class More(Base):
    step = 2
    def _reset(self):
        Base._reset(self)
        self._tail = self._head + self.step
    def run(self):
        return self._grow(self._tail), self._size, super()._grow(1)
"""
    small = same(tmp_path, "more.More: run", "from pkg.more import More; print(More(5).run())", base=base, more=more)
    assert "_grow" not in small.sources["base"] + small.sources["more"]
    families = {entry.short: entry.long for entry in small.entries if entry.kind == "attribute"}
    # One family: no word stands for two.
    assert sorted(families.values()) == ["_grow", "_head", "_reset", "_size", "_tail", "step"]


def test_two_families_may_share_a_word():
    one = "class A:\n def _x(self): return self._x\nclass B:\n def _y(self): return self._y\n"
    shorts = [entry.short for entry in shortened("one: A B", one=one).entries if entry.kind == "attribute"]
    assert shorts[0] == shorts[1]


def test_a_name_of_two_families_differs_from_the_names_of_both(tmp_path):
    one = """
class A:
    def common(self): return 1
    def only_a(self): return 2
class B:
    def common(self): return 3
    def only_b(self): return 4
def ask(thing): return thing.common()
def run(): return ask(A()), ask(B()), A().only_a(), B().only_b()
"""
    small = same(tmp_path, "one: run", "from pkg.one import run; print(run())", one=one)
    words_of = {entry.long: entry.short for entry in small.entries if entry.kind == "attribute"}
    assert words_of["common"] not in (words_of["only_a"], words_of["only_b"])


def test_keyword_arguments_keep_their_names(tmp_path):
    one = """
def inner(first, second=2, third=3): return first, second, third
def outer(first, *rest, named=1, **more): return inner(first, third=named, **more), rest
"""
    program = "from pkg.one import outer; print(outer(1, 5, named=7, second=9))"
    small = same(tmp_path, "one: outer second= named=", program, one=one)
    assert "first" not in small.sources["one"]


def test_shadowing_and_names_that_come_from_different_scopes(tmp_path):
    one = """
count = 1
def values(): return [2]
def run(items, values=5):
    count = 7
    def inner(index): return index + count
    total = [inner(count) for count in items if count]
    return sum(total), max(items), values, (lambda values: values + count)(3)
def outer():
    global count
    count += 1
    try:
        raise ValueError(1)
    except ValueError as error:
        shown = error.args
    return count, values(), shown, {key: str(value) for key, value in zip('ab', (1, 2))}
"""
    program = "from pkg.one import run, outer; print(run([1, 2, 0]), outer())"
    same(tmp_path, "one: run outer", program, one=one)


def test_builtins_in_use_are_not_taken_for_globals_or_locals(tmp_path):
    used = "abs all any bool bytes callable chr dict divmod hash id int isinstance len list map min next ord pow range".split()
    body = "".join(f"def f{i}(a{i}): return [{name}, a{i}]\n" for i, name in enumerate(used))
    body += "def run(): return [f(1)[0].__name__ for f in (" + ", ".join(f"f{i}" for i in range(len(used))) + ")]\n"
    small = same(tmp_path, "one: run", "from pkg.one import run; print(run())", one=body)
    assert all(f"return [{name}," in small.sources["one"] for name in used)


def test_foreign_attributes_stay_and_their_words_are_not_given_away(tmp_path):
    one = """
class Writer:
    def __init__(self, stream):
        self._stream = stream
        self._pending = []
    def add(self, text):
        self._pending.append(text)
        return self._stream.push(text)
    def push(self, text): return text * 2
    def unit(self): return self._stream.unit
"""
    program = """
from pkg.one import Writer
class Stream:
    unit = "K"
    def push(self, text): return text
writer = Writer(Stream()); print(writer.add("x"), writer.unit())
"""
    small = same(tmp_path, "one.Writer: add push unit", program, one=one)
    shorts = {entry.short for entry in small.entries if entry.kind == "attribute"}
    assert "append" not in shorts and ".append(" in small.sources["one"]


def test_a_name_that_is_ours_and_foreign_stays_where_the_list_says_so(tmp_path):
    one = "class A:\n def name(self, sensor): return sensor.name\nclass B:\n name = 3\n"
    program = "from pkg.one import A\nclass Sensor:\n name = 'load'\nprint(A().name(Sensor()))"
    same(tmp_path, "foreign sensor: name\none: A B", program, one=one)


def test_names_in_strings_stay(tmp_path):
    one = """
class A:
    def _hidden(self): return 1
    def _other(self): return 2
def run(): return getattr(A(), "_hidden")(), hasattr(A(), "_other"), hasattr(A(), "_nothing")
"""
    same(tmp_path, "one: run", "from pkg.one import run; print(run())", one=one)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("def f(a, b): return getattr(a, b)", "getattr() with a computed name"),
        ("def f(a): return eval(a)", "eval()"),
        ("def f(g, a): return g(**a)", "`**` in a call"),
        ("from pkg.two import *", "`import *`"),
        ("def f():\n class A: pass", "a class inside a function"),
        ("def f(:", "one.py:1"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_its_place(source, fault):
    with pytest.raises(ToolError, match="one.py:"):
        shortened("one: f", one=source, two="")
    with pytest.raises(ToolError) as error:
        shortened("one: f", one=source, two="")
    assert fault in str(error.value)


def test_class_bodies_that_use_globals_builtins_and_each_other(tmp_path):
    one = """
def limit(): return 3
class A:
    size = limit()
    twice = size * 2
    def get(self, at=twice): return at, self.size
    again = get
    @property
    def name(self): return len("abc"), self.again()
"""
    same(tmp_path, "one.A: name", "from pkg.one import A; print(A().name)", one=one)


def test_a_subclass_of_a_foreign_class_keeps_its_attributes(tmp_path):
    one = """
class Fault(ValueError):
    def __init__(self, text):
        ValueError.__init__(self, text)
        self.place = text
class Worse(Fault):
    def where(self): return self.place, self.args
"""
    small = same(tmp_path, "one: Worse", "from pkg.one import Worse; print(Worse('x').where())", one=one)
    assert [entry for entry in small.entries if entry.kind == "attribute"] == []


def test_imports_under_other_names_inside_functions_and_of_modules(tmp_path):
    one = "LIMIT = [1]\ndef helper(a): return a\ndef other(): return 2\n"
    two = """
from pkg import one
from pkg.one import helper as short
import os.path
def run():
    from pkg.one import other
    return one.helper(1), short(2), other(), one.LIMIT, os.path.basename("a/b")
"""
    same(tmp_path, "two: run", "from pkg.two import run; print(run())", one=one, two=two)


def test_constants_of_other_modules_become_numbers(tmp_path):
    one = "from micropython import const\nSIZE = const(-4)\nKEPT = const(5)\n_OWN = const(6)\ndef own(): return _OWN + SIZE\n"
    two = """
from pkg import one
from pkg.one import SIZE, KEPT, own
def run(): return 2 ** SIZE, one.SIZE * 2, KEPT, own()
def other(SIZE): return SIZE
"""
    three = "from pkg.one import SIZE\ndef run(): return SIZE\n"
    program = "from pkg.two import run, other\nfrom pkg.three import run as third\nfrom pkg.one import KEPT\n"
    program += "print(run(), other(1), third())"
    small = same(tmp_path, "one: KEPT\ntwo: run other\nthree: run", program, one=one, two=two, three=three)
    assert "SIZE" not in small.sources["three"] and "import" not in small.sources["three"]
    assert "micropython" not in small.sources["one"]


def test_modules_in_one_file(tmp_path):
    low = "from micropython import const\n_A = const(1)\ndef put(a): return a + _A\ndef get(): return 'low'\n"
    middle = "from pkg import low\nfrom pkg.low import put\n_A = 10\n"
    middle += "class Middle:\n def get(self, put_=put): return low.get(), put_(_A)\n"
    top = "from pkg.middle import Middle\nfrom pkg import low\ndef get(): return Middle().get(), low.put(5)\n"
    beside = "from pkg import low as lower, middle\nfrom pkg.middle import Middle as M\n"
    beside += "class Own(M):\n def get(self): return M.get(self), lower.put(1), middle.Middle().get()\n"
    names = "top + low middle\ntop: get\nbeside.Own: get"
    program = "from pkg.top import get; from pkg.beside import Own; print(get(), Own().get())"
    small = same(tmp_path, names, program, low=low, middle=middle, top=top, beside=beside)
    assert sorted(small.sources) == ["__init__", "beside", "top"]
    assert {entry.long for entry in small.entries if entry.kind == "function"} >= {"low.put", "middle.Middle.get"}


def test_what_a_module_in_the_file_only_hands_on(tmp_path):
    """As memory.py does: the one or the other, and everybody asks it."""
    fast = "raise ImportError\n"
    slow = "def copy(): return 'slow'\ndef fill(): return 'fill'\n"
    memory = "try:\n from pkg.fast import copy\nexcept ImportError:\n from pkg.slow import copy\n"
    part = "from pkg.memory import copy\nfrom pkg.slow import fill\ndef use(): return copy(), fill()\n"
    top = "from pkg.memory import copy\nfrom pkg.part import use, fill as full\nfrom pkg.slow import fill\n"
    top += "def run(copy_=copy): return copy(), use(), full(), fill(), copy_()\n"
    beside = "from pkg.memory import copy\nfrom pkg.part import copy as again\ndef run(): return copy(), again()\n"
    names = "top + memory part\ntop: run\nbeside: run"
    program = "from pkg import top, beside; print(top.run(), beside.run())"
    small = same(tmp_path, names, program, fast=fast, slow=slow, memory=memory, part=part, top=top, beside=beside)
    assert small.sources["top"].count(" import ") == 3  # fast, slow, fill


def test_two_assignments_at_once_make_no_tuple():
    """On MicroPython `a, b = (c, d)` takes heap, `a, b = c, d` does not; a tuple that is meant stays."""
    source = "def run(c, d):\n    a, b = c, d\n    a, b = (b, a)\n    e, f = (c, d), (d, c)\n    return (a, b) + e + f\n"
    text = shortened("one: run", one=source).sources["one"]
    assert text.count("= (") == 1 and "return (" in text
    assert "BUILD_TUPLE" not in dis.Bytecode(compile("a, b = c, d", "", "exec")).dis()


@pytest.mark.parametrize("form", ["compact", "plain"])
def test_a_compact_build_takes_no_heap_either(tmp_path, form):
    command = find_micropython("i386")
    if command is None:
        pytest.skip("missing MicroPython for i386: run `make setup`")
    source = output.read(FIRMWARE)
    output.write(tmp_path, output.build(source, "x86", form), source, form)
    support = REPOSITORY / "host_tests" / "support"
    path = os.pathsep.join(map(str, (tmp_path, support, REPOSITORY / "boards" / "UNIX")))
    done = subprocess.run(
        [*command, str(support / "compact_heap.py")], env=os.environ | {"MICROPYPATH": path + ":.frozen"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout.split() == ["0", "300"], done.stdout + done.stderr


def test_a_module_with_public_names_keeps_its_file():
    with pytest.raises(ToolError, match="low has public names"):
        shortened("top + low\nlow: put", low="def put(): pass", top="from pkg.low import put")


# --- The firmware ---


@pytest.fixture(scope="module")
def firmware():
    return output.read(FIRMWARE)


def test_every_public_name_is_in_the_firmware(firmware):
    assert firmware.unknown == []


def test_names_of_the_list_that_are_nowhere_are_reported():
    small = shortened("one: f gone\none.A: b lost given=\nnone: x\none + part", one="def f(): pass\nclass A:\n b = 1\n")
    assert small.unknown == ["none: no module none", "one + part", "one: gone", "one.A: lost", "one.A: given"]


def test_public_names_are_in_the_compact_sources(firmware):
    """The same check, on the other side of the renaming."""
    small = {name: ast.parse(source) for name, source in firmware.compact.sources.items()}
    unknown = [name for name in compact.unknown_names(small, firmware.public) if " + " not in name]
    assert unknown == []


def keywords_of(tree: ast.AST) -> set[str]:
    """Given by keyword, or as a dict's key where a call has **: the dict may be any of the module."""
    found = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
    if any(isinstance(node, ast.keyword) and node.arg is None for node in ast.walk(tree)):
        keys = [key for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys]
        found |= {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    return found


def attributes_of_ours(tree: ast.AST) -> set[str]:
    """x.name, y.x.name where x is a variable or field that these programs use for objects of the firmware."""
    ours = {"client", "outbox", "station", "pack", "clock", "device"}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {node.attr for node in found if getattr(node.value, "id", getattr(node.value, "attr", "")) in ours}


def imported_from_ours(tree: ast.AST) -> list[tuple[str, str]]:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("outpost.")]
    return [(node.module.split(".")[1], alias.name) for node in found for alias in node.names]


def readme_programs() -> dict[str, str]:
    parts = (REPOSITORY / "README.md").read_text().split("```python\n")[1:]
    return {f"README {number}": part.split("```")[0] for number, part in enumerate(parts, 1)}


USERS = {str(path.relative_to(REPOSITORY)): path.read_text() for path in PROGRAMS} | readme_programs()


@pytest.mark.parametrize("program", USERS)
def test_what_programs_use_is_public(firmware, program):
    """Attributes, keyword arguments and imports of main.py, boards and README that compact sources would not have."""
    tree = ast.parse(USERS[program])
    renamed = {entry.long for entry in firmware.compact.entries if entry.kind == "attribute"}
    assert sorted(attributes_of_ours(tree) & renamed) == []
    imported = imported_from_ours(tree)
    assert [f"{module}.{name}" for module, name in imported if name not in firmware.public.of_module(module)] == []
    trees = [ast.parse(source) for source in firmware.sources.values()]
    arguments = {node.arg for one in trees for node in ast.walk(one) if isinstance(node, ast.arg)}
    if imported:
        assert sorted(keywords_of(tree) & arguments - firmware.public.all_keywords - NOT_ARGUMENTS) == []


def codes(code: types.CodeType):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


ATTRIBUTES = {"LOAD_ATTR", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR"}


def test_the_bytecode_is_the_same_but_for_names(firmware):
    """CPython's compiler as judge of scopes: the same instructions, one word for a name wherever needed, never one for two."""
    trees = {name: ast.parse(source) for name, source in firmware.sources.items()}
    small = compact.rename(trees, firmware.public, "outpost", [])
    attributes: dict[str, set[str]] = {}
    for module, source in firmware.sources.items():
        here: dict[str, str] = {}
        texts = (ast.unparse(ast.parse(source)) + "\n", small.sources[module])
        before, after = (list(codes(compile(text, module, "exec"))) for text in texts)
        assert len(before) == len(after)
        for old, new in zip(before, after, strict=True):
            compare(old, new, attributes, here)
        loaded = {name for name in here if not hasattr(builtins, name)}
        assert len({here[name] for name in loaded}) == len(loaded), f"{module}: two globals under one word"
        assert not {here[name] for name in loaded} & (set(here) - loaded), f"{module}: a global under a builtin's name"
    assert [name for name, found in attributes.items() if len(found) > 1 and not small_is_module(name, small)] == []


def small_is_module(name: str, small: compact.Compact) -> bool:
    """module.name and object.name are two kinds."""
    return any(entry.kind == "global" and entry.long == name for entry in small.entries)


def instructions_of(code: types.CodeType) -> list[tuple[str, object]]:
    """Without what depends on names: CPython 3.11 calls a method of `x` otherwise when the module imports an `x`."""
    found = [(i.opname.replace("LOAD_METHOD", "LOAD_ATTR"), i.argval) for i in dis.get_instructions(code)]
    return [one for one in found if one[0] not in ("EXTENDED_ARG", "PUSH_NULL")]


def compare(old: types.CodeType, new: types.CodeType, attributes: dict[str, set[str]], module_names: dict[str, str]) -> None:
    local: dict[str, str] = {}
    instructions = [instructions_of(old), instructions_of(new)]
    assert [operation for operation, _ in instructions[0]] == [operation for operation, _ in instructions[1]], old.co_name
    for (operation, was), (_, is_) in zip(*instructions, strict=True):
        if operation in ATTRIBUTES:
            attributes.setdefault(was, set()).add(is_)
        elif operation.endswith(("_GLOBAL", "_NAME")) and operation != "IMPORT_NAME":
            scope = module_names if operation.endswith("_GLOBAL") else local
            assert scope.setdefault(was, is_) == is_
        elif operation.endswith(("_FAST", "_DEREF")):  # LOAD_CLOSURE comes in the order of the names
            assert local.setdefault(was, is_) == is_
    assert len(set(local.values())) == len(local), f"{old.co_name}: two names under one word"


def test_the_same_sources_give_the_same_bytes(firmware):
    again = output.read(FIRMWARE)
    modules = ["client", "session"] if "session" in firmware.compact.sources else ["client"]
    assert output.build(firmware, "armv6m", "compact", modules) == output.build(again, "armv6m", "compact", modules)


def test_the_order_of_sets_does_not_reach_the_output():
    program = (
        "import sys; from pathlib import Path; from outpost_tools.firmware_build import output;"
        f"c = output.read(Path({str(FIRMWARE)!r})).compact; print(c.sources, c.titles, c.entries)"
    )
    envs = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    done = [subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=True) for env in envs]
    assert done[0].stdout == done[1].stdout


@pytest.mark.parametrize(("architecture", "mpy_architecture"), [("i386", "x86"), ("amd64", "x64")])
@pytest.mark.parametrize("form", ["compact", "plain"])
def test_main_publishes_with_the_built_firmware(tmp_path, architecture, mpy_architecture, form):
    """The UNIX board on real MicroPython against a real broker: readings arrive, it drains and exits."""
    command = find_micropython(architecture)
    if command is None:
        pytest.skip(f"missing: MicroPython for {architecture}; run `make setup`")
    built, board = tmp_path / "built", tmp_path / "board"
    arguments = ["build", "--arch", mpy_architecture, "--out", str(built), "--board", "UNIX"]
    assert cli.main([*arguments, *(["--plain"] if form == "plain" else [])]) == 0
    board.mkdir()
    settings = {"device_id": "board-1", "broker_host": "127.0.0.1", "outbox_blocks": 4, "mode": "broker"}
    settings |= {"interval_ms": 20, "sensors": ["load"]}
    (board / "simulation.json").write_text(json.dumps({"stop_file": "stop"}))
    with Broker("mosquitto", tmp_path / "broker") as broker:
        (board / "settings.json").write_text(json.dumps({**settings, "broker_port": broker.port}))
        env = {**os.environ, "MICROPYPATH": f"{built}:.frozen"}
        words = [*command, built / "main.py"]
        process = subprocess.Popen(words, cwd=board, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_for_readings(board / "journal.txt", process)
        (board / "stop").touch()
        printed, _ = process.communicate(timeout=60)
    assert (process.returncode, printed) == (0, "")
    counters = json.loads((board / "counters.json").read_text())
    assert counters["acknowledged"] >= 5
    assert counters["held"] == counters["next_seq"]


def wait_for_readings(journal: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        if journal.exists() and journal.read_text().count("\nok ") >= 5:
            return
        time.sleep(0.05)


# --- The command ---


def test_plain_and_debug_builds_have_the_names_of_the_source(tmp_path, capsys):
    for form in ("--plain", "--debug"):
        assert cli.main(["build", "--arch", "armv6m", "--out", str(tmp_path), form]) == 0
        data = (tmp_path / "outpost" / "client.mpy").read_bytes()
        assert b"on_acknowledged" in data and b"outpost/client.py" in data
        assert not (tmp_path / "names.txt").exists()
    assert ".mpy compact" in capsys.readouterr().out


def test_a_traceback_is_read_back(tmp_path, capsys, monkeypatch):
    entries = [
        compact.Entry("file", "client", "abs", "client.py"),
        compact.Entry("function", "client", "any", "Client._receive"),
        compact.Entry("attribute", "Client", "all", "_rx"),
    ]
    (tmp_path / "names.txt").write_text(legend.text(entries))
    lines = ['  File "abs", line 1, in any\n', '  File "main.py", line 3, in any\n', "'Client' object has no attribute 'all'\n"]
    monkeypatch.setattr(sys, "stdin", iter(lines))
    assert cli.main(["build", "--explain", str(tmp_path / "names.txt")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        '  File "client.py", in Client._receive',
        '  File "main.py", line 3, in any',
        "'Client' object has no attribute '_rx'",
    ]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--source", "{tmp}"], "no modules"),
        (["--out", "{tmp}/x"], "name it with --arch"),
        (["--arch", "x86", "--out", "{tmp}/x", "--board", "NOBOARD"], "boards: ESP32_GENERIC, "),
        (["--explain", "{tmp}/names.txt"], "No such file"),
    ],
)
def test_faults_are_one_line_and_status_2(tmp_path, capsys, arguments, fault):
    assert cli.main(["build", *(word.format(tmp=tmp_path) for word in arguments)]) == 2
    complaint = capsys.readouterr().err
    assert fault in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("line", ["client", "a b: c", "client.Client.x: y", "client: a-b", "  lost: a"])
def test_a_bad_line_of_the_public_list_is_named(line):
    with pytest.raises(ToolError, match=r"public_names.txt:2"):
        public.parse(f"# a comment\n{line}\n")

"""The test kit's half under MicroPython: runs one request, and prints a line of JSON per case.

    micropython on_micropython.py REQUEST

REQUEST: a file with JSON: program, roots (folders to import from), scenario, plan (see
virtual/hunt.py). Each power cut is a fork: the parent goes on, so a copy never stays in its heap.
The child ends the program that it inherited, as a world ends one, because the stack has no room for
a second; then it boots in the copy with fresh modules. The run itself is a fork, too: a program
that calls nothing of the world for STUCK_S seconds of CPU is killed, and whoever waits for it says
that it hangs.
"""

import builtins
import gc
import json
import struct
import sys

import ffi

_libc = ffi.open("libc.so.6")
_fork = _libc.func("i", "fork", "")
_wait = _libc.func("i", "wait", "p")
_exit = _libc.func("v", "_exit", "i")
_set_timer = _libc.func("i", "setitimer", "iPp")
_ITIMER_VIRTUAL, _SIGVTALRM = 1, 26
STUCK_S = 20
_timer = struct.pack("llll", 0, 0, STUCK_S, 0)

# Before a world hides them
real_open, real_print = builtins.open, builtins.print
_OURS = ("virtual",)
_KEPT = ("builtins", "ffi", "gc", "json", "micropython", "sys", "errno", "struct", "vfs")


def line():
    """MicroPython does not say where a program is; the same cut under CPython does."""
    return ""


def apart(run):
    """Runs it in a process of its own. Returns why that did not end by itself; None: it did."""
    if not _fork():
        _run_and_exit(run)
    return _end()


def _run_and_exit(run):
    gc.collect()
    try:
        run()
        _exit(0)
    except BaseException as error:
        sys.print_exception(error)
    _exit(1)


def _end():
    """Waits for the child: see apart()."""
    _wait(_status)
    if _status[0] & 127 == _SIGVTALRM:
        return "stuck"
    return "killed" if _status[0] or _status[1] else None


def branch(world, follow, twin, case):
    """world: the one that runs."""
    if not _fork():
        _inherited[:] = [follow, twin, case]
        world.die("cut")
    why = _end()
    if why:
        tell_of(case, why, twin)


def go_on():
    """In the child of a fork, once the program has ended: its own case."""
    follow, twin, case = _inherited
    _inherited[:] = []
    _run_and_exit(lambda: follow(twin, case))


def tell_of(case, why, world):
    """In place of a process that was killed: what was known when it began."""
    from virtual.cuts import ENDS
    from virtual.report import report

    case["why"], case["fault"] = why, ENDS[why]
    case["duplicates"], case["error"], case["error_line"] = 0, "", ""
    case["report"] = report(world, case["why"], case["fault"])
    tell(case)


def arm():
    """From now on the program may use STUCK_S seconds of CPU without calling the world."""
    _set_timer(_ITIMER_VIRTUAL, _timer, None)


def tell(case):
    real_print(json.dumps(case))


_status = bytearray(4)
_inherited = []  # in the child of a fork: what it is to follow


class Program:
    def __init__(self, code, name):
        self._source, self._name = code, name

    def start(self, world):
        """One boot: see virtual/boots.py."""
        why = self._boot(world)
        if _inherited:
            go_on()
        return why

    def _boot(self, world):
        from virtual import ports
        from virtual.world import Stop

        _forget()
        world.pulse = arm
        arm()
        fakes = ports.modules(world)
        sys.modules.update(fakes)
        builtins.open = ports.opener(world)
        builtins.print = _printer(world)
        builtins.__import__ = _importer(world)
        filesystem = ports.filesystem(world)
        if world.scenario["heap_after_s"] is not None:
            _guard(world, fakes)
        try:
            with filesystem:
                try:
                    exec(self._source, {"__name__": "__main__"})
                finally:
                    _unlock(world)  # leaving `with` allocates
            return world.dead or "ended"  # it may have caught the world's end
        except (Stop, SystemExit):
            return world.dead or "ended"
        except Exception as error:
            if not world.dead:
                world.error = _text_of(error, self._name)
            return world.dead or "error"
        finally:
            _restore(fakes)


def _guard(world, fakes):
    from virtual import flash, stream
    from virtual.heap import Guard

    world.guard = Guard(world, world.scenario["heap_after_s"])
    for name in fakes:
        world.guard.module(fakes[name])
    for kind in (stream.Stream, flash.Flash):
        world.guard.kind(kind)


def _unlock(world):
    if world.guard:
        world.guard.off()


def _forget():
    """The modules of the boot before."""
    for name in list(sys.modules):
        if name.split(".")[0] not in _OURS and name not in _KEPT:
            sys.modules.pop(name)


def _restore(fakes):
    builtins.open, builtins.print, builtins.__import__ = real_open, real_print, _real_import
    for name in fakes:
        sys.modules.pop(name, None)


_real_import = __import__


def _importer(world):
    """Modules are watched when the import that brought them is whole. Within it the interpreter's
    own import is back: a relative import counts from whoever calls that, which would be this."""
    seen = {}

    def load(name, *rest):
        if len(rest) == 4 and rest[3] and rest[0] is None:
            # asyncio loads Lock, Event, ... when they are asked for, relative to itself
            name, rest = "asyncio." + name, (None, None, True, 0)
        builtins.__import__ = _real_import
        try:
            found = _real_import(name, *rest)
        finally:
            builtins.__import__ = load
        watches = world.ledger.watches
        for one in watches:
            if one in sys.modules and one not in seen:
                seen[one] = True
                watches[one](sys.modules[one])
        return found

    return load


def _printer(world):
    def show(*words, sep=" ", end="\n", **_):
        world.output.append((sep.join([str(one) for one in words]) + end).rstrip("\n"))

    return show


def _text_of(error, name):
    """(the exception, the program's line that raised it)."""
    import io

    text = io.StringIO()
    sys.print_exception(error, text)
    lines = [one.strip() for one in text.getvalue().split("\n") if one.strip()]
    found = ""
    for one in lines:
        if one.startswith("File ") and name in one:
            found = name + ":" + one.split("line ")[1].split(",")[0]
    return lines[-1], found


def main(path):
    with real_open(path) as file:
        request = json.load(file)
    sys.path[:] = request["roots"] + [one for one in sys.path if one == ".frozen"]
    with real_open(request["program"]) as file:
        source = file.read()
    from virtual.hunt import Hunt

    code = compile(source, request["program"], "exec")
    name = request["program"].split("/")[-1]
    hunt = Hunt(Program(code, name).start, request["scenario"], request["plan"], branch, tell, line)
    why = apart(hunt.run)
    if why:
        tell_of({"number": 0, "kind": "", "way": "", "line": "", "ms": 0}, why, hunt.world)


if __name__ == "__main__":
    main(sys.argv[1])

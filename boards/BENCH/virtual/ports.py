"""What a program sees of its board: the port's modules, made for one boot of a world.

    fakes = ports.modules(world)        {name: module}, for world.scenario["board"]
    with ports.filesystem(world): ...   the boot; an RP2's littlefs is mounted meanwhile
    open = ports.opener(world)          the program's open()

**The law.** The modules have the names, numbers and faults of the port; state that a reset keeps is
in the world, all other state is as fresh as a boot's RAM.

Must not know how a program is loaded, nor what a server is.
"""

import sys

# First: below all others, its own imports would be too deep for MicroPython's stack.
from virtual.world import Stop

# isort: split
from virtual import buses, machine, radio, sockets, system
from virtual.clock import Clock, Time, days_of
from virtual.flash import Flash

_IS_MICROPYTHON = sys.implementation.name == "micropython"
# Kind: (platform, title, hertz after a start, address of the RP2's watchdog)
KINDS = {
    "BENCH": ("esp32", "Generic ESP32 module with ESP32", 160_000_000, 0),
    "ESP32_GENERIC": ("esp32", "Generic ESP32 module with ESP32", 160_000_000, 0),
    "ESP32_GENERIC_S3": ("esp32", "Generic ESP32S3 module with ESP32S3", 160_000_000, 0),
    "ESP32_GENERIC_C3": ("esp32", "ESP32C3 module with ESP32C3", 160_000_000, 0),
    "RPI_PICO_W": ("rp2", "Raspberry Pi Pico W with RP2040", 125_000_000, 0x40058000),
    "RPI_PICO2_W": ("rp2", "Raspberry Pi Pico 2 W with RP2350", 150_000_000, 0x400D8000),
}
_PROGRAM_BYTES = 256  # of littlefs: ports/rp2/modules/_boot.py
_newest = []
_real_open = open  # before a program's hides it


class Module:
    """Stands in for a module."""


class Port:
    """One boot's view of the world: what the fakes share."""

    def __init__(self, world):
        self.name, self.world = world.scenario["board"], world
        if self.name not in KINDS:
            raise ValueError("no board %r: one of %s" % (self.name, ", ".join(sorted(KINDS))))
        self.platform, self.title, self.hertz, self.watchdog = KINDS[self.name]
        self.is_rp2 = self.platform == "rp2"
        if self.is_rp2 and not _IS_MICROPYTHON:
            raise ValueError(
                "%s pins its outbox in a littlefs, which CPython lacks: use --python m" % self.name
            )
        self.is_pinning = self.is_rp2
        self.unique_id = b"\x02BENCH\x00\x01" if self.is_rp2 else b"\x02BENCH"
        self.pins, self.timers, self.chips = {}, {}, {}
        self.cause = self._cause()
        self.clock = Clock(world)
        self.first_s = days_of(1970 if self.is_rp2 else 2000, 1, 1) * 86_400
        self._start_chip_clock()

    def _cause(self):
        """The world's, or "soft"."""
        is_soft, self.world.is_soft_reset = self.world.is_soft_reset, False
        return "soft" if is_soft else self.world.cause

    def _start_chip_clock(self):
        """It is wrong until it is set. An ESP32 keeps it over a reset and a sleep; an RP2 sets it
        to 2021 at each start but a soft one (ports/rp2/main.c)."""
        if self.world.rtc_set is None or (self.is_rp2 and self.cause != "soft"):
            self.clock.set_chip_us(days_of(2021 if self.is_rp2 else 2000, 1, 1) * 86_400_000_000)


def current():
    """The port of the newest boot: for boards/BENCH/board.py."""
    return _newest[0]


def modules(world):
    """{name: module-like object} for a new boot. Raises ValueError: no such board here."""
    port = Port(world)
    port.radio = radio.Radio(port)
    port.time = Time(port.clock, port.first_s, 1 if port.is_rp2 else port.hertz // 1_000_000)
    port.machine, port.network = machine.machine_of(port), radio.network_of(port)
    buses.add(port.machine, port)
    found = {"time": port.time, "machine": port.machine, "network": port.network}
    found.update(sockets.modules_of(port))
    port.socket = found["socket"]
    found.update(system.modules_of(port))
    for module in found.values():
        _own(module)
    found.update(_of_this_python(port, found["select"]))
    _newest[:] = [port]
    return found


def _own(module):
    """MicroPython's `from` imports no method, but any attribute that an object itself has."""
    for name in dir(module):
        if not name.startswith("_"):
            setattr(module, name, getattr(module, name))


def _of_this_python(port, select):
    if _IS_MICROPYTHON:
        from virtual import tasks

        return {"_asyncio": tasks.module_of(port, Module())}
    from virtual import loop

    found = {name: sys.modules[name] for name in sys.modules if name.split(".")[0] == "virtual"}
    found["asyncio"], found["gc"] = loop.module_of(port, select), system.Gc(port)
    found["micropython"] = system.Micropython(port)
    return found


def opener(world):
    """The program's open()."""
    port = current()

    def route(path, *args, **options):
        is_pinned = system.is_pinned(port, path)
        return (_real_open if is_pinned else world.files.open)(path, *args, **options)

    return route if port.is_pinning else world.files.open


class _Mounted:
    """An RP2's littlefs over the chip; it is made at the first start, as _boot.py does. Without
    times of files, which would be the desktop's."""

    def __init__(self, world):
        self._raw = Flash(world)

    def __enter__(self):
        import vfs

        self._leave()  # a board that starts in a copy, while the first one's is mounted
        try:
            made = self._filesystem(vfs)
        except OSError:
            vfs.VfsLfs2.mkfs(self._raw, progsize=_PROGRAM_BYTES)
            made = self._filesystem(vfs)
        vfs.mount(made, system.OUTBOX)
        return self

    def _filesystem(self, vfs):
        return vfs.VfsLfs2(self._raw, progsize=_PROGRAM_BYTES, mtime=False)

    def _leave(self):
        import vfs

        try:
            vfs.umount(system.OUTBOX)
        except (OSError, Stop):  # it was not mounted; or its world has ended
            pass

    def __exit__(self, *error):
        self._leave()


class _Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def filesystem(world):
    """A context: what must be mounted while a boot runs."""
    if KINDS[world.scenario["board"]][0] != "rp2":
        return _Nothing()
    if not _IS_MICROPYTHON:
        raise ValueError("there is no littlefs under CPython: use --python m")
    return _Mounted(world)

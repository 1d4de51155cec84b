"""A board that takes updates, as far as its files are concerned, for tests of `updatable.py`: the
board of commanded_world.py with the folders that `outpost flash` leaves, and a sender."""

import json

from commanded_world import World
from outpost_tools.boards.files.plan import digest
from outpost_tools.boards.update import image
from outpost_tools.boards.update.image import Content

KEY = bytes(range(32))
OLD = {
    "main.py": b"old main",
    "board.mpy": b"old board",
    "outpost/__init__.mpy": b"1",
    "outpost/client.mpy": b"old client",
    "outpost/old/gone.mpy": b"of no more use",
    "station/__init__.mpy": b"",
    "station/update_start.mpy": b"old start",
    "support/wifi.mpy": b"the same",
    "sensors/adc.mpy": b"old adc",
}
NEW = {
    **OLD,
    "main.py": b"new main",
    "outpost/client.mpy": b"new client" * 200,
    "outpost/room/more.mpy": b"a new module",
    "station/update_start.mpy": b"new start",
}
del NEW["outpost/old/gone.mpy"]
DRIVERS = {"sensors/adc.mpy": b"new adc", "sensors/dht22.mpy": b"not on this board"}
CRASHES = {**NEW, "outpost/client.mpy": b"this one crashes"}
KIND = "RPI_PICO_W"


def image_of(files=NEW, made_s=100, device="board-1", board=KIND, key=KEY):
    contents = [Content(path, data) for path, data in files.items() if path not in DRIVERS]
    contents += [Content(path, data, is_optional=True) for path, data in DRIVERS.items()]
    return image.make(contents, key, device=device, board=board, version="9.0", made_s=made_s)


def record_of(files, kind=KIND):
    root = {f"/{path}": [digest(data)] for path, data in files.items() if "/" not in path}
    modules = [f"/{path}" for path in files if "/" in path and not path.startswith("outpost/")]
    return {"board": kind, "version": "0.1", "files": root, "modules": modules}


class UpdatedWorld(World):
    """A board as `outpost flash` leaves it, as far as files are concerned: its code is the
    repository's. A board whose client has `b"... crashes"` does not connect."""

    def __init__(self, folder, files=OLD, **settings):
        World.__init__(self, folder, update_key=KEY.hex(), **settings)
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        (folder / "outpost/installed.json").write_text(json.dumps(record_of(files)))
        self.live()

    def live(self):
        client = self.folder / "outpost/client.mpy"
        self.is_reachable = not client.exists() or b"crashes" not in client.read_bytes()
        try:
            return World.live(self)
        except SystemExit:  # a start that moved files
            return self._ended()

    def _ended(self):
        self.ends.append("moved")
        self.left_doing.append(None)
        self.starts += 1
        return "moved"

    def files(self):
        """Returns {path: bytes}, without the update's own files and the record."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            if path.is_file() and (name in ("main.py", "board.mpy") or "/" in name):
                found[name] = path.read_bytes()
        found.pop("outpost/installed.json", None)
        return found

    def rooms(self):
        """Returns the folders of the library."""
        return sorted(path.name for path in (self.folder / "outpost").iterdir() if path.is_dir())

    def ask(self, tag):
        told = len(self.server.told)
        self.server.send(image.question(tag, told))
        for _ in range(20):
            self.live()
            if len(self.server.told) > told:
                break
        return self.server.told[-1]

    def bring(self, made):
        """Returns the board's answer after the list, and its answer at the end."""
        first, tries = {"need": "list"}, 5
        while first.get("need") == "list":
            if tries == 0:
                raise AssertionError("the list does not arrive")
            tries -= 1
            for message in made.list_messages():
                self.server.send(message)
            first = self.ask(made.tag)
        for number in image.missing(first.get("need", "")):
            for message in made.file_messages(number):
                self.server.send(message)
        return first, self.ask(made.tag)

    def put_on_trial(self, made, within_s=5):
        self.server.send({"id": "u-1", "do": "update", "of": made.tag, "within_s": within_s})

    def settle(self, most=40):
        """Run lives until one ends by itself with nothing left of the update."""
        for _ in range(most):
            if self.live() == "over" and not (self.folder / "update/phase").exists():
                return
        raise AssertionError(self.ends)

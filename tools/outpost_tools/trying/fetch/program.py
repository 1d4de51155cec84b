"""A program of an unpacked Debian package, and the shell script that starts it.

Knows neither apt nor which programs there are. The script starts a program through the `ld-linux`
and with the libraries of its own package's suite, so that it runs on an older or newer machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SUITE = "trixie"  # Debian 13: the first with MicroPython 1.25
LOADERS = {
    "amd64": "x86_64-linux-gnu/ld-linux-x86-64.so.2",
    "i386": "i386-linux-gnu/ld-linux.so.2",
    "arm64": "aarch64-linux-gnu/ld-linux-aarch64.so.1",
    "armhf": "arm-linux-gnueabihf/ld-linux-armhf.so.3",
}


def label(architecture: str, package: str) -> str:
    """The name of a package of the suite."""
    return f"{SUITE}-{architecture}-{package}"


@dataclass(frozen=True, slots=True)
class Program:
    """A program from a Debian package: `name` is the command that is made in the cache, `path` the
    file inside the package."""

    name: str
    package: str
    architecture: str
    path: str
    is_static: bool = False  # needs no loader and no libraries, so only the program itself is kept
    options: tuple[str, ...] = ()  # its first arguments, as the shell reads them
    emulator: str = ""  # the program that runs it if the machine cannot
    libraries: tuple[str, ...] = ()  # folders below that of the libraries, to look there, too
    variables: tuple[str, ...] = ()  # NAME=VALUE for its environment, as the shell reads them
    loader_beside: bool = False  # for one that looks for its files beside /proc/self/exe

    @property
    def folder(self) -> str:
        return label(self.architecture, self.package)

    @property
    def loader(self) -> str:
        """Its place in the unpacked packages."""
        loader = f"/usr/lib/{LOADERS[self.architecture]}"
        return str(Path(self.path).with_name(Path(loader).name)) if self.loader_beside else loader

    def library_path(self, root: str) -> str:
        """For the loader. root: the folder of the unpacked packages."""
        own = f"{root}/usr/lib/{Path(LOADERS[self.architecture]).parent}"
        return ":".join((own, *(f"{own}/{name}" for name in self.libraries)))

    def wrapper(self) -> str:
        """The shell script that starts it; it finds its folder relative to itself, so that the
        cache may be moved."""
        lines = ["#!/bin/sh", f'root="${{0%/*}}/../roots/{self.folder}"']
        if self.is_static:
            lines += [f'exec "$root{self.path}" "$@"']
        elif self.emulator:
            lines += [
                f'emulator="${{0%/*}}/{self.emulator}"',
                f'[ -x "$emulator" ] || emulator={self.emulator}',
                f'exec "$emulator" -L "$root" "$root{self.path}" "$@"',
            ]
        else:
            lines += [f"export {variable}" for variable in self.variables]
            start = f'exec "$root{self.loader}" --library-path "{self.library_path("$root")}"'
            lines += [" ".join((start, f'"$root{self.path}"', *self.options, '"$@"'))]
        return "\n".join(lines) + "\n"

    def is_in(self, cache: Path) -> bool:
        """Whether the cache has all of it: the wrapper is written last, the root appears by one
        rename."""
        wrapper = cache / "bin" / self.name
        return (
            (cache / "roots" / self.folder).is_dir()
            and wrapper.exists()
            and wrapper.read_text() == self.wrapper()
        )

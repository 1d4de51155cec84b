# cpython-only: tests the set-up
"""What set-up brings on an ARM machine, such as a Raspberry Pi with a 64-bit Debian; resolved on
any machine.

ARM64=1 fetches it, too (about 310 MB), and starts each program under qemu.
"""

import os
import subprocess

import pytest

import lock
from outpost_tools.machine import interpreters
from outpost_tools.trying.fetch import chromium, programs
from outpost_tools.trying.fetch.debian_packages import Unobtainable
from outpost_tools.trying.fetch.program import LOADERS, Program

ARM = interpreters.machine("aarch64")
X86 = interpreters.machine("x86_64")
WRAPPER = """\
#!/bin/sh
root="${{0%/*}}/../roots/trixie-{architecture}-{package}"
exec "$root/usr/lib/{loader}" --library-path "$root/usr/lib/{folder}" "$root{path}" {options}"$@"
"""


def packages(machine):
    """Every program that set-up and `outpost fetch` bring on a machine."""
    architectures = machine.required + machine.optional
    return [
        *(programs.micropython(name, machine) for name in architectures),
        programs.mosquitto(machine),
        programs.jre(machine),
        chromium.program(machine),
    ]


def test_nothing_for_x86_is_fetched_on_arm():
    assert {program.architecture for program in packages(ARM)} == {"arm64", "armhf"}
    assert {program.architecture for program in packages(X86)} == {"amd64", "i386", "armhf"}


def test_what_falls_away_is_one_line():
    assert X86.lacks == ""
    assert "RP2040" in ARM.lacks and "x86" in ARM.lacks and "\n" not in ARM.lacks


def test_the_same_machine_has_two_names():
    assert interpreters.machine("arm64") is ARM and interpreters.machine("amd64") is X86
    assert interpreters.machine("riscv64") is None


@pytest.mark.parametrize(
    ("program", "values"),
    [
        (programs.micropython("arm64", ARM), {"package": "micropython", "options": ""}),
        (programs.micropython("armhf", ARM), {"package": "micropython", "options": ""}),
        (programs.mosquitto(ARM), {"package": "mosquitto", "options": ""}),
        (
            programs.jre(ARM),
            {
                "package": "openjdk-21-jre-headless",
                "options": "-Djdk.lang.Process.launchMechanism=VFORK ",
            },
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_program_starts_without_an_emulator(program, values):
    """The kernel of a Raspberry Pi runs the 32-bit build itself."""
    loader = LOADERS[program.architecture]
    assert program.wrapper() == WRAPPER.format(
        architecture=program.architecture,
        loader=loader,
        folder=loader.rpartition("/")[0],
        path=program.path,
        **values,
    )


def test_the_32_bit_build_runs_under_an_emulator_on_x86_alone():
    assert 'exec "$emulator"' in programs.micropython("armhf", X86).wrapper()
    assert "java-21-openjdk-arm64" in programs.jre(ARM).path


def test_boards_are_simulated_on_the_32_bit_build_first():
    assert ARM.fast == ("armhf", "arm64") and X86.fast == ("i386", "amd64")


def test_the_32_bit_build_is_no_must():
    """Not every kernel for ARM runs it."""
    assert ARM.required == ("arm64",) and ARM.optional == ("armhf",)


def test_every_package_has_a_wheel_for_it():
    """`make lock` checks that with the index."""
    assert "aarch64" in lock.MACHINES


def test_another_machine_is_refused_with_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(programs.platform, "machine", lambda: "riscv64")
    fetcher = programs.Fetcher(tmp_path, tmp_path, interpreters.machine("riscv64"), private=True)
    with pytest.raises(Unobtainable, match="x86-64 and arm64 machines; this one is riscv64"):
        programs.ensure_mosquitto(fetcher)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("says", "found"),
    [
        ("micropython 1.25.0 64 0 MicroPython-1.25.0-aarch64-Linux-with-glibc2.41", "arm64"),
        ("micropython 1.25.0 64 0 MicroPython-1.25.0-riscv64-Linux-with-glibc2.41", ""),
        ("micropython 1.25.0 64 2 MicroPython-1.25.0-x86_64-Linux-with-glibc2.41", "amd64"),
        ("cpython 3.13.5 64 0 Linux-6.12-aarch64-with-glibc2.41", ""),
    ],
)
def test_an_interpreter_says_what_it_is_built_for(tmp_path, says, found):
    """MicroPython makes no machine code on arm64, so its .mpy version does not tell."""
    program = tmp_path / "micropython"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    assert interpreters.probe([str(program)]).architecture == found


EMULATORS = {"arm64": "qemu-aarch64", "armhf": "qemu-arm"}
ASKED = {  # package: its arguments, and what it answers
    "micropython": (["-c", "print(2 + 2)"], "4"),
    "mosquitto": (["-h"], "mosquitto version"),
    "openjdk-21-jre-headless": (["-version"], 'version "21.'),
    "chromium-headless-shell": (["--version"], "Chromium "),
}


def x86_files(root):
    """Programs and libraries for x86, by the head of an ELF file."""
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 5
    heads = {path: path.open("rb").read(20) for path in files}
    return [path for path, head in heads.items() if head[:4] == b"\x7fELF" and head[18] in (3, 62)]


@pytest.mark.timeout(1800)
@pytest.mark.skipif(not os.environ.get("ARM64"), reason="optional: ARM64=1, 310 MB and 4 minutes")
def test_each_program_starts_and_is_for_arm_alone(tmp_path):
    fetcher = programs.Fetcher(tmp_path, tmp_path, ARM, private=True)
    for name in EMULATORS.values():
        program = Program(name, "qemu-user", "amd64", f"/usr/bin/{name}", is_static=True)
        fetcher.get(program)
        # the two come from one package, of which the cache keeps one file
        (tmp_path / "roots" / program.folder).rename(tmp_path / "roots" / name)
    for program in packages(ARM):
        fetcher.get(program)
        root = tmp_path / "roots" / program.folder
        loader = f"{root}{program.loader}"
        emulator = EMULATORS[program.architecture]
        words, answer = ASKED[program.package]
        command = [
            tmp_path / "roots" / emulator / "usr" / "bin" / emulator,
            *(loader, "--library-path", program.library_path(str(root))),
            *(f"{root}{program.path}", *words),
        ]
        done = subprocess.run([*map(str, command)], check=False, capture_output=True, text=True)
        assert answer in done.stdout + done.stderr, f"{program}: {done.stdout}{done.stderr}"
        assert x86_files(root) == []

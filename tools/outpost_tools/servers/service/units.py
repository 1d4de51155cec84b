"""systemd's units for the collector and the pipeline, or for `outpost run`, which combines both: an
unprivileged user, a read-only system, one folder that they may write. Text only."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

STATE = Path("/var/lib/outpost")
USER = "outpost"
METRICS_PORT = 9100
_SAFE = """\
User={user}
Group={user}
StateDirectory=outpost
StateDirectoryMode=0750
WorkingDirectory={state}
Environment=HOME={state}
UMask=0027
ProtectSystem=strict
ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
NoNewPrivileges=yes
CapabilityBoundingSet=
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
"""
_COLLECTOR = """\
# /etc/systemd/system/outpost-collector.service
[Unit]
Description=Outpost collector: from the broker to segments on disk
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
ExecStart={command}
# READY is sent when the broker has answered, which may be tomorrow.
TimeoutStartSec=infinity
# Fed while the loop turns, even while the disk is full: a restart would not help then.
WatchdogSec=120
# SIGTERM finishes the round in progress.
TimeoutStopSec=30
Restart=on-failure
RestartSec=5
# 2 is a wrong argument, and a restart does not correct it.
RestartPreventExitStatus=2
# No code is generated at run time here; Java does that, in the pipeline.
MemoryDenyWriteExecute=yes
{safe}
[Install]
WantedBy=multi-user.target
"""
_PIPELINE = """\
# /etc/systemd/system/outpost-pipeline.service
[Unit]
Description=Outpost pipeline: from segments to tables

[Service]
Type=oneshot
ExecStart={command}
# Merges small files and removes replaced ones, once a day; "-": a fault does not fail the round.
ExecStartPost=-/bin/sh -c {daily}
# Lower priority than the collector, which must keep up.
Nice=10
{safe}"""
_TIMER = """\
# /etc/systemd/system/outpost-pipeline.timer
[Unit]
Description=Outpost pipeline every {minutes} minutes

[Timer]
OnBootSec=2min
# counted from the end of the previous run: never two at once
OnUnitInactiveSec={minutes}min

[Install]
WantedBy=timers.target
"""
_HOME = """\
# /etc/systemd/system/outpost-home.service
[Unit]
Description=Outpost: broker, collector, live page, tables
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={command}
# SIGTERM ends everything in order, the broker last.
TimeoutStopSec=90
KillMode=mixed
Restart=on-failure
RestartSec=5
# 2 is a wrong argument, and a restart does not correct it.
RestartPreventExitStatus=2
{safe}
[Install]
WantedBy=multi-user.target
"""
_SYSUSERS = """\
# /etc/sysusers.d/outpost.conf
u {user} - "Outpost" {state}
"""


@dataclass(frozen=True)
class Service:
    """outpost: the command, with its full path. broker: the option with its address. more: further
    arguments of `outpost collect`."""

    outpost: Path
    broker: tuple[str, str]
    more: tuple[str, ...] = ()
    minutes: int = 5

    @property
    def collect(self) -> list[str]:
        """The collector's command."""
        return [
            *(str(self.outpost), "collect", *self.broker, "--log", f"{STATE}/log"),
            *("--metrics-port", str(METRICS_PORT), *self.more),
        ]

    @property
    def pipeline(self) -> list[str]:
        """The pipeline's command."""
        folders = ["--log", f"{STATE}/log", "--tables", f"{STATE}/tables"]
        return [str(self.outpost), "pipeline", "run", *folders, "--delete-consumed"]

    @property
    def daily(self) -> str:
        """Compaction, for a shell, if the last one was a day ago."""
        stamp = f"{STATE}/compacted"
        words = shlex.join(
            [str(self.outpost), "pipeline", "compact", "--tables", f"{STATE}/tables"]
        )
        return (
            f'[ -n "$(find {stamp} -mmin -1440 2>/dev/null)" ] || {{ {words} && touch {stamp}; }}'
        )

    def files(self) -> dict[str, str]:
        """Name -> text."""
        safe = _safe(self.outpost)
        return {
            "outpost-collector.service": _COLLECTOR.format(command=_line(self.collect), safe=safe),
            "outpost-pipeline.service": _PIPELINE.format(
                command=_line(self.pipeline), daily=_line([self.daily]), safe=safe
            ),
            "outpost-pipeline.timer": _TIMER.format(minutes=self.minutes),
            "outpost.conf": _SYSUSERS.format(user=USER, state=STATE),
        }


@dataclass(frozen=True)
class HomeService:
    """`outpost run` as one service. more: its further arguments."""

    outpost: Path
    more: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        return [str(self.outpost), "run", str(STATE), *self.more]

    def files(self) -> dict[str, str]:
        """Name -> text."""
        return {
            "outpost-home.service": _HOME.format(
                command=_line(self.command), safe=_safe(self.outpost)
            ),
            "outpost.conf": _SYSUSERS.format(user=USER, state=STATE),
        }


def _safe(outpost: Path) -> str:
    home = "read-only" if outpost.parts[1:2] in (("home",), ("root",)) else "yes"
    return _SAFE.format(user=USER, state=STATE, home=home)


def _line(command: list[str]) -> str:
    """Escapes for ExecStart=, where % and $ have a meaning."""
    return shlex.join(command).replace("%", "%%").replace("$", "$$")

"""Asks a booted guest, before anything is done with it, what its boot took and what it uses when idle: one call."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from deskyard.errors import CommandError
from deskyard.host.vm.guest_boot import Guest
from deskyard.image.check.first_frame import FRAME_SECONDS, Wallpaper, wait_command

# An emulated desktop takes minutes until its last unit has started; the figures are those of the finished boot.
SETTLE_SECONDS = 300
MARK = "--deskyard--"
UNITS = 20
PARTS = (
    f"timeout {SETTLE_SECONDS} systemctl is-system-running --wait",
    "systemd-analyze time",
    "systemd-analyze critical-chain --no-pager",
    f"systemd-analyze blame --no-pager | head -n {UNITS}",
    "cat /proc/meminfo",
)
PHASE = re.compile(r"([\d.hmins ]+?) \((firmware|loader|kernel|initrd|userspace)\)")
TOTAL = re.compile(r"= ([\d.hmins ]+)")
SPAN = re.compile(r"([\d.]+)(h|min|ms|us|s)\b")
UNIT_SECONDS = {"h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}


@dataclass(frozen=True)
class Measures:
    """The times of a boot, in seconds; what systemd did not tell is nothing. `state` is systemd's own word for it.

    The first frame is the wallpaper on the screen, from the kernel's start; one that came before SSH counts as it.
    """

    first_frame_seconds: float | None
    state: str
    phases: dict[str, float]
    total_seconds: float | None
    critical_chain: tuple[str, ...]
    slowest_units: dict[str, float]
    idle_memory_mib: int | None


def measure(guest: Guest, shown: Wallpaper | None = None) -> Measures:
    """Wait until `guest` shows its wallpaper and has finished its boot, as long as that takes within bounds, and ask.

    A figure must never fail a build: what is not answered is unknown.
    """
    try:
        timeout = FRAME_SECONDS + SETTLE_SECONDS + 120
        return read(guest.ssh(question(shown), timeout=timeout, check=False).stdout)
    except CommandError:
        return read("")


def question(shown: Wallpaper | None) -> str:
    """The command line that the guest is asked."""
    parts = (wait_command(shown) if shown else "true", *PARTS)
    return "export LC_ALL=C SYSTEMD_COLORS=0; " + f"; echo {MARK}; ".join(parts)


def read(answer: str) -> Measures:
    """The measures from what the guest printed."""
    parts = [part.strip() for part in answer.split(MARK)]
    count = len(PARTS) + 1
    frame, state, time, chain, blame, memory = (parts + [""] * count)[:count]
    total = TOTAL.search(time.splitlines()[0]) if time else None
    return Measures(
        first_frame_seconds=float(frame) if re.fullmatch(r"[\d.]+", frame) else None,
        state=state or "unknown",
        phases={name: seconds(span) for span, name in PHASE.findall(time)},
        total_seconds=seconds(total[1]) if total else None,
        critical_chain=tuple(_chain(chain.splitlines())),
        slowest_units={unit: seconds(span) for span, unit in map(_blamed, blame.splitlines()) if unit},
        idle_memory_mib=_used_mib(memory.splitlines()),
    )


def seconds(span: str) -> float:
    """Seconds from a span as systemd writes it: `1min 2.345s`, `87ms`."""
    return round(sum(float(number) * UNIT_SECONDS[unit] for number, unit in SPAN.findall(span)), 3)


def _chain(lines: Sequence[str]) -> Sequence[str]:
    """The chain without the paragraph that explains it."""
    blank = [number for number, line in enumerate(lines) if not line.strip()]
    return [line.rstrip() for line in lines[blank[0] + 1 if blank else 0 :] if line.strip()]


def _blamed(line: str) -> tuple[str, str]:
    span, _, unit = line.strip().rpartition(" ")
    return span, unit


def _used_mib(lines: Sequence[str]) -> int | None:
    kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines) if rest.split()}
    if not {"MemTotal", "MemAvailable"} <= kib.keys():
        return None
    return (kib["MemTotal"] - kib["MemAvailable"]) // 1024

"""Facts of this machine: programs, memory, disk, acceleration."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from deskyard.errors import HostError

PROGRAMS = (
    "qemu-system-x86_64",
    "qemu-img",
    "libvirtd",
    "mmdebstrap",
    "sgdisk",
    "mke2fs",
    "ip",
    "nft",
    "haproxy",
    "socat",
    "ssh",
    "ssh-keygen",
    "npm",
    "zstd",
)
MEMORY_FILE = Path("/proc/meminfo")
MIB, GIB = 1024**2, 1024**3


@dataclass(frozen=True)
class HostState:
    """Facts of this machine; sizes in GiB; `missing` are programs that are not on PATH."""

    systemd: bool
    root: bool
    kvm_device: bool
    cpus: int
    memory_available_gib: float
    disk_free_gib: float
    missing: tuple[str, ...]


def host_state() -> HostState:
    """Look at the machine; nothing is changed."""
    return HostState(
        systemd=Path("/run/systemd/system").is_dir(),
        root=os.geteuid() == 0,
        kvm_device=Path("/dev/kvm").exists(),
        cpus=os.cpu_count() or 1,
        memory_available_gib=round(available_memory_mib() * MIB / GIB, 1),
        disk_free_gib=round(shutil.disk_usage("/var/lib").free / GIB, 1),
        missing=tuple(program for program in PROGRAMS if not find_program(program)),
    )


def require_programs() -> None:
    """Raise `HostError` naming every program that is missing."""
    missing = host_state().missing
    if missing:
        remedy = "run ./inv --yes, which installs the packages in host/debian.txt, or install them by hand"
        raise HostError("programs", ", ".join(missing), "are not on this machine", remedy)


def find_program(program: str) -> str | None:
    """Where a program is, or None."""
    # An ordinary user's PATH may lack the folders of system programs.
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def available_memory_mib() -> int:
    """Memory that new programs may take, MiB."""
    return _memory_mib("MemAvailable")


def total_memory_mib() -> int:
    """Memory of this machine, MiB."""
    return _memory_mib("MemTotal")


def _memory_mib(name: str) -> int:
    for line in MEMORY_FILE.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) // 1024
    return 0

"""Looks for what an image must not hold, in its disk before the first boot: a machine made from it has its own."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from deskyard.errors import BuildError
from deskyard.host.vm.root_file_system import RootFileSystem

HISTORIES = (".bash_history", ".python_history", ".wget-hsts", ".ansible")
LOGS = ("cloud-init.log", "cloud-init-output.log", "auth.log", "syslog", "dpkg.log", "apt.log")


@dataclass(frozen=True)
class Check:
    """A check for a thing that must not be there: where, and what was there (nothing is as it must be)."""

    what: str
    places: tuple[str, ...]
    found: tuple[str, ...]


def examine(disk: Path) -> tuple[Check, ...]:
    """Look through a raw disk; raises `BuildError` if it cannot be read."""
    root = RootFileSystem(disk)
    globbed = [Check(what, places, tuple(_matches(root, places))) for what, places in ABSENT.items()]
    others = [Check(what, places, tuple(look(root))) for what, (places, look) in LOOKED_INTO.items()]
    return (*globbed, *others)


def require_clean(checks: Iterable[Check]) -> None:
    """Raise `BuildError` that names what was found."""
    dirty = [f"{check.what}: {', '.join(check.found)}" for check in checks if check.found]
    if dirty:
        reason = "holds what no two machines may share:\n" + "\n".join(dirty)
        raise BuildError("image", "disk", reason, "mend the role that left it, or role image_hygiene")


def _matches(root: RootFileSystem, places: Iterable[str]) -> Iterator[str]:
    """The paths of the disk that a pattern matches; `*` stands in the name, or for every home."""
    for place in places:
        for path in _homes(root, place):
            folder, _, pattern = path.rpartition("/")
            yield from (f"{folder}/{name}" for name in sorted(root.names(folder or "/")) if fnmatch(name, pattern))


def _homes(root: RootFileSystem, place: str) -> list[str]:
    if not place.startswith("/home/*/"):
        return [place]
    return [f"/home/{name}/{place.removeprefix('/home/*/')}" for name in sorted(root.names("/home"))]


def _machine_id(root: RootFileSystem) -> Iterator[str]:
    """systemd makes one at boot if the file is there and empty; without it, only where /etc can be written early."""
    if "machine-id" not in root.names("/etc"):
        yield "/etc/machine-id is missing, it has to be there and empty"
    elif root.text("/etc/machine-id").strip():
        yield "/etc/machine-id is not empty"
    if "machine-id" in root.names("/var/lib/dbus"):
        yield "/var/lib/dbus/machine-id"


def _package_lists(root: RootFileSystem) -> Iterator[str]:
    yield from (f"/var/lib/apt/lists/{name}" for name in sorted(root.names("/var/lib/apt/lists") - KEPT_BY_APT))


def _passwords(root: RootFileSystem) -> Iterator[str]:
    """The accounts that a password opens; the password itself is told to nobody."""
    accounts = [line.split(":") for line in root.text("/etc/shadow").splitlines()]
    if not accounts:
        yield "/etc/shadow is missing or empty"
    yield from (f"account {fields[0]}" for fields in accounts if not fields[1].startswith(("*", "!")))


KEPT_BY_APT = {"partial", "lock", "auxfiles"}
# What must not be there at all.
ABSENT: dict[str, tuple[str, ...]] = {
    "SSH host keys": ("/etc/ssh/ssh_host_*",),
    "cloud-init instance": (
        *(f"/var/lib/cloud/{name}" for name in ("instance", "instances", "data", "seed")),
        "/etc/systemd/network/10-cloud-init-*.network",
        "/etc/systemd/network/10-cloud-init-*.link",
        "/etc/netplan/50-cloud-init.yaml",
        "/etc/sudoers.d/90-cloud-init-users",
    ),
    "keys of the build": ("/root/.ssh", "/home/*/.ssh"),
    "CA certificates of the build": ("/usr/local/share/ca-certificates/*",),
    "random seed": ("/var/lib/systemd/random-seed", "/var/lib/systemd/credential.secret"),
    "package caches": ("/var/cache/apt/archives/*.deb", "/var/cache/apt/*.bin"),
    "logs": (*(f"/var/log/{name}" for name in LOGS), "/var/log/journal/*"),
    "histories": tuple(f"{home}/{name}" for home in ("/root", "/home/*") for name in HISTORIES),
}
# What has to be looked into.
LOOKED_INTO: dict[str, tuple[tuple[str, ...], Callable[[RootFileSystem], Iterator[str]]]] = {
    "machine-id": (("/etc/machine-id", "/var/lib/dbus/machine-id"), _machine_id),
    "package lists": (("/var/lib/apt/lists/*",), _package_lists),
    "passwords": (("/etc/shadow",), _passwords),
}

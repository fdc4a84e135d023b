"""Where the packages of a day that is over are: archives that keep every state of a distribution's."""

from dataclasses import dataclass
from datetime import date
from typing import Any

from deskyard.model.image_base import Base


@dataclass(frozen=True)
class Archive:
    """An archive of a distribution: its copy of a day, whose key signed it, and what of it is used."""

    url: str
    keyring: str
    pockets: tuple[str, ...]
    components: str


DEBIAN_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
UBUNTU_KEYRING = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
ARCHIVES = {
    "debian": (
        Archive("https://snapshot.debian.org/archive/debian", DEBIAN_KEYRING, ("", "-updates"), "main"),
        Archive("https://snapshot.debian.org/archive/debian-security", DEBIAN_KEYRING, ("-security",), "main"),
    ),
    "ubuntu": (
        Archive("https://snapshot.ubuntu.com/ubuntu", UBUNTU_KEYRING, ("", "-updates", "-security"), "main universe"),
    ),
}


def snapshot_sources(base: Base, *, signed: bool = True) -> list[str]:
    """The package sources of a base's snapshot, none without one; with `signed` they name the distribution's keys.

    What a past day's lists say about how long they are valid is over, and is no sign of a replay here: the day is asked
    for by name.
    """
    if base.snapshot is None:
        return []
    options = "check-valid-until=no"
    return [
        f"deb [{options}{f' signed-by={archive.keyring}' if signed else ''}]"
        f" {archive.url}/{_stamp(base.snapshot)}/ {base.suite}{pocket} {archive.components}"
        for archive in ARCHIVES[base.distribution.partition("-")[0]]
        for pocket in archive.pockets
    ]


def snapshot_variables(base: Base) -> dict[str, Any]:
    """The variables by which the build's playbook learns of a base's snapshot: none without one."""
    sources = snapshot_sources(base)
    return {"package_snapshot_sources": sources} if sources else {}


def _stamp(day: date) -> str:
    return f"{day:%Y%m%d}T000000Z"

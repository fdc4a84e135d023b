"""Asks a running guest what is in it: its distribution, its packages, and the licences that they name."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from deskyard.host.vm.guest_boot import Guest

# What was removed and left its configuration behind is listed too: the state tells it apart.
FIELDS = (
    "db:Status-Status",
    "Package",
    "Version",
    "Architecture",
    "source:Package",
    "source:Version",
    "Installed-Size",
)
PACKAGES = ("dpkg-query", "-W", "-f", "'" + "\\t".join(f"${{{field}}}" for field in FIELDS) + r"\n'")
RELEASE = ("cat", "/etc/os-release")
# A shell line: the guest's shell expands it. A package without such a file, or with one of the old form, has none.
LICENCES = ("grep -aHs '^License:' /usr/share/doc/*/copyright | sort -u",)
REMOVED = ("config-files", "not-installed")
# An emulated guest reads a thousand small files for the first time.
SECONDS = 300.0


@dataclass(frozen=True)
class Inventory:
    """The packages of a guest: version, architecture, licences, size, and the source it was built from.

    A source is told where its name or version differ from the package's.
    """

    distribution: dict[str, str]
    packages: dict[str, str]
    architectures: dict[str, str]
    licences: dict[str, list[str]] = field(default_factory=dict)
    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    installed_kib: dict[str, int] = field(default_factory=dict)


def take(guest: Guest) -> Inventory:
    """Ask `guest` for its inventory."""
    rows = [line.split("\t") for line in guest.ssh(*PACKAGES, timeout=SECONDS).stdout.splitlines()]
    installed = sorted(row[1:] for row in rows if row[0] not in REMOVED)
    named = licences(guest.ssh(*LICENCES, timeout=SECONDS).stdout.splitlines())
    return Inventory(
        distribution=distribution(guest.ssh(*RELEASE).stdout.splitlines()),
        packages={name: version for name, version, *_ in installed},
        architectures={name: architecture for name, _, architecture, *_ in installed},
        licences={name: named[name] for name, *_ in installed if name in named},
        sources={
            name: {"name": source, "version": source_version}
            for name, version, _, source, source_version, _ in installed
            if (source, source_version) != (name, version)
        },
        installed_kib={name: int(size) for name, *_, size in installed if size.isdecimal()},
    )


def distribution(release: Iterable[str]) -> dict[str, str]:
    """Id and version of a distribution from its os-release; one that is not released has a name for a version."""
    values = {name: value.strip('"') for name, _, value in (line.partition("=") for line in release)}
    return {"id": values["ID"], "version": values.get("VERSION_ID") or values["VERSION_CODENAME"]}


def licences(lines: Iterable[str]) -> dict[str, list[str]]:
    """The licences by package from lines like `/usr/share/doc/sudo/copyright:License: ISC`."""
    found: dict[str, set[str]] = {}
    for line in lines:
        path, _, licence = line.partition(":License:")
        if licence.strip():
            found.setdefault(path.split("/")[-2], set()).add(" ".join(licence.split()))
    return {package: sorted(names) for package, names in sorted(found.items())}

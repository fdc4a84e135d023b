"""Identifiers that follow from names alone: always the same for the same names."""

import hashlib
from uuid import UUID

SEAT_SUFFIX = ".task"


def short_id(*parts: str) -> str:
    """Eight hexadecimal digits that stand for these names: bridge names are limited to 15 characters."""
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:8]


def mac_address(*parts: str) -> str:
    """The MAC address of a NIC, always the same for the same names; 02 says that it is of local making.

    All 40 bits behind it are used: with a vendor's prefix 24 would be left, and of 7,000 NICs two would be alike.
    """
    digest = hashlib.sha256("/".join(parts).encode()).hexdigest()
    return ":".join(["02", *(digest[at : at + 2] for at in range(0, 10, 2))])


def machine_uuid(*parts: str) -> str:
    """The UUID of a machine, always the same for the same names: its guest's machine-id follows from it."""
    return str(UUID(bytes=hashlib.sha256("/".join(("uuid", *parts)).encode()).digest()[:16], version=4))


def domain(workspace: str, machine: str) -> str:
    """The name of a machine, a desktop or `gateway`, at libvirt."""
    return f"deskyard-{workspace}.{machine}"


def seat_domain(workspace: str, seat: str) -> str:
    """The name at libvirt of a machine that is made at a seat.

    No desktop that is kept has such a name, nor its disks: what clears seats can never meet one.
    """
    return f"{domain(workspace, seat)}{SEAT_SUFFIX}"


def seat_of(workspace: str, name: str) -> str | None:
    """The seat whose machine has this name at libvirt; None if it is no seat's."""
    prefix = domain(workspace, "")
    if not name.startswith(prefix) or not name.endswith(SEAT_SUFFIX):
        return None
    return name[len(prefix) : -len(SEAT_SUFFIX)]

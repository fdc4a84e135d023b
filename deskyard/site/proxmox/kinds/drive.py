"""The text of a drive in the configuration of a machine on a cluster: its volume, then its options.

Read in qemu-server e6352be6 (PVE/QemuServer/Drive.pm: parse_drive, print_drive, the lengths of bursts). Size and
format follow from the volume and are not set.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from deskyard.model.tier import DiskBurst

_OF_VOLUME = frozenset({"size", "format", "file"})


@dataclass(frozen=True)
class Caps:
    """The most that a disk may do for its tier: operations and MiB a second, and of each what it may for a moment."""

    disk_iops: int | None = None
    disk_mib_per_second: int | None = None
    disk_burst_iops: int | None = None
    disk_burst_mib_per_second: int | None = None
    # None is the cluster's own, one second.
    disk_burst_seconds: int | None = None

    @staticmethod
    def wanted(inputs: Mapping[str, Any]) -> "Caps":
        """The caps among the inputs of a resource."""
        return Caps(**{field.name: inputs.get(field.name) for field in fields(Caps)})

    def among(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a resource with these caps in place of those that it had."""
        others = {name: value for name, value in state.items() if name not in asdict(self)}
        return others | {name: cap for name, cap in asdict(self).items() if cap is not None}

    @staticmethod
    def of(iops: int | None, mib_per_second: int | None, burst: DiskBurst | None) -> "Caps":
        """The caps of a tier."""
        if burst is None:
            return Caps(iops, mib_per_second)
        seconds = burst.seconds if burst.seconds > 1 else None
        return Caps(iops, mib_per_second, burst.iops, burst.mib_per_second, seconds)


# The options of a drive that hold a cap, for reads and for writes.
_OPTIONS = {
    "disk_iops": ("iops_rd", "iops_wr"),
    "disk_mib_per_second": ("mbps_rd", "mbps_wr"),
    "disk_burst_iops": ("iops_rd_max", "iops_wr_max"),
    "disk_burst_mib_per_second": ("mbps_rd_max", "mbps_wr_max"),
}
# And those that hold how long it lasts, beside the burst itself: QEMU refuses a length without one.
_LENGTHS = {
    "iops_rd_max": "iops_rd_max_length",
    "iops_wr_max": "iops_wr_max_length",
    "mbps_rd_max": "bps_rd_max_length",
    "mbps_wr_max": "bps_wr_max_length",
}


def volume_of(drive: str) -> str:
    """The name of its volume."""
    return drive.partition(",")[0].removeprefix("file=")


def options_of(drive: str) -> dict[str, str]:
    """Its options, without those that follow from the volume."""
    pairs = (part.partition("=") for part in drive.split(",")[1:])
    return {name: value for name, _, value in pairs if name not in _OF_VOLUME}


def drive_of(volume: str, options: Mapping[str, str]) -> str:
    """The drive of a volume with these options."""
    return ",".join([volume, *(f"{name}={value}" for name, value in options.items())])


def capped(options: Mapping[str, str], caps: Caps) -> dict[str, str]:
    """Options with the caps of a tier in place of those that they have."""
    wanted = {option: getattr(caps, name) for name, pair in _OPTIONS.items() for option in pair}
    wanted |= {length: caps.disk_burst_seconds if wanted[burst] else None for burst, length in _LENGTHS.items()}
    others = {name: value for name, value in options.items() if name not in wanted}
    return {**others, **{name: str(cap) for name, cap in wanted.items() if cap is not None}}


def caps_of(options: Mapping[str, str]) -> Caps:
    """The caps that reads and writes have alike; 0 for such as differ."""
    return Caps(**{name: _alike(options, *pair) for name, pair in _OPTIONS.items()}, disk_burst_seconds=_long(options))


def _alike(options: Mapping[str, str], *names: str) -> int | None:
    found = {options.get(name) for name in names}
    (value,) = found if len(found) == 1 else {"0"}
    return int(float(value)) if value is not None else None


def _long(options: Mapping[str, str]) -> int | None:
    there = [length for burst, length in _LENGTHS.items() if burst in options or length in options]
    found = {int(options.get(length, 1)) for length in there} or {1}
    (seconds,) = found if len(found) == 1 else {0}
    return None if seconds == 1 else seconds

"""Tiers: hard caps of a desktop."""

from types import MappingProxyType
from typing import Literal, Self

from pydantic import Field, model_validator

from deskyard.model.base import Declaration
from deskyard.model.care import BackupSchedule
from deskyard.model.idle import Idle


class DiskBurst(Declaration):
    """The work that each disk may do above its caps for some seconds, after a time below them."""

    iops: int | None = Field(None, ge=10, le=1_000_000, description="Reads, and writes, per second.")
    mib_per_second: int | None = Field(None, ge=1, le=100_000, description="MiB read, and written, per second.")
    seconds: int = Field(1, ge=1, le=3600, description="For so long at a time.")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.iops is None and self.mib_per_second is None:
            raise ValueError("raises no cap -> write iops or mib_per_second, or leave disk_burst out")
        return self


class Tier(Declaration):
    """The most that a desktop may use."""

    vcpus: int = Field(ge=1, le=64, description="Virtual CPUs.")
    memory_mib: int = Field(ge=1024, le=1_048_576, description="Memory, MiB.")
    disk_gib: int = Field(ge=10, le=4096, description="Size of the system's disk, GiB.")
    home_gib: int = Field(10, ge=1, le=4096, description="Size of the volume of /home, GiB.")
    connections_per_second: int = Field(
        50, ge=1, le=10_000, description="New connections to the outside that a desktop may open per second."
    )
    disk_iops: int | None = Field(None, ge=10, le=1_000_000, description="Reads, and writes, of each disk per second.")
    disk_mib_per_second: int | None = Field(
        None, ge=1, le=100_000, description="MiB read, and written, of each disk per second."
    )
    disk_burst: DiskBurst | None = Field(None, description="More of each disk for some seconds; no more if left out.")
    network_mib_per_second: int | None = Field(None, ge=1, le=100_000, description="MiB sent, and got, per second.")
    cpu_percent: int | None = Field(
        None,
        ge=10,
        le=6400,
        description="Processor time of the whole machine, in percent of one processor; by default all of its CPUs.",
    )
    # With less a desktop is not drawn, and 4,194,304 is the most that any Linux has.
    processes: int | None = Field(
        None,
        ge=256,
        le=4_194_304,
        description="Processes and threads of each: all programs of the agent, each other service of the desktop's "
        "account, such as its session, and each login. Held by the desktop's kernel, and not against root there.",
    )
    idle: Idle | None = Field(
        None, description="When its desktops are stopped because nobody uses them; never if left out."
    )
    backup: BackupSchedule | Literal["never"] | None = Field(
        None,
        description="How often care.run backs its desktops up; by hand alone if left out. never: nor before one goes.",
    )

    @model_validator(mode="after")
    def _burst_is_above_its_caps(self) -> Self:
        for name in ("iops", "mib_per_second") if self.disk_burst else ():
            burst, cap = getattr(self.disk_burst, name), getattr(self, f"disk_{name}")
            if burst is not None and (cap is None or burst <= cap):
                is_what = "there is no such cap" if cap is None else f"is no more than disk_{name}, {cap}"
                raise ValueError(f"disk_burst.{name}: {is_what} -> write a cap disk_{name} below it, or leave it out")
        return self


TIERS = MappingProxyType(
    {
        "free": Tier(vcpus=2, memory_mib=4096, disk_gib=20, home_gib=10),
        "pro": Tier(vcpus=4, memory_mib=8192, disk_gib=40, home_gib=20, connections_per_second=100),
        "max": Tier(vcpus=4, memory_mib=16384, disk_gib=80, home_gib=40, connections_per_second=200),
    }
)

"""Quotas of a site."""

from pydantic import Field

from deskyard.model.base import Declaration


class Grant(Declaration):
    """The most of each thing that may be asked for; nothing: as much as there is."""

    desktops: int | None = Field(None, ge=1, description="Desktops.")
    vcpus: int | None = Field(None, ge=1, description="Virtual CPUs.")
    memory_gib: int | None = Field(None, ge=1, description="Memory, GiB.")
    disk_gib: int | None = Field(None, ge=1, description="Disks at full size, GiB.")


class Quotas(Grant):
    """The most that all workspaces of the site may ask for together, and each by itself."""

    each_workspace: Grant = Field(
        default_factory=Grant, description="The most that any workspace may ask for by itself."
    )

"""Which kind of hypervisor the host is, told by what is installed there, not by what the role wrote."""

from typing import Any

import pytest


@pytest.fixture(scope="module")
def kind(host: Any) -> str:
    """`libvirt` or `proxmox`."""
    return "proxmox" if host.file("/etc/pve").is_directory else "libvirt"

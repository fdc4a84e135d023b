"""A machine that floods its serial console fills a bounded log, not the host's disk."""

import contextlib
import subprocess
import time
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.site.libvirt import documents
from tests.gateway.support import wait_for
from tests.isolation.site import Site

# It starts a machine, if one without a system: a minute, and many on a busy host.
pytestmark = pytest.mark.deep

# What a BIOS starts: write 'A' to the first serial port for ever.
FLOOD = bytes.fromhex("baf803 b041 ee ebfd")
LIMIT = 16 * 1024


def machine(site: Site, name: str) -> Any:
    """A machine of ours, as the stack defines it, whose disk holds only a flood."""
    disk, seed = site.folder / f"{name}.raw", site.folder / f"{name}.iso"
    disk.write_bytes(FLOOD.ljust(510, b"\0") + b"\x55\xaa" + bytes(1 << 20))
    seed.write_bytes(bytes(1 << 20))
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", disk, disk.with_suffix(".qcow2")], check=True, timeout=60)
    text = documents.domain(
        name=name,
        uuid=str(uuid.uuid4()),
        vcpus=1,
        memory_mib=64,
        accelerator="tcg",
        disk=str(disk.with_suffix(".qcow2")),
        seed=str(seed),
        interfaces=[],
        console_log=f"/var/log/libvirt/qemu/{name}-console.log",
    )
    # The folder of a test is on whatever file system the machine has.
    return text.replace("cache='none'", "cache='writeback'")


def flood(site: Site, name: str) -> Any:
    """Start a machine that floods; at the end of the `with` block it is gone."""
    running = site.link.createXML(machine(site, name), 0)
    return contextlib.closing(SimpleNamespace(close=running.destroy))


def size(site: Site, name: str) -> int:
    """Bytes of the log and its older parts."""
    return sum(path.stat().st_size for path in (site.folder / "log/qemu").glob(f"{name}-console.log*"))


def test_a_flooded_console_stays_within_its_bound() -> None:
    with Site(log_bytes=LIMIT) as site, flood(site, "bounded"):
        older = site.folder / "log/qemu/bounded-console.log.1"
        wait_for("an older part of the log", older.exists, 120)
        for _ in range(20):
            time.sleep(0.1)
            assert size(site, "bounded") <= 3 * LIMIT


def test_without_a_bound_the_same_flood_goes_on() -> None:
    with Site(log_bytes=1 << 30) as site, flood(site, "endless"):
        wait_for("more than the bound", lambda: size(site, "endless") > 4 * LIMIT, 120)

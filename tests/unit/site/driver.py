"""A domain of libvirt's own test driver, which keeps states, saved memory, metadata and snapshots, and runs nothing."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import libvirt
import pytest

from deskyard.site.libvirt import agent, power

NAME = "lab-dev1"
XML = f"""<domain type='test'><name>{NAME}</name><memory>8388</memory><os><type>hvm</type></os><devices>
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/d'/><target dev='vda'/></disk>
<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/s'/><target dev='vdb'/><readonly/></disk>
</devices></domain>"""


class Domain:
    """A domain with a guest's clock: the driver has no agent."""

    def __init__(self, machine: Any) -> None:
        self.machine, self.behind, self.shifts = machine, 100.0, list[float]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.machine, name)

    def getTime(self) -> dict[str, int]:
        """The guest's clock."""
        now = time.time() - self.behind
        return {"seconds": int(now), "nseconds": int(now % 1 * 1e9)}

    def date(self, argv: Sequence[str]) -> tuple[int, str]:
        """Sets it, as `date` in the guest does."""
        assert list(argv[:-1]) == ["date", "--utc", "--set"]
        self.shifts.append(float(argv[-1].removesuffix(" seconds")))
        self.behind -= self.shifts[-1]
        return 0, ""


@contextmanager
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Domain]:
    """A domain that runs, gone at the end: all connections of a process share the driver's domains."""
    monkeypatch.setattr(agent, "wait", lambda *_: None)
    monkeypatch.setattr(agent, "call", lambda *_: "thawed")
    monkeypatch.setattr(agent, "execute", lambda machine, argv: machine.date(argv))
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    link = libvirt.open("test:///default")
    machine = link.defineXML(XML)
    machine.create()
    machine.setAutostart(True)
    try:
        yield Domain(machine)
    finally:
        for left in link.listAllDomains():
            if left.name() == NAME:
                power.shut_down(left, force=True)
                power.forget(left)
        link.close()

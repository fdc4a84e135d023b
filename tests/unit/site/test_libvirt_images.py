"""The images that machines of this host started from, told by their volumes over one connection."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import libvirt
import pytest

from deskyard.site.libvirt import daemon, machines, storage
from tests.desktop.lab import planned

PLAN = planned("dev1", "dev2", "dev3")
DEV1, DEV2, DEV3 = (desktop.machine.domain for desktop in PLAN.desktops)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The connections; `dev1` is an overlay, `dev2` began blank, and `dev3` goes in this moment."""
    found: list[object] = []
    below = "<backingStore><path>/pool/desktop-0123abcd.qcow2</path></backingStore>"
    texts = {DEV1: f"<volume>{below}</volume>", DEV2: "<volume/>"}

    @contextmanager
    def connection() -> Any:
        found.append(object())
        yield found[-1]

    def lookup(_link: object, name: str) -> Any:
        domain = name.removesuffix(storage.DISK)
        if domain == DEV3:
            raise libvirt.libvirtError("it goes")
        return SimpleNamespace(XMLDesc=lambda _: texts[domain]) if domain in texts else None

    monkeypatch.setattr(daemon, "answers", lambda: True)
    monkeypatch.setattr(daemon, "connection", connection)
    monkeypatch.setattr(storage, "lookup", lookup)
    return found


def test_images_of_all_are_told_by_one_connection_and_what_is_not_known_is_left_out(opened: list[object]) -> None:
    assert machines.LibvirtMachines(PLAN).images() == {DEV1: "desktop-0123abcd"}
    assert len(opened) == 1


def test_a_hypervisor_that_does_not_run_tells_nothing(opened: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "answers", lambda: False)
    assert (machines.LibvirtMachines(PLAN).images(), opened) == ({}, [])

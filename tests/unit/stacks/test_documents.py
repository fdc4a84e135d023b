"""The XML for libvirt says what the promises need."""

from typing import Any
from xml.etree import ElementTree

import pytest

from stacks.libvirt import documents

NIC = {"mac": "52:54:00:00:00:01", "network": "lab", "filter": "f", "address": "10.0.0.2", "isolated": True}


def _machine(accelerator: str) -> ElementTree.Element:
    values: dict[str, Any] = {"vcpus": 1, "memory_mib": 512, "disk": "/d", "seed": "/s", "console_log": "/l"}
    return ElementTree.fromstring(
        documents.domain(name="lab-dev1", accelerator=accelerator, interfaces=[NIC], **values)
    )


@pytest.mark.parametrize(("accelerator", "kind", "cpu"), [("tcg", "qemu", "custom"), ("kvm", "kvm", "host-model")])
def test_cpu_follows_the_accelerator(accelerator: str, kind: str, cpu: str) -> None:
    root = _machine(accelerator)
    model = root.find("cpu")
    assert model is not None
    assert (root.get("type"), model.get("mode")) == (kind, cpu)


def test_a_machine_has_no_display_and_no_balloon() -> None:
    root = _machine("tcg")
    assert root.find("./devices/graphics") is None
    balloon = root.find("./devices/memballoon")
    assert balloon is not None
    assert balloon.get("model") == "none"


def test_a_nic_is_isolated_and_bound_to_its_address() -> None:
    nic = ElementTree.fromstring(documents.interface(NIC))
    port, address = nic.find("port"), nic.find("filterref/parameter[@name='IP']")
    assert port is not None
    assert address is not None
    assert (port.get("isolated"), address.get("value")) == ("yes", "10.0.0.2")


def test_the_host_has_an_address_on_the_uplink_only() -> None:
    inside = ElementTree.fromstring(documents.network("lab", "dyw1", "10.80.1.0/25", None))
    uplink = ElementTree.fromstring(documents.network("lab-uplink", "dyu1", "10.80.1.248/29", "10.80.1.249"))
    assert (inside.find("ip"), inside.find("forward")) == (None, None)
    address = uplink.find("ip")
    assert address is not None
    assert (address.get("address"), address.get("netmask")) == ("10.80.1.249", "255.255.255.248")


def test_names_are_escaped() -> None:
    assert "<x>" not in documents.volume("<x>", 1, "raw")

"""What this machine has to lose: its own addresses and ports, also where its hypervisor lives in a namespace."""

import os
import socket
import subprocess
from collections.abc import Iterator
from ipaddress import IPv4Address

import pytest

from deskyard.host import addresses
from deskyard.site.libvirt import daemon
from deskyard.site.libvirt.underlay import host_facts
from tests.support.requirements import need_root

SPACE = f"dyha{os.getpid()}"
INSIDE = "10.80.9.249"


@pytest.fixture
def namespace(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A namespace that the hypervisor is said to live in, with an address of its own."""
    need_root("makes a network namespace")
    enter = ["ip", "netns", "exec", SPACE]
    subprocess.run(["ip", "netns", "add", SPACE], check=True, timeout=20)
    try:
        for words in (["link", "set", "lo", "up"], ["address", "add", f"{INSIDE}/32", "dev", "lo"]):
            subprocess.run([*enter, "ip", *words], check=True, timeout=20)
        monkeypatch.setattr(daemon, "inside", lambda: enter)
        yield enter
    finally:
        subprocess.run(["ip", "netns", "del", SPACE], check=True, timeout=20)


def test_67_facts_of_a_private_hypervisor_are_those_of_the_machine_around_it_too(namespace: list[str]) -> None:
    with socket.create_server(("", 0)) as listener:
        facts = host_facts([])
        assert listener.getsockname()[1] in facts.ports
    assert INSIDE in facts.addresses
    assert {str(address) for address in addresses.addresses()} < set(facts.addresses)


def test_addresses_are_those_of_the_place_that_is_asked_without_loopback(namespace: list[str]) -> None:
    assert addresses.addresses(namespace) == (IPv4Address(INSIDE),)
    assert INSIDE not in map(str, addresses.addresses())


def test_port_of_loopback_alone_is_no_port_to_attack() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert listener.getsockname()[1] not in addresses.ports()

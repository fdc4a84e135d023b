"""Machines of the peer with somebody inside: agents that answer, and gateways with a door that `ssh` finds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.gateway_door import Door, GatewayProgram, Street
from tests.support.pve import Peer
from tests.support.pve.inside import System, Systems


class Inhabitants:
    """Who is inside the machines of a peer."""

    def __init__(self, peer: Peer, street: Street, folder: Path) -> None:
        self.systems = Systems(peer.fake.vms, folder, self._booted)
        self.street = street
        self._programs: dict[System, GatewayProgram] = {}
        # A host key that doors show in place of the one that is in their machine.
        self.false_key: Ed25519PrivateKey | None = None

    def program(self, name: str) -> GatewayProgram:
        """What runs behind a gateway's door, by the name of its machine."""
        return self._programs[self.systems[name]]

    def programs(self) -> list[GatewayProgram]:
        """What runs or ran behind any door."""
        return list(self._programs.values())

    def _booted(self, system: System) -> None:
        """A gateway listens on the first of its addresses."""
        if not system.vm.name.startswith("gateway."):
            return
        address = next(iter(system.nics().values())).partition("/")[0]
        program = self._programs.setdefault(system, GatewayProgram(system.root))
        config = system.vm.config
        keys, user = unquote(str(config.get("sshkeys", ""))), str(config.get("ciuser", ""))
        self.street.open(address, Door(private_text(self.false_key or system.host_key), user, keys, program))


def private_text(key: Ed25519PrivateKey) -> str:
    """A private key as its file holds it."""
    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()).decode()


@contextmanager
def inhabit(peer: Peer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inhabitants]:
    """Let somebody into the machines of a peer, and lead `ssh` to their doors."""
    with Street(folder / "street") as street:
        monkeypatch.setenv("PATH", str(street.programs), prepend=":")
        inhabitants = Inhabitants(peer, street, folder / "inside")
        peer.fake.answerer = inhabitants.systems
        yield inhabitants
        peer.fake.answerer = None
        inhabitants.systems.end()

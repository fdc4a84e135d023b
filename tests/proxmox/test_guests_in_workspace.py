"""A workspace whose machines hold guests, with the real engine and plugins: told, left alone, told again."""

from typing import Any

import pytest

from deskyard.site.ssh_link import SshLink
from deskyard.workspace import status as workspace_status
from deskyard.workspace.readiness import STATUS_SOCKET
from tests.proxmox.inhabited import Inhabitants
from tests.proxmox.rack import SITE, Rack, changed, watched
from tests.proxmox.started_gateway import SETTLING

GATEWAY = "gateway.lab"


def pinned() -> dict[str, str]:
    """The host keys that are trusted."""
    lines = SshLink(SITE, "lab").known_hosts.read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines)


def asked_inside(calls: list[Any]) -> list[str]:
    """What was asked of anybody in a machine."""
    return [str(call) for call in calls if "/agent/" in call.path]


def asked(inhabitants: Inhabitants) -> list[str]:
    """What the gateway was asked to do; how it is, it may be asked at any time."""
    commands = inhabitants.program(GATEWAY).commands()
    return [command for command in commands if command != "status" and STATUS_SOCKET not in command]


def test_a_workspace_is_told_left_alone_and_told_again(
    rack: Rack, inhabitants: Inhabitants, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # The certificate of the fingerprint is all that the plugin trusts.
    rack.site(ca=None, fingerprint=rack.peer.certificates.fingerprint)
    stack = rack.up("lab", "dev1")
    program, system = inhabitants.program(GATEWAY), inhabitants.systems[GATEWAY]
    assert asked(inhabitants) == SETTLING
    assert pinned() == {"lab.gateway": system.public_key, "lab.dev1": inhabitants.systems["dev1.lab"].public_key}
    kept = [
        resource["outputs"] for resource in stack.resources() if resource["type"] == "deskyard:proxmox:GatewaySettings"
    ]
    assert [outputs["host_key"] for outputs in kept] == [system.public_key]
    status = workspace_status.status("lab")
    assert (status["ready"], status["gateway"]["state"]) == (True, "running")

    said = len(program.heard)
    with watched(rack.peer) as calls:
        assert changed(stack.preview()) == []
    assert (asked_inside(calls), len(program.heard)) == ([], said)

    rack.up("lab", "dev1", "dev2")
    assert program.settings is not None
    assert [desktop.name for desktop in program.settings.desktops] == ["dev1", "dev2"]
    # Told in place, and named once: nobody's session is cut off by another start.
    assert "updating lab-gateway-settings" in capfd.readouterr().err
    assert (inhabitants.systems[GATEWAY], system.boots) == (system, 2)

    for number, node in enumerate(sorted(rack.peer.fake.nodes)):
        rack.publish(node, 20_100 + number * 10, "gateway", "newer")
        rack.publish(node, 20_101 + number * 10, "desktop", "newer")
    monkeypatch.setattr("deskyard.image.store.store.digests", lambda name: ["newer"])
    rack.up("lab", "dev1", "dev2")
    new = inhabitants.systems[GATEWAY]
    assert new is not system
    assert pinned()["lab.gateway"] == new.public_key
    assert asked(inhabitants) == SETTLING

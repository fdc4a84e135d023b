"""The way to gateways: open to those that are declared and run, to port 22, with what they are known by."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from deskyard.control.approvals.asking import asks
from deskyard.control.link import way
from deskyard.declaration import declaration
from deskyard.engine import running
from deskyard.errors import DeskyardError, SiteError
from deskyard.site import link_key
from deskyard.site.libvirt import daemon, net_namespace
from deskyard.site.management_key import private_key_file
from deskyard.site.ssh_link import GATEWAY, SshLink
from tests.support.requirements import need_programs, need_root

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ"
SECONDS = 60
LISTENER = """
import socket, subprocess
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
line, _ = listener.accept()
line.sendall(b"inside")
"""


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[socket.socket]:
    """What listens on the port of the gateway of `lab`, which is declared and runs."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setattr(declaration, "stack_names", lambda: ["lab", "fresh"])
    monkeypatch.setattr(declaration, "site_of", lambda _: SimpleNamespace(name="rack"))
    monkeypatch.setattr(running, "require_gateway", lambda *_: None)
    link = SshLink("rack", "lab")
    monkeypatch.setattr("deskyard.site.ssh_link.read_site", lambda _: SimpleNamespace(backend="proxmox"))
    link.write_config("127.0.0.1", [("desk", "192.0.2.7")])
    link.pin("desk", "ssh-ed25519 other")
    link.pin(GATEWAY, KEY)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr(way, "SSH_PORT", listener.getsockname()[1])
        yield listener


def test_a_gateway_that_runs_is_connected_to_and_known_by_its_pinned_key(gateway: socket.socket) -> None:
    facts, near = way.open_way("lab")
    gateway.settimeout(SECONDS)
    far, _ = gateway.accept()
    with near, far:
        far.sendall(b"SSH-2.0")
        assert near.recv(7) == b"SSH-2.0"
    assert facts == {"host_key": KEY, "key": link_key.private_key_file("rack").read_text()}
    assert facts["key"] != private_key_file("rack").read_text()
    assert link_key.private_key_file("rack").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["other", "../lab", "", "lab/"])
def test_there_is_no_way_to_what_is_not_declared(gateway: socket.socket, name: str) -> None:
    with pytest.raises(SiteError, match="is not declared"):
        way.open_way(name)


def test_there_is_no_way_to_a_gateway_that_was_never_set_up(gateway: socket.socket) -> None:
    with pytest.raises(SiteError, match="has not been set up yet"):
        way.open_way("fresh")


def test_there_is_no_way_to_a_gateway_that_does_not_run(
    gateway: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise SiteError("workspace", "lab", "is not up", "run ./inv workspace.up lab")

    monkeypatch.setattr(running, "require_gateway", refuse)
    with pytest.raises(SiteError, match="is not up"):
        way.open_way("lab")
    gateway.setblocking(False)
    with pytest.raises(BlockingIOError):
        gateway.accept()


def test_a_port_that_nobody_listens_on_is_told(gateway: socket.socket) -> None:
    gateway.close()
    with pytest.raises(SiteError, match="port 22 is not reached"):
        way.open_way("lab")


def test_who_asks_is_told_of_a_declaration_that_cannot_be_read_as_of_one_that_asks_nobody(
    gateway: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(name: str) -> object:
        if name == "fresh":
            raise DeskyardError("egress_ask", name, "is wrong", "mend it")
        return SimpleNamespace(workspace=SimpleNamespace(egress_ask=("a.test",)))

    monkeypatch.setattr(declaration, "read", read)
    assert (asks("lab"), asks("fresh"), asks("../lab")) == (True, False, False)


def test_a_question_about_one_workspace_reads_no_declaration_of_another(
    gateway: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def note(name: str) -> object:
        read.append(name)
        return SimpleNamespace(workspace=SimpleNamespace(egress_ask=()))

    monkeypatch.setattr(declaration, "read", note)
    assert not asks("lab")
    assert read == ["lab"]


def test_a_gateway_in_a_network_namespace_is_reached_from_outside(
    gateway: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_root("makes a network namespace")
    need_programs("unshare", "ip")
    monkeypatch.setattr("deskyard.site.ssh_link.read_site", lambda _: SimpleNamespace(backend="libvirt"))
    monkeypatch.setattr(daemon, "namespace", lambda: "deskyard")
    argv = ["unshare", "--net", sys.executable, "-c", LISTENER]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            monkeypatch.setattr(way, "SSH_PORT", int(process.stdout.readline()))
            monkeypatch.setattr(net_namespace, "NAMESPACE_FILE", Path(f"/proc/{process.pid}/ns/net"))
            before = Path("/proc/self/ns/net").readlink()
            _, near = way.open_way("lab")
            with near:
                near.settimeout(SECONDS)
                assert near.recv(6) == b"inside"
            assert Path("/proc/self/ns/net").readlink() == before
        finally:
            process.kill()

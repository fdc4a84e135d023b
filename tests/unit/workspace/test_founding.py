"""A new workspace is declared with a place of its own once all is checked; what is refused leaves nothing."""

import socket
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from deskyard.declaration import declaration
from deskyard.engine import preflight
from deskyard.engine.on_libvirt import LibvirtBackend
from deskyard.errors import ConfigError, DeskyardError
from deskyard.host.places import tree
from deskyard.plan.power import NoRoom
from deskyard.workspace import founding
from deskyard.workspace.founding import Wish
from tests.control.founded import Machines, environment, stand_in

AUTHOR = "person:Ada"
DESKTOPS = ({"name": "dev1", "tier": "free", "image": None},)
FIRST = Wish("first", DESKTOPS)
SITE = """egress_exceptions: [10.80.2.64/26, 10.80.3.7/32]
quotas: {desktops: 3}
"""


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    # Whatever listens on this machine.
    monkeypatch.setattr(founding, "port_error", lambda *_: None)
    return stand_in(tmp_path, monkeypatch.setattr)


@pytest.fixture
def stacks(machines: Machines) -> Path:
    return machines.folder / "stacks"


def test_the_declaration_says_what_was_wished_and_what_whoever_edits_it_has_to_know(stacks: Path) -> None:
    desktops = (*DESKTOPS, {"name": "on", "tier": "pro", "image": "agent"})
    path = founding.declare(Wish("first", desktops, egress="locked"), "person:Ada\nconfig: 7")
    schema = tree() / "schemas" / "stack.schema.json"
    head, _, rest = path.read_text().partition("\n")
    assert (stacks / head.removeprefix("# yaml-language-server: $schema=")).resolve() == schema
    assert (
        rest
        == """# Made in Mission Control by person:Ada?config: 7.
# Edit it as any other, then: ./inv workspace.up first
config:
  # A private /24 that nothing else on this site uses.
  deskyard:network: 10.80.2.0/24
  # https://first.localhost:8443 leads to the workspace's gateway.
  deskyard:gateway_port: 8443
  # open: the internet, without private, metadata and host ranges. locked: only the names in
  # deskyard:egress_allow. none: nothing.
  deskyard:egress: locked
  deskyard:desktops:
    - name: dev1
      tier: free # 2 vCPU, 4 GiB, 20 GiB disk
    - name: 'on'
      tier: pro # 4 vCPU, 8 GiB, 40 GiB disk
      image: agent
"""
    )
    found = declaration.read_workspace("first")
    assert [(desktop.name, desktop.tier, desktop.image) for desktop in found.desktops] == [
        ("dev1", "free", None),
        ("on", "pro", "agent"),
    ]


def test_each_gets_the_first_network_and_port_that_nothing_has(stacks: Path) -> None:
    (stacks / "Pulumi.other.yaml").write_text(
        "config:\n  deskyard:network: 10.80.4.0/23\n  deskyard:gateway_port: 8444\n"
    )
    (stacks / "Pulumi.broken.yaml").write_text("config: 7\n")
    (stacks / "sites").mkdir()
    (stacks / "sites" / "local.yaml").write_text(SITE)
    for name in ("first", "second", "third"):
        founding.declare(Wish(name, DESKTOPS), AUTHOR)
    found = [declaration.read_workspace(name) for name in ("first", "second", "third")]
    # 10.80.1 is the host's, 10.80.2 and 10.80.3 hold what all may reach, 10.80.4 and 10.80.5 are declared.
    assert [str(each.network) for each in found] == ["10.80.6.0/24", "10.80.7.0/24", "10.80.8.0/24"]
    assert [each.gateway_port for each in found] == [8443, 8445, 8446]


def test_a_port_that_a_program_listens_on_is_left_to_it(stacks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(founding, "port_error", preflight.port_error)
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        monkeypatch.setattr(founding, "FIRST_PORT", taken)
        monkeypatch.setattr(founding, "PORTS", 1)
        with pytest.raises(ConfigError, match=r"none from \d+ to \d+ is free"):
            founding.declare(FIRST, AUTHOR)
    assert list(stacks.glob("Pulumi.*")) == []
    founding.declare(FIRST, AUTHOR)
    assert declaration.read_workspace("first").gateway_port == taken


def test_a_network_that_is_named_is_taken(stacks: Path) -> None:
    founding.declare(Wish("first", DESKTOPS, network="192.168.77.0/24"), AUTHOR)
    assert declaration.read_workspace("first").network == IPv4Network("192.168.77.0/24")


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        (Wish("taken", DESKTOPS), "is declared already"),
        (Wish("first", DESKTOPS, network="10.80.9.0/24"), "overlaps workspace 'taken'"),
        (Wish("first", DESKTOPS, network="10.80.2.0/24"), "overlaps 10.80.2.64/26, which all workspaces"),
        (Wish("first", DESKTOPS, network="8.8.8.0/24"), "is not a private range"),
        (Wish("first", ({"name": "dev1"}, {"name": "dev1"})), "is used twice"),
        (Wish("first", ({"name": "dev1", "tier": "huge"},)), "is no tier of site local"),
        (Wish("first", ({"name": "dev1", "image": "gateway"},)), "is no image of desktops"),
        (Wish("first", DESKTOPS, site="mars"), "mars.yaml does not exist"),
        (Wish("first", tuple({"name": f"d{number}"} for number in range(3))), "the site grants 3"),
        (Wish("left", DESKTOPS), "whose machines are there: deskyard-left"),
    ],
    ids=lambda value: value.name if isinstance(value, Wish) else value,
)
def test_what_is_refused_leaves_nothing(machines: Machines, stacks: Path, wish: Wish, reason: str) -> None:
    (stacks / "sites").mkdir()
    (stacks / "sites" / "local.yaml").write_text(SITE)
    founding.declare(Wish("taken", DESKTOPS, network="10.80.9.0/24"), AUTHOR)
    before = {path: path.read_text() for path in stacks.glob("Pulumi.*")}
    machines.make("left", ["dev1"])
    with pytest.raises(DeskyardError, match=reason):
        founding.declare(wish, AUTHOR)
    assert {path: path.read_text() for path in stacks.glob("Pulumi.*")} == before
    assert not [path for path in stacks.iterdir() if path.name.startswith(".")]


def test_without_room_nothing_is_written(stacks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(*_: object) -> None:
        raise NoRoom("memory", None, "100 MiB are available", "stop others")

    monkeypatch.setattr(LibvirtBackend, "check", check)
    with pytest.raises(NoRoom):
        founding.declare(FIRST, AUTHOR)
    assert list(stacks.glob("*Pulumi*")) == []


def test_a_run_that_was_killed_finds_its_own_declaration_and_no_others(stacks: Path) -> None:
    path = founding.declare(FIRST, AUTHOR)
    text = path.read_text()
    with pytest.raises(ConfigError, match="is declared already"):
        founding.declare(FIRST, AUTHOR)
    # Pulumi adds what opens its secrets.
    path.write_text(f"encryptionsalt: v1:x\n{text}")
    assert founding.declare(FIRST, AUTHOR, again=True) == path
    for other in (Wish("first", DESKTOPS, egress="none"), Wish("first", ({"name": "dev2"},))):
        with pytest.raises(ConfigError, match="is declared already"):
            founding.declare(other, AUTHOR, again=True)
    assert path.read_text() == f"encryptionsalt: v1:x\n{text}"

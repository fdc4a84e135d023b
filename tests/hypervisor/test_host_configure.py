"""`host.configure` hands the role what the site says, and refuses where it could not work."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from deskyard.errors import ConfigError, HostError
from deskyard.model.site import Site
from deskyard.plan.egress import DENIED_NETWORKS
from deskyard.site.libvirt import configure
from tests.hypervisor.lab import ROLE

SITE = Site.check({"name": "local", "egress_denied": ["203.0.113.9/32"], "egress_exceptions": ["10.1.0.0/24"]}, "test")
CLUSTER = {
    "endpoint": "https://pve1.example.org:8006",
    "uplink": {
        "network": "192.0.2.0/24",
        "router": "192.0.2.1",
        "first": "192.0.2.10",
        "last": "192.0.2.20",
        "resolvers": ["192.0.2.1"],
    },
    "zone": {"kind": "simple"},
}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[list[str], dict[str, Any]]]:
    """Command lines with the variables that they name; on a machine that systemd runs, as root."""
    recorded: list[tuple[list[str], dict[str, Any]]] = []

    def record(argv: list[str], **_: object) -> None:
        file = next(word for word in argv if word.startswith("host_variables=")).partition("=")[2]
        recorded.append((argv, json.loads(Path(file).read_text())))

    monkeypatch.setattr(configure, "run", record)
    monkeypatch.setattr(configure, "RUN_BY_SYSTEMD", tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return recorded


def test_role_gets_the_networks_of_the_site(runs: list[tuple[list[str], dict[str, Any]]]) -> None:
    configure.configure(SITE)
    ((argv, given),) = runs
    assert given["hypervisor_denied_networks"] == [*DENIED_NETWORKS, "203.0.113.9/32"]
    assert given["hypervisor_egress_exceptions"] == ["10.1.0.0/24"]
    specified = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    assert set(given) <= set(specified)
    assert "--check" not in argv


def test_check_changes_nothing(runs: list[tuple[list[str], dict[str, Any]]]) -> None:
    configure.configure(SITE, check=True)
    assert "--check" in runs[0][0]


def without_systemd(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(configure, "RUN_BY_SYSTEMD", Path("/nowhere"))


def without_root(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("os.geteuid", lambda: 1000)


@pytest.mark.parametrize(
    ("change", "reason"),
    [(without_systemd, "systemd does not run this machine"), (without_root, "is not root")],
    ids=["systemd", "root"],
)
def test_machine_that_cannot_be_a_host_is_refused_before_anything_runs(
    runs: list[tuple[list[str], dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[pytest.MonkeyPatch], None],
    reason: str,
) -> None:
    change(monkeypatch)
    with pytest.raises(HostError, match=reason):
        configure.configure(SITE)
    assert runs == []


def test_cluster_is_no_matter_of_this_machine(runs: list[tuple[list[str], dict[str, Any]]]) -> None:
    site = Site.check({"name": "cluster", "backend": "proxmox", "proxmox": CLUSTER}, "test")
    with pytest.raises(ConfigError, match="its hosts are other machines"):
        configure.configure(site)
    assert runs == []

"""One simulated site for the tests of this folder: three workspaces whose layers can be switched off and on."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deskyard.isolation.probing import Verdict, verify_probes
from deskyard.model.site import Site as DeclaredSite
from deskyard.model.workspace import Workspace
from deskyard.plan.isolation import probe
from deskyard.plan.isolation.beyond import HOST_SERVICES, LAN, METADATA
from deskyard.plan.isolation.forgeries import PUBLIC
from deskyard.plan.isolation.probe import HERE, HostFacts
from deskyard.plan.workspace import WorkspacePlan, plan_workspace
from tests.isolation.site import LAYERS, Site

HOST_PORTS = (80, 443, 853, *HOST_SERVICES)

Verify = Callable[..., list[Verdict]]


def planned(name: str, number: int, **keys: Any) -> WorkspacePlan:
    """The Plan of a workspace with two desktops; `number` makes its network and port."""
    values = {"network": f"10.{71 + number // 200}.{number % 200}.0/24", "gateway_port": 18000 + number, **keys}
    declared = {"name": name, "desktops": [{"name": "one"}, {"name": "two"}], **values}
    return plan_workspace(Workspace.check(declared, "test"), DeclaredSite(), "kvm")


LOCKED = planned("locked", 6, egress="locked", egress_allow=["docs.example.org", "git.example.org:22"])


@pytest.fixture(scope="package")
def lab() -> Iterator[Site]:
    """Workspaces `a` and `b` (egress open), `shut` (none) and `locked`, names served, everything on."""
    with pytest.MonkeyPatch.context() as patience, Site(ports=HOST_PORTS, addresses=(*METADATA, *LAN, PUBLIC)) as site:
        # Here nobody answers later than at once; emulated machines do.
        patience.setattr(probe, "WAIT_SECONDS", 1.5)
        first = site.add(planned("a", 1), names=True)
        site.add_like(first, planned("b", 2), planned("shut", 3, egress="none"), LOCKED, names=True)
        yield site


@pytest.fixture(scope="package")
def verdicts(lab: Site) -> Callable[[frozenset[str]], list[Verdict]]:
    """What comes of all probes of `a` and `b` with these layers on, tried once for all tests."""
    known: dict[frozenset[str], list[Verdict]] = {}

    def tried(layers: frozenset[str]) -> list[Verdict]:
        if layers not in known:
            with switched(lab, layers):
                known[layers] = verify(lab, "a", "b")
        return known[layers]

    return tried


class switched:
    """Layers of all workspaces, for the length of a `with` block."""

    def __init__(self, site: Site, layers: frozenset[str]) -> None:
        self.site, self.layers = site, layers

    def __enter__(self) -> None:
        self._switch(self.layers)

    def __exit__(self, *_: object) -> None:
        self._switch(LAYERS)

    def _switch(self, layers: frozenset[str]) -> None:
        for simulated in self.site.workspaces.values():
            simulated.switch(layers)


def verify(site: Site, name: str, against: str | None = None) -> list[Verdict]:
    """All probes of a workspace; the door itself, a program of a real gateway, is not part of a simulated one."""
    plan = site.workspaces[name].plan
    other = site.workspaces[against].plan if against else None
    hosts = [side.uplink.host_address or "" for side in (plan, other) if side]
    found = verify_probes(plan, HostFacts(tuple(hosts), HOST_PORTS), site.start, other)
    return [verdict for verdict in found if verdict.probe.start != HERE]

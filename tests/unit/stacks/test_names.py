"""Two workspaces never claim the same thing of the hypervisor, however alike their names are."""

from itertools import combinations

from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.workspace import plan_workspace

ALIKE = {"a": ["b-c", "uplink", "b"], "a-b": ["c", "gateway-1"], "a-uplink": ["b"], "a-gateway": ["x"]}


def _names(workspace: str, desktops: list[str]) -> set[str]:
    declared = [{"name": name} for name in desktops]
    model = Workspace.check({"name": workspace, "network": "10.80.1.0/24", "desktops": declared}, "test")
    plan = plan_workspace(model, Site(), "tcg")
    networks = {f"network {plan.network.name}", f"network {plan.uplink.name}", plan.network.bridge, plan.uplink.bridge}
    machines = {plan.gateway.machine.domain, *(desktop.machine.domain for desktop in plan.desktops)}
    assert len(machines) == len(desktops) + 1
    return networks | machines


def test_names_of_alike_workspaces_are_all_different() -> None:
    claimed = {workspace: _names(workspace, desktops) for workspace, desktops in ALIKE.items()}
    for first, other in combinations(claimed, 2):
        assert claimed[first].isdisjoint(claimed[other]), (first, other)

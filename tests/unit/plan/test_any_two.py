"""Any two workspaces: nothing of one is the other's, and no rule of one names anything of the other."""

import dataclasses
import json
import re
from ipaddress import IPv4Network
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from deskyard.gateway.config import render
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.clash import shared
from deskyard.plan.workspace import WorkspacePlan, plan_workspace
from deskyard.site.libvirt import documents
from deskyard.wire import gateway_settings as gateway_settings

LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True).filter(lambda name: name != "gateway")
NETWORKS = st.one_of(
    st.tuples(st.just(10), st.integers(0, 255), st.integers(0, 255)),
    st.tuples(st.just(172), st.integers(16, 31), st.integers(0, 255)),
    st.tuples(st.just(192), st.just(168), st.integers(0, 255)),
).map(lambda parts: IPv4Network(f"{parts[0]}.{parts[1]}.{parts[2]}.0/24"))
EGRESS, PEERS = st.sampled_from(["open", "none"]), st.sampled_from(["open", "closed"])
MODES = st.fixed_dictionaries({"egress": EGRESS, "peers": PEERS})


@st.composite
def plans(draw: st.DrawFn) -> WorkspacePlan:
    """A Plan of any workspace that the model accepts."""
    desktops = draw(st.lists(LABELS, min_size=1, max_size=8, unique=True))
    values: dict[str, Any] = {"name": draw(LABELS), "network": str(draw(NETWORKS)), **draw(MODES)}
    declared = {**values, "desktops": [{"name": name} for name in desktops]}
    return plan_workspace(Workspace.check(declared, "test"), Site(), "kvm")


def rules(plan: WorkspacePlan) -> str:
    """All that says who may talk to whom."""
    sent = json.dumps(dataclasses.asdict(plan.gateway.settings))
    desktop_filter = plan.desktop_filter
    peers = desktop_filter.kind == "desktop-peers"
    frames = documents.desktop_filter(
        desktop_filter.name, desktop_filter.gateway_mac, desktop_filter.gateway_address, peers=peers
    )
    return render.firewall(gateway_settings.parse(sent)) + frames + documents.gateway_filter(plan.gateway_filter.name)


def own_values(plan: WorkspacePlan) -> list[str]:
    """Everything that stands for a machine of this workspace."""
    gateway = plan.gateway
    found = [gateway.workspace_address, gateway.uplink_address, gateway.workspace_mac, gateway.uplink_mac]
    found += [value for desktop in plan.desktops for value in (desktop.address, desktop.mac)]
    return [*found, plan.network.cidr, plan.uplink.cidr, plan.desktop_filter.name, plan.gateway_filter.name]


# The same examples in each run: a MAC has 24 free bits, and two names with the same one are a matter of preflight.
@settings(derandomize=True, max_examples=60, deadline=None)
@given(first=plans(), other=plans())
def test_any_two_workspaces_share_nothing(first: WorkspacePlan, other: WorkspacePlan) -> None:
    # What preflight refuses: the same name, networks that overlap.
    assume(first.name != other.name and first.network.gateway_address != other.network.gateway_address)
    assert shared(first, other) == {}
    for mine, theirs in ((first, other), (other, first)):
        text = rules(mine)
        whole = [re.compile(rf"(?<![\w.:-]){re.escape(value)}(?![\w.:-])") for value in own_values(theirs)]
        assert [value.pattern for value in whole if value.search(text)] == []


@settings(derandomize=True, max_examples=40, deadline=None)
@given(plan=plans())
def test_within_one_workspace_nothing_is_given_twice(plan: WorkspacePlan) -> None:
    network, uplink = IPv4Network(plan.network.cidr), IPv4Network(plan.uplink.cidr)
    values = own_values(plan)
    assert len(set(values)) == len(values)
    assert not network.overlaps(uplink)


@settings(derandomize=True, max_examples=30, deadline=None)
@given(first=plans(), other=plans())
def test_what_is_shared_is_found(first: WorkspacePlan, other: WorkspacePlan) -> None:
    """The property above would be worthless if nothing were ever found."""
    stolen = dataclasses.replace(other.desktops[0], mac=first.desktops[0].mac)
    clash = dataclasses.replace(other, desktops=(stolen, *other.desktops[1:]))
    assert first.desktops[0].mac in shared(first, clash)["MAC"]
    assert set(shared(first, first)) == {"address", "MAC", "bridge", "machine", "network", "filter"}

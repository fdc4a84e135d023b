"""Three layers keep desktops apart: each is shown to hold alone, all together, and to be what holds."""

from collections.abc import Callable

import pytest

from deskyard.isolation.probing import Verdict, verify_probes
from deskyard.plan.isolation.probe import HostFacts
from tests.isolation.conftest import planned, switched, verify
from tests.isolation.site import LAYERS, Site, batch

Verdicts = Callable[[frozenset[str]], list[Verdict]]
NOTHING: frozenset[str] = frozenset()
# Also in force where all three layers are off: the kernel's own behaviour, and libvirt's rules between networks.
OTHERS = ("kernel", "host")


def report_of(verdicts: list[Verdict]) -> str:
    """What failed, for a person."""
    return "\n".join(
        f"{verdict.probe.id}: {verdict.outcome} {verdict.seen_by} <- {verdict.probe.guards}" for verdict in verdicts
    )


def layers_of(verdict: Verdict) -> set[str]:
    """The layers that, each alone, have to stop this probe."""
    return {guard.partition(":")[0] for guard in verdict.probe.guards}


def test_everything_holds_with_all_layers(verdicts: Verdicts) -> None:
    found = verdicts(LAYERS)
    assert len(found) > 300
    assert {verdict.probe.topic for verdict in found} >= {"peers", "workspaces", "host", "metadata", "spoofing"}
    failed = [verdict for verdict in found if not verdict.ok]
    assert not failed, report_of(failed)


@pytest.mark.parametrize("layer", sorted(LAYERS))
def test_each_layer_holds_alone_what_it_is_for(verdicts: Verdicts, layer: str) -> None:
    mine = [verdict for verdict in verdicts(frozenset({layer})) if layer in layers_of(verdict)]
    assert len([verdict for verdict in mine if verdict.probe.expected == "refused"]) >= 20
    failed = [verdict for verdict in mine if not verdict.ok]
    assert not failed, report_of(failed)


def test_what_must_work_works_whatever_layer_is_on(verdicts: Verdicts) -> None:
    for layers in (NOTHING, *map(frozenset, ({"port"}, {"filter"}, {"gateway"}))):
        failed = [verdict for verdict in verdicts(layers) if verdict.probe.expected == "reached" and not verdict.ok]
        assert not failed, f"{set(layers)}: {report_of(failed)}"


def test_without_layers_every_probe_arrives(verdicts: Verdicts) -> None:
    """A probe that nothing refuses and that still does not arrive would be no probe at all."""
    arrived: dict[str, bool] = {}
    for verdict in verdicts(NOTHING):
        if verdict.probe.expected == "refused" and not layers_of(verdict) & set(OTHERS):
            # Protocols without ports: behind one address only one desktop at a time can speak them.
            what = verdict.probe.id.partition(": ")[2]
            arrived[what] = arrived.get(what, False) or not verdict.ok
    assert len(arrived) > 60
    assert [what for what, did in arrived.items() if not did] == []


@pytest.mark.parametrize("name", ["shut", "locked"])
def test_nothing_leaves_by_address(lab: Site, name: str) -> None:
    found = verify(lab, name)
    tried = {verdict.probe.id.partition(": ")[2] for verdict in found}
    assert {"DNS elsewhere (UDP 53)", "QUIC (UDP 443)", "DNS over TLS (TCP 853)", "SSH, connected"} <= tried
    assert "a tunnel in TXT questions" in tried
    assert ("docs.example.org is answered" in tried) is (name == "locked")
    failed = [verdict for verdict in found if not verdict.ok]
    assert not failed, report_of(failed)
    with switched(lab, LAYERS - {"gateway"}):
        leaked = {verdict.probe.id.partition(": ")[2] for verdict in verify(lab, name) if not verdict.ok}
    assert {"DNS elsewhere (UDP 53)", "QUIC (UDP 443)", "HTTPS by address (TCP 443)"} <= leaked


def test_open_peers_talk_and_other_workspaces_do_not(lab: Site) -> None:
    lab.add(planned("peers", 4, peers="open"), names=True, bound=("desktop",))
    try:
        found = verify(lab, "peers", "b")
    finally:
        lab.remove("peers")
    failed = [verdict for verdict in found if not verdict.ok]
    assert not failed, report_of(failed)
    reached = [verdict for verdict in found if verdict.probe.topic == "peers" and verdict.probe.expected == "reached"]
    assert len(reached) >= 8


def test_a_machine_may_call_its_nic_otherwise(lab: Site) -> None:
    """On a cluster nobody names the NICs of desktops: they are found by the MAC addresses of the Plan."""
    machine = lab.workspaces["shut"]
    namespace, router = machine.namespaces["one"], machine.plan.gateway.workspace_address

    def rename(old: str, new: str) -> None:
        lines = [f"link set {old} down", f"link set {old} name {new}", f"link set {new} up"]
        batch(namespace, [*lines, f"route add default via {router}"])

    rename("workspace", "eth0")
    try:
        found = verify(lab, "shut")
    finally:
        rename("eth0", "workspace")
    failed = [verdict for verdict in found if not verdict.ok]
    assert not failed, report_of(failed)
    assert any(verdict.probe.forged and verdict.probe.start == "shut/one" for verdict in found)
    assert any(verdict.seen_by == ("shut/one/workspace/in",) for verdict in found)


def test_a_machine_that_cannot_be_asked_is_no_success(lab: Site) -> None:
    plan = lab.workspaces["a"].plan

    def start(name: str, program: str) -> list[str]:
        return ["sh", "-c", "echo no way in >&2; exit 3"] if name == "a/one" else lab.start(name, program)

    found = verify_probes(plan, HostFacts(), start)
    silent = [verdict for verdict in found if verdict.probe.start == "a/one"]
    assert silent and not any(verdict.ok for verdict in silent)
    assert "no way in" in silent[0].outcome
    # Nor is a probe whose only witness could not watch.
    watched_by_it = [verdict for verdict in found if verdict.probe.witnesses == ("a/one/workspace/in",)]
    assert watched_by_it and not any(verdict.ok for verdict in watched_by_it)

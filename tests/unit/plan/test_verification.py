"""The probes of a workspace: all that is promised is tried, within bounds, and each names who stops it."""

import base64
from dataclasses import replace

import pytest

from deskyard.plan.isolation import ruleset
from deskyard.plan.isolation.catalogue import probes
from deskyard.plan.isolation.probe import HERE, HOST, HostFacts, Probe
from deskyard.plan.workspace import WorkspacePlan
from deskyard.wire.gateway_settings import Acme
from tests.unit.plan.test_workspace import planned

MARK = "dyv00000000"
FACTS = HostFacts(("10.80.1.249", "192.168.4.2"), (22, 631))


def tried(plan: WorkspacePlan, against: WorkspacePlan | None = None) -> tuple[Probe, ...]:
    return probes(plan, FACTS, MARK, against)


def other() -> WorkspacePlan:
    return planned({"name": "desk"}, name="other", network="10.80.2.0/24")


def test_every_probe_has_its_own_name_and_a_guard() -> None:
    found = tried(planned({"name": "a"}, {"name": "b"}), other())
    assert len({probe.id for probe in found}) == len(found)
    assert all(probe.guards for probe in found)
    assert all(probe.reached_by or probe.witnesses for probe in found)


def test_all_topics_are_tried_from_every_desktop() -> None:
    found = tried(planned({"name": "a"}, {"name": "b"}), other())
    topics = {"names", "watchers", "peers", "gateway", "host", "metadata", "lan", "egress", "spoofing", "workspaces"}
    for desktop in ("demo/a", "demo/b"):
        assert {probe.topic for probe in found if probe.start == desktop} == topics
    assert {probe.topic for probe in found if probe.start == HOST} == {"door", "gateway"}
    assert {probe.topic for probe in found if probe.start == HERE} == {"door"}
    assert {probe.topic for probe in found if probe.start == "other/desk"} == {"workspaces"}


def test_a_program_of_the_host_is_tried_at_every_address_of_it() -> None:
    ids = {probe.id for probe in tried(planned())}
    for address in FACTS.addresses:
        assert f"demo/desk: port 631 of the host at {address}" in ids


def test_numbers_stay_within_bounds_for_the_largest_workspaces() -> None:
    large = planned(*[{"name": f"d{n}"} for n in range(100)])
    facts = HostFacts(tuple(f"192.168.7.{n}" for n in range(200)), tuple(range(1, 500)))
    stranger = planned(*[{"name": f"e{n}"} for n in range(100)], name="x", network="10.9.9.0/24")
    found = probes(large, facts, MARK, stranger)
    by_start: dict[str, int] = {}
    for probe in found:
        by_start[probe.start] = by_start.get(probe.start, 0) + 1
    assert max(by_start.values()) < 700
    assert len(found) < 16**4  # what fits a mark


def test_open_peers_are_reached_and_closed_ones_are_not() -> None:
    for peers, expected in (("closed", "refused"), ("open", "reached")):
        found = tried(planned({"name": "a"}, {"name": "b"}, peers=peers))
        direct = [probe for probe in found if probe.topic == "peers" and "by way of the gateway" not in probe.id]
        assert {probe.expected for probe in direct} == {expected}


@pytest.mark.parametrize(
    ("acme", "expected"), [(None, "refused"), (Acme("https://acme.test/dir", "a@b.test", ""), "reached")]
)
def test_port_80_of_the_gateway_is_open_to_ask_for_its_certificate_and_else_closed(
    acme: Acme | None, expected: str
) -> None:
    plan = planned()
    plan = replace(plan, gateway=replace(plan.gateway, settings=replace(plan.gateway.settings, acme=acme)))
    door = [probe for probe in tried(plan) if probe.start == HOST and probe.action.get("port") == 80]
    assert [probe.expected for probe in door] == [expected]


@pytest.mark.parametrize(("egress", "expected"), [("open", "reached"), ("none", "refused")])
def test_what_leaves_follows_the_mode(egress: str, expected: str) -> None:
    found = [probe for probe in tried(planned(egress=egress)) if probe.topic == "egress"]
    assert {probe.expected for probe in found} == {expected}
    assert any("QUIC" in probe.id for probe in found)


def test_every_forged_frame_has_its_sender_and_its_mark() -> None:
    for number, probe in enumerate(tried(planned())):
        if probe.forged:
            frame = base64.b64decode(probe.action["frame"])
            assert f"{MARK}{number:04x}".encode() in frame, probe.id
            assert 60 <= len(frame) <= 1500, probe.id


LISTING = """table inet deskyard {
	set denied {
		type ipv4_addr
		flags interval
		elements = { 10.0.0.0/8, 127.0.0.0/8,
				224.0.0.0/3 }
	}

	set seen {
		type ipv4_addr
		flags dynamic
		elements = { 10.0.0.7 }
	}

	chain forward {
		type filter hook forward priority filter; policy drop;
		ip daddr @denied jump refuse
		counter drop
	}
}
"""


def test_a_missing_rule_is_named_with_its_chain() -> None:
    live = LISTING.replace("\t\tip daddr @denied jump refuse\n", "")
    assert ruleset.difference(LISTING, live) == (["chain forward: ip daddr @denied jump refuse"], [])
    assert ruleset.fingerprint(LISTING) != ruleset.fingerprint(live)


def test_a_wider_rule_and_a_smaller_set_are_named() -> None:
    live = LISTING.replace("policy drop", "policy accept").replace("10.0.0.0/8, ", "")
    missing, extra = ruleset.difference(LISTING, live)
    assert len(missing) == len(extra) == 2
    assert any("policy accept" in rule for rule in extra)
    assert any(rule.startswith("set denied: elements") for rule in missing)


def test_addresses_that_come_and_go_are_no_difference() -> None:
    live = LISTING.replace("10.0.0.7", "10.0.0.8, 10.0.0.9 expires 3s")
    assert ruleset.difference(LISTING, live) == ([], [])


def test_the_same_rule_twice_is_not_the_same_as_once() -> None:
    live = LISTING.replace("\t\tcounter drop\n", "\t\tcounter drop\n\t\tcounter drop\n")
    assert ruleset.difference(LISTING, live) == ([], ["chain forward: counter drop"])


def test_who_has_to_answer_has_longer_than_what_must_not_be_reached() -> None:
    found = tried(planned({"name": "a"}, {"name": "b"}, egress="open"), other())
    answers = {probe.action["seconds"] for probe in found if probe.expected == "reached" and not probe.witnesses}
    silence = {probe.action["seconds"] for probe in found if probe.expected == "refused"}
    assert answers and silence
    assert min(answers) > max(silence)

"""The rates of the ruleset against the Plan: whose packets count, toward what, and what happens beyond."""

import json
from pathlib import Path
from typing import Any

import pytest

from deskyard.gateway.config import render, tracking
from deskyard.wire.gateway_settings import EGRESS, Settings, parse
from tests.gateway.nft_walk import kernel_listing
from tests.unit.gateway.support import document

RATES = {"10.80.1.10": 20, "10.80.1.11": 100}


def kernel_rules(settings: Settings, folder: Path) -> dict[str, list[list[dict[str, Any]]]]:
    """The rules of each chain as the kernel took them."""
    chains: dict[str, list[list[dict[str, Any]]]] = {}
    for entry in kernel_listing(render.firewall(settings, "nobody", "daemon"), folder)["nftables"]:
        if "rule" in entry:
            chains.setdefault(entry["rule"]["chain"], []).append(entry["rule"]["expr"])
    return chains


def own_rates(egress: Any) -> Settings:
    """Settings in which each desktop has a rate of its own."""
    made = document(egress, ("allowed.test",) if egress == "locked" else ())
    assert made["egress_rules"]["rates"].keys() == RATES.keys()
    made["egress_rules"]["rates"] = RATES
    return parse(json.dumps(made))


def counted_by(rules: list[list[dict[str, Any]]], beyond: str) -> dict[str, tuple[int, int]]:
    """Sender -> rate and burst; each rule counts senders that it names, apart from each other."""
    found = {}
    for rule in rules:
        senders = next(part["match"] for part in rule if "payload" in part.get("match", {}).get("left", {}))
        assert (senders["op"], senders["left"]) == ("==", {"payload": {"protocol": "ip", "field": "saddr"}})
        (counted,) = [part["set"] for part in rule if "set" in part]
        assert (counted["op"], counted["elem"]) == ("update", senders["left"])
        ((limit,),) = [[part["limit"] for part in counted["stmt"]]]
        assert (limit["per"], limit["inv"]) == ("second", True)
        assert rule[-1] == {"jump": {"target": beyond}}
        wanted = senders["right"]
        for address in wanted["set"] if isinstance(wanted, dict) else [wanted]:
            found[address] = (limit["rate"], limit["burst"])
    return found


@pytest.mark.parametrize("egress", ["open", "locked"])
def test_new_connections_of_each_desktop_count_toward_its_own_rate(egress: Any, tmp_path: Path) -> None:
    rules = kernel_rules(own_rates(egress), tmp_path)["rate"]
    new = {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "new"}}
    assert all(new in rule for rule in rules)
    assert counted_by(rules, "refuse") == {address: (rate, 2 * rate) for address, rate in RATES.items()}


@pytest.mark.parametrize("egress", EGRESS)
def test_questions_of_each_desktop_count_toward_its_own_rate(egress: Any, tmp_path: Path) -> None:
    *rules, last = kernel_rules(own_rates(egress), tmp_path)["question"]
    assert last == [{"accept": None}]
    assert all("match" in rule[0] and len(rule) == 3 for rule in rules)
    burst = tracking.ASKED_AT_ONCE
    assert counted_by(rules, "too_many") == {address: (rate, burst * rate) for address, rate in RATES.items()}


@pytest.mark.parametrize("egress", EGRESS)
def test_what_is_too_much_is_told_as_a_refusal_is_each_desktop_by_itself(egress: Any, tmp_path: Path) -> None:
    chains = kernel_rules(own_rates(egress), tmp_path)
    (logged, ended), (as_well, also_ended) = chains["too_many"], chains["refuse"]
    log, other = ([part["log"] for part in rule if "log" in part] for rule in (logged, as_well))
    assert ([part["prefix"] for part in log], [part["prefix"] for part in other]) == (["many"], ["refused"])
    assert log[0]["group"] == other[0]["group"]
    assert [part for part in logged if "log" not in part] == [part for part in as_well if "log" not in part]
    assert ended == also_ended == [{"goto": {"target": "end"}}]


def test_in_a_locked_workspace_what_goes_to_the_router_counts_and_nothing_else(tmp_path: Path) -> None:
    rules = kernel_rules(parse(json.dumps(document("locked", ("allowed.test",)))), tmp_path)["from_workspace"]
    (counted,) = [rule for rule in rules if {"jump": {"target": "rate"}} in rule]
    (accepted,) = [
        rule for rule in rules if {"accept": None} in rule and counted[:-1] == [p for p in rule if p in counted]
    ]
    # Nobody uses up the rate of another: what counts is what would be let in.
    new = {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "new"}}
    assert [part for part in accepted if part not in counted] == [new, {"accept": None}]
    assert rules.index(counted) < rules.index(accepted)


@pytest.mark.parametrize("egress", EGRESS)
@pytest.mark.parametrize("hook", ["input", "output"])
def test_what_is_dropped_at_the_end_is_told_a_few_times_a_second(hook: str, egress: Any, tmp_path: Path) -> None:
    logged, dropped = kernel_rules(parse(json.dumps(document(egress))), tmp_path)[hook][-2:]
    assert [next(iter(part)) for part in logged] == ["limit", "log"]
    assert (logged[0]["limit"]["per"], logged[0]["limit"].get("inv", False)) == ("second", False)
    assert hook in logged[1]["log"]["prefix"]
    assert "drop" in dropped[-1]
    assert not any("match" in part for part in dropped)


@pytest.mark.parametrize("egress", EGRESS)
def test_who_knocks_too_often_at_the_door_is_dropped_by_its_own_address(egress: Any, tmp_path: Path) -> None:
    settings = parse(json.dumps(document(egress)))
    trusted, counted, accepted = kernel_rules(settings, tmp_path)["https"]
    (forwarder,) = [part["match"] for part in trusted if part.get("match", {}).get("right") == settings.forwarder]
    assert forwarder["left"] == {"payload": {"protocol": "ip", "field": "saddr"}}
    assert "accept" in trusted[-1]
    new = {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "new"}}
    source = {"payload": {"protocol": "ip", "field": "saddr"}}
    assert counted[0] == accepted[0] == new
    assert counted[1]["set"]["elem"] == source
    ((limit,),) = [[part["limit"] for part in counted[1]["set"]["stmt"]]]
    assert (limit["per"], limit["inv"]) == ("second", True)
    assert "drop" in counted[-1]
    assert "accept" in accepted[-1]


@pytest.mark.parametrize("egress", EGRESS)
def test_desktops_have_no_share_of_what_the_gateway_tells_of_strangers(egress: Any, tmp_path: Path) -> None:
    rules = kernel_rules(parse(json.dumps(document(egress))), tmp_path)["input"]
    place = next(index for index, rule in enumerate(rules) if any("log" in part for part in rule))
    workspace = {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "workspace"}}
    assert [workspace, {"drop": None}] in [[part for part in rule if "counter" not in part] for rule in rules[:place]]

"""Rules of alerts and prices are changed only as whoever changes them has read them; a request may name several."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.control.lab import Lab

Body = Callable[..., dict[str, Any]]
NONE_YET = {"If-None-Match": "*"}


def rules(number: int, *kinds: str) -> dict[str, Any]:
    return {"rules": [{"kind": kind, "enabled": True, "number": number} for kind in kinds]}


def prices(micros: int, *tiers: str) -> dict[str, Any]:
    return {"prices": [{"tier": tier, "microsPerHour": micros} for tier in tiers]}


SETTINGS = pytest.mark.parametrize(
    ("path", "body", "first", "other"),
    [
        ("/api/alert-rules", rules, "desktop.not-ready", "agent.silent"),
        ("/api/prices", prices, "free", "pro"),
    ],
    ids=["rules of alerts", "prices"],
)


@pytest.fixture(autouse=True)
def rules_stay(mission: Lab) -> Iterator[None]:
    before = mission.link.execute("select kind, number from alert_rule").fetchall()
    yield
    for row in before:
        mission.link.execute("update alert_rule set number = %s where kind = %s", [row["number"], row["kind"]])


def newest(client: httpx.Client, path: str) -> dict[str, tuple[int, str]]:
    """The amount of each rule or tier, and when it was changed; the newest price of a tier is listed first."""
    found: dict[str, tuple[int, str]] = {}
    for item in reversed(client.get(path).json()["items"]):
        name, amount = ("kind", "number") if "kind" in item else ("tier", "microsPerHour")
        found[item[name]] = (item[amount], item["changedAt"])
    return found


def as_read(*changed_at: str) -> dict[str, str]:
    return {"If-Match": f'"{max(changed_at)}"'}


@SETTINGS
def test_what_somebody_changed_meanwhile_stays_as_they_made_it(
    owner: httpx.Client, path: str, body: Body, first: str, other: str
) -> None:
    assert owner.put(path, json=body(7, first)).status_code == 200
    read = as_read(newest(owner, path)[first][1])
    assert owner.put(path, json=body(8, first), headers=read).status_code == 200
    refused = owner.put(path, json=body(9, first), headers=read)
    assert (refused.status_code, refused.json()["field"]) == (412, "If-Match")
    amount, changed_at = newest(owner, path)[first]
    assert amount == 8 and f"it was changed at {changed_at[:19]}" in refused.json()["reason"]
    assert owner.put(path, json=body(9, first), headers=NONE_YET).status_code == 412
    for rubbish in ("yesterday", '"2026-01-01T00:00:00"', ""):
        assert owner.put(path, json=body(9, first), headers={"If-Match": rubbish}).status_code == 412
    assert newest(owner, path)[first] == (8, changed_at)
    assert owner.put(path, json=body(9, first), headers={"If-Match": "*"}).status_code == 200
    assert owner.put(path, json=body(10, first)).status_code == 200, "without a condition it changes what is there"


@SETTINGS
def test_version_of_several_is_the_newest_of_them(
    owner: httpx.Client, path: str, body: Body, first: str, other: str
) -> None:
    owner.put(path, json=body(7, first, other))
    read = newest(owner, path)
    both = as_read(read[first][1], read[other][1])
    assert owner.put(path, json=body(8, other), headers=as_read(read[other][1])).status_code == 200
    assert owner.put(path, json=body(9, first, other), headers=both).status_code == 412
    assert newest(owner, path)[first] == read[first], "of what is refused nothing is done"
    # Nobody has changed the first one.
    assert owner.put(path, json=body(9, first), headers=as_read(read[first][1])).status_code == 200


@SETTINGS
def test_of_eight_who_change_what_all_have_read_only_the_first_does(
    owner: httpx.Client, path: str, body: Body, first: str, other: str
) -> None:
    owner.put(path, json=body(1, first))
    headers = as_read(newest(owner, path)[first][1])

    def change(amount: int) -> int:
        # Half of them name another, too, that was not changed since.
        names = (first, other) if amount % 2 else (first,)
        return owner.put(path, json=body(amount, *names), headers=headers).status_code

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(change, range(2, 10)))
    assert answers == [200] + [412] * 7


def test_first_price_of_a_tier_is_set_once_and_no_rule_is_unknown_by_its_version(owner: httpx.Client) -> None:
    path = "/api/prices"
    assert owner.put(path, json=prices(7, "free"), headers={"If-Match": "*"}).status_code == 412, "there is none yet"
    assert owner.put(path, json=prices(7, "free"), headers=NONE_YET).status_code == 200
    assert owner.put(path, json=prices(8, "free", "pro"), headers=NONE_YET).status_code == 412
    assert owner.put(path, json=prices(8, "pro"), headers=NONE_YET).status_code == 200
    unknown = owner.put("/api/alert-rules", json=rules(1, "desktop.not-ready", "weather"), headers={"If-Match": "*"})
    assert (unknown.status_code, unknown.json()["value"]) == (404, "weather")

"""What a worker's child says of a workspace, and what it does with snapshots and names."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.access import egress
from deskyard.control.jobs.child import JOBS
from deskyard.control.people.intent import SIGNED
from deskyard.control.upkeep import closing, look
from deskyard.control.upkeep.signed import ALLOW, RESTORE, SECONDS
from deskyard.control.upkeep.workspace import Workspace
from deskyard.control.watch import budgets
from deskyard.errors import ConfigError, SiteError
from deskyard.plan.backup import Backup

REFUSED = {"desktop": "dev", "target": "pypi.org", "rule": "list", "reason": "is not on the list"}


def wanted(kind: str, attempt: int = 1, **given: Any) -> dict[str, Any]:
    """An operation as the worker hands it to its child."""
    return {"workspace": "lab", "desktop": "lab.dev", "kind": kind, "input": given, "actor": "person:ada"} | {
        "attempt": attempt
    }


def test_part_that_cannot_be_had_says_why_and_the_others_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(workspace: Workspace) -> look.Rows:
        raise SiteError("gateway", workspace.name, "does not run", "run ./inv workspace.start")

    monkeypatch.setattr(look, "PARTS", {"refusals": broken, "keys": lambda workspace: [{"name": workspace.name}]})
    assert JOBS["workspace.look"](wanted("workspace.look")) == {
        "result": {
            "refusals": {
                "rows": [],
                "problem": SiteError("gateway", "lab", "does not run", "run ./inv workspace.start").as_dict(),
            },
            "keys": {"rows": [{"name": "lab"}], "problem": None},
        }
    }


def test_refusals_are_counted_once_for_each_name_the_last_first_with_the_entry_that_would_allow_them() -> None:
    lines = [
        {**REFUSED, "time": "2026-05-01T10:00:00Z", "allow": "./inv egress.allow lab pypi.org"},
        {**REFUSED, "time": "whenever", "target": "10.0.0.1", "rule": "direct", "allow": ""},
        {**REFUSED, "time": "2026-05-01T11:30:00Z", "allow": "./inv egress.allow lab pypi.org"},
    ]
    found = look.refusals(lines, datetime(2026, 5, 1, 12, tzinfo=UTC))
    assert [(row["target"], row["count"], row["recent"], row["last"], row["entry"]) for row in found] == [
        ("pypi.org", 2, 1, "2026-05-01T11:30:00Z", "pypi.org"),
        ("10.0.0.1", 1, 0, "whenever", None),
    ]
    many = [{**lines[1], "target": str(number)} for number in range(look.MOST_REFUSALS + 5)]
    assert len(look.refusals(many, datetime.now(UTC))) == look.MOST_REFUSALS


def test_look_that_nobody_asked_for_leaves_desktops_alone_that_are_stopped_when_unused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finding = {"check": "disk", "state": "warning", "detail": "9 % is free", "remedy": "free some"}

    def looked(name: str, *, leave_idle: bool) -> dict[str, Any]:
        return {"machines": {"gateway": [finding]} | ({} if leave_idle else {"dev": [finding]})}

    monkeypatch.setattr("deskyard.life.health.look", looked)
    monkeypatch.setattr(look, "PARTS", {"health": look.PARTS["health"]})
    for given, machines in (({}, ["gateway", "dev"]), ({"leave_idle": True}, ["gateway"])):
        answer = JOBS["workspace.look"](wanted("workspace.look", **given)) or {}
        assert answer["result"]["health"]["rows"] == [{"machine": machine, **finding} for machine in machines]


@pytest.mark.parametrize("egress", ["open", "none"])
def test_workspace_without_a_list_says_so_instead_of_an_empty_one(monkeypatch: pytest.MonkeyPatch, egress: str) -> None:
    said: dict[str, Any] = {"workspace": "lab", "egress": egress, "allowed": []}
    monkeypatch.setattr("deskyard.access.egress.allowed", lambda _: said)
    with pytest.raises(ConfigError, match=f"is {egress}, so there is no list"):
        look.PARTS["allowed"](Workspace("lab"))
    said |= {"egress": "locked", "allowed": [{"entry": "pypi.org"}]}
    assert look.PARTS["allowed"](Workspace("lab")) == {"rows": [{"entry": "pypi.org"}], "closed": []}


def test_look_says_what_is_closed_for_which_reason_and_by_whom_beside_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shut = closed("a.example.org", reason="\x1b[2J") + closed("b.example.org")
    said: dict[str, Any] = {
        "egress": "locked",
        "allowed": [{"entry": "a.example.org"}],
        "closed": [{**shut[0], "new": 1}, shut[1]],
    }
    monkeypatch.setattr(egress, "allowed", lambda _: said)
    monkeypatch.setattr(look, "PARTS", {"allowed": look.PARTS["allowed"]})
    found = look.look("lab")["allowed"]
    assert found["rows"] == [{"entry": "a.example.org"}] and found["problem"] is None
    assert found["closed"] == [{**shut[0], "reason": "?[2J"}, shut[1]], "a terminal may show it"
    said["closed"] = shut * look.MOST_CLOSED
    assert len(look.look("lab")["allowed"]["closed"]) == look.MOST_CLOSED


def test_the_newest_backups_of_each_desktop_come_from_a_single_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    listings: list[str | None] = []
    most = look.MOST_BACKUPS
    kept = [Backup(f"b{made}", f"d{made % 2}", made, running=True) for made in range(2 * most + 2)]

    def present(desktop: str | None) -> list[Backup]:
        listings.append(desktop)
        return kept

    plan = SimpleNamespace(site="rack", desktops=[SimpleNamespace(name=name) for name in ("d0", "d1", "new")])
    monkeypatch.setattr("deskyard.declaration.declaration.read", lambda _: SimpleNamespace(plan=plan))
    monkeypatch.setattr("deskyard.life.backup.vault.vault_of", lambda *_: SimpleNamespace(present=present))
    rows: Any = look.PARTS["backups"](Workspace("lab"))
    assert [row["id"] for row in rows if row["desktop"] == "d0"] == [f"b{made}" for made in range(2, 2 * most + 2, 2)]
    assert [row["made"] for row in rows if row["desktop"] == "d1"] == list(range(3, 2 * most + 2, 2))
    assert len(rows) == 2 * most
    assert listings == [None]


def test_report_of_isolation_names_what_is_wrong_and_counts_the_rest() -> None:
    probe = {"id": "tcp", "outcome": "answered", "expected": "blocked", "ok": False}
    report = {
        "ok": False,
        "seconds": 1.5,
        "topics": {"neighbours": [1, 2]},
        "rules": {"lab": {"wrong": ["gateway: a rule: is missing"]}},
        "probes": [probe, {**probe, "id": "udp", "ok": True}],
        "report": "/somewhere",
    }
    assert look.verified(report) == {
        "ok": False,
        "seconds": 1.5,
        "topics": {"neighbours": [1, 2]},
        "wrong": ["gateway: a rule: is missing", "tcp: answered, expected blocked"],
    }, "no path of the host is among it"


@pytest.mark.parametrize(
    ("attempt", "present", "interrupted", "done"),
    [
        (1, [], False, ["create"]),
        (2, ["before"], False, []),
        (2, ["before"], True, ["delete", "create"]),
        (2, [], False, ["create"]),
        (1, ["before"], False, ["create"]),
    ],
)
def test_snapshot_that_a_killed_attempt_took_is_not_taken_again_unless_it_is_half(
    monkeypatch: pytest.MonkeyPatch, attempt: int, present: list[str], interrupted: bool, done: list[str]
) -> None:
    made = []
    rows = {"snapshots": [{"name": name, "interrupted": interrupted} for name in present]}
    monkeypatch.setattr("deskyard.life.snapshot.listing", lambda target: rows)
    monkeypatch.setattr("deskyard.life.snapshot.delete", lambda target, name: made.append(("delete", target, name)))
    monkeypatch.setattr(
        "deskyard.life.snapshot.create", lambda target, snapshot: made.append(("create", target, snapshot.name))
    )
    assert JOBS["snapshot.create"](wanted("snapshot.create", attempt, name="before")) == {
        "result": {"snapshot": "before"}
    }
    assert made == [(word, "lab/dev", "before") for word in done]


def test_backup_says_its_name_and_not_what_proves_its_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"backup": {"id": "b1", "nonce": "canary-nonce"}, "frozen_seconds": 0.1, "location": "/somewhere"}
    monkeypatch.setattr("deskyard.life.backup.backup.run", lambda target: made)
    assert JOBS["backup.run"](wanted("backup.run")) == {"result": {"backup": "b1", "frozen_seconds": 0.1}}


@pytest.mark.parametrize("how_long", SECONDS)
def test_name_is_allowed_for_as_long_as_signed_in_the_name_of_who_signed(
    monkeypatch: pytest.MonkeyPatch, how_long: str
) -> None:
    asked: list[Any] = []

    def allow(*given: Any, **options: Any) -> dict[str, Any]:
        asked.append((given, options))
        return {"allowed": []}

    monkeypatch.setattr("deskyard.access.egress.allow", allow)
    JOBS[ALLOW](wanted(ALLOW, name="pypi.org", how_long=how_long))
    seconds = SECONDS[how_long]
    options = {"once": False, "always": seconds is None, "actor": "person:ada"}
    assert asked == [(("lab", "pypi.org", seconds), options)]


def test_what_takes_away_or_opens_is_signed_and_the_rest_is_not() -> None:
    assert {RESTORE, ALLOW} <= set(SIGNED)
    assert not {"workspace.look", "workspace.verify", "snapshot.create", "backup.run"} & set(SIGNED)


def closed(*entries: str, reason: str = "budget") -> list[dict[str, str]]:
    return [{"entry": entry, "reason": reason, "actor": "ada", "since": ""} for entry in entries]


@pytest.mark.parametrize(
    ("before", "names", "calls"),
    [
        ([], ["a", "b"], [("close", ["a", "b"])]),
        (closed("a", "b"), ["a", "b"], []),
        (closed("a", "b"), [], [("reopen", ["a", "b"])]),
        (closed("a"), ["b"], [("close", ["b"]), ("reopen", ["a"])]),
        (closed("a", reason=""), ["a"], [("close", ["a"])]),
        (closed("a", reason=""), [], []),
    ],
)
def test_gateway_is_told_what_differs_and_what_people_closed_is_left(
    monkeypatch: pytest.MonkeyPatch, before: list[dict[str, str]], names: list[str], calls: list[tuple[str, list[str]]]
) -> None:
    made: list[tuple[str, list[str]]] = []

    def telling(command: str) -> Any:
        def tell(workspace: str, entries: list[str], reason: str, actor: str) -> None:
            assert (workspace, reason, actor) == ("lab", "budget", "person:ada")
            made.append((command, entries))

        return tell

    monkeypatch.setattr(egress, "allowed", lambda _: {"egress": "locked", "allowed": [], "closed": before})
    for command in ("close", "reopen"):
        monkeypatch.setattr(egress, command, telling(command))
    done = closing.job(wanted("egress.close", names=names))
    assert (made, done["result"]["closed"]) == (calls, sorted(names))


def test_child_does_it_for_the_operation_of_its_kind() -> None:
    assert JOBS[budgets.KIND] is closing.job


def test_nothing_can_be_closed_where_no_names_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(egress, "allowed", lambda _: {"egress": "open", "allowed": []})
    with pytest.raises(ConfigError, match="no name can be closed"):
        closing.job(wanted("egress.close", names=["a"]))
    assert closing.job(wanted("egress.close", names=[]))["result"]["closed"] == []

"""What is well and what is not, from what a desktop and its gateway say."""

from typing import Any

import pytest

from deskyard.plan import health
from deskyard.plan.power import Power

GIB = 1024**3
WELL: dict[str, Any] = {
    "disk": {"size": 20 * GIB, "free": 12 * GIB},
    "home": {"size": 10 * GIB, "free": 6 * GIB},
    "browser": {"starts": True, "said": "Chromium 142.0"},
    "files": {"most": 1000, "free": 800},
    "read_only": False,
    "memory": {"size": 4 * GIB, "free": 2 * GIB},
    "failed_units": [],
    "unsteady": [],
    "restart_required": False,
    "processes": None,
    "time": 100.0,
}
BETWEEN = (99.0, 101.0)


def states(answer: Any) -> dict[str, str]:
    return {found.check: found.state for found in health.inside(answer, BETWEEN, "lab/dev1") if found.state != "ok"}


def test_desktop_that_is_well_has_no_findings_but_good_ones() -> None:
    found = health.inside(WELL, BETWEEN, "lab/dev1")
    assert health.worst(found) == "ok"
    assert [finding.remedy for finding in found if finding.remedy] == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"disk": {"size": 20 * GIB, "free": 2 * GIB}}, {"disk": "warning"}),
        ({"disk": {"size": 20 * GIB, "free": GIB // 2}}, {"disk": "failed"}),
        ({"home": {"size": 10 * GIB, "free": GIB // 4}}, {"home": "failed"}),
        ({"browser": {"starts": False, "said": "Illegal instruction"}}, {"browser": "failed"}),
        ({"browser": None}, {}),
        ({"files": {"most": 1000, "free": 10}}, {"files": "failed"}),
        ({"files": {"most": 0, "free": 0}}, {}),
        ({"memory": {"size": 4 * GIB, "free": GIB // 5}}, {"memory": "warning"}),
        ({"memory": {"size": 4 * GIB, "free": 0}}, {"memory": "failed"}),
        ({"read_only": True}, {"file system": "failed"}),
        ({"failed_units": ["vnc.service"]}, {"units": "failed"}),
        ({"unsteady": [{"unit": "a.service", "state": "activating", "restarts": 7}]}, {"services": "failed"}),
        ({"unsteady": [{"unit": "a.service", "state": "active", "restarts": 3}]}, {"services": "failed"}),
        ({"unsteady": [{"unit": "a.service", "state": "inactive", "restarts": 0}]}, {"services": "warning"}),
        ({"restart_required": True}, {"restart": "warning"}),
        ({"time": 96.5}, {"clock": "warning"}),
        ({"time": 104.0}, {"clock": "warning"}),
        ({"time": 10.0}, {"clock": "failed"}),
    ],
)
def test_each_trouble_is_found_alone_and_has_a_remedy(change: dict[str, Any], expected: dict[str, str]) -> None:
    assert states({**WELL, **change}) == expected
    found = health.inside({**WELL, **change}, BETWEEN, "lab/dev1")
    assert all(finding.remedy for finding in found if finding.state != "ok")


@pytest.mark.parametrize(
    ("held", "cap", "state", "detail"),
    [
        (None, None, "ok", "no cap"),
        ({"agent.slice": 512, "session-3.scope": 512}, 512, "ok", "512 at most in each of 2 parts"),
        (None, 512, "warning", "no cap is set, its tier has 512"),
        ({"agent.slice": 512}, None, "warning", "capped, though its tier has no cap"),
        (
            {"b.service": None, "a.service": 900, "c.service": 512},
            512,
            "warning",
            "a.service 900, b.service any number",
        ),
        ({"agent.slice": 512, "a.service": 9}, 512, "ok", "512 at most in each of 2 parts"),
        ({"\x1b[2J": 999}, 512, "warning", "its tier has 512: ?[2J 999"),
        ({f"unit-{number}.service": 999 for number in range(999)}, 512, "warning", "unit-0.service 999"),
        ({"a.service": "many"}, 512, "failed", "makes no sense"),
        (["a.service"], 512, "failed", "makes no sense"),
    ],
)
def test_cap_of_processes_that_is_not_the_tiers_is_a_warning(
    held: Any, cap: int | None, state: str, detail: str
) -> None:
    findings = health.inside({**WELL, "processes": held}, BETWEEN, "lab/dev1", cap)
    (found,) = [finding for finding in findings if finding.check == "processes"]
    assert (found.state, detail in found.detail, len(found.detail) <= 300) == (state, True, True)
    assert (found.remedy == "./inv workspace.up lab") == (state == "warning")


@pytest.mark.parametrize(
    ("newest", "verified", "state"),
    [(1.0, 1.0, "ok"), (1.0, 9.0, "warning"), (9.0, 9.0, "warning"), (1.0, None, "warning"), (None, None, "warning")],
)
def test_backup_that_is_old_or_was_never_verified_is_a_warning(
    newest: float | None, verified: float | None, state: str
) -> None:
    new, proved = (days if days is None else days * 86_400 for days in (newest, verified))
    found = health.backup(new, proved, "lab/dev1")
    assert (found.state, bool(found.remedy)) == (state, state != "ok")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("disk", None),
        ("disk", {"size": 0, "free": 0}),
        ("memory", {"size": "many", "free": 1}),
        ("time", "noon"),
        ("time", float("nan")),
        ("failed_units", 7),
        ("unsteady", 7),
        ("unsteady", [{"unit": "a.service", "state": "active", "restarts": "many"}]),
        ("unsteady", ["a.service"]),
    ],
)
def test_answer_that_makes_no_sense_fails_its_own_check_alone(key: str, value: Any) -> None:
    name = {"failed_units": "units", "unsteady": "services", "time": "clock"}.get(key, key)
    assert states({**WELL, key: value}) == {name: "failed"}


def test_desktop_that_says_nothing_fails_every_check() -> None:
    assert set(states({}).values()) == {"failed"}


def test_names_of_units_cannot_steer_a_terminal() -> None:
    evil = "\x1b[2Jx"
    answer = {"failed_units": [evil], "unsteady": [{"unit": evil, "state": "activating", "restarts": 9}]}
    found = [each for each in health.inside({**WELL, **answer}, BETWEEN, "t") if each.check in ("units", "services")]
    assert len(found) == 2
    assert all("\x1b" not in finding.detail + finding.remedy for finding in found)


def test_services_that_die_and_those_that_are_off_are_named_with_what_to_do_and_no_more_than_fit() -> None:
    rows = [{"unit": "agent.service", "state": "activating", "restarts": 12}]
    rows += [{"unit": f"off{number}.service", "state": "inactive", "restarts": 0} for number in range(99)]
    (found,) = [each for each in health.inside({**WELL, "unsteady": rows}, BETWEEN, "t") if each.check == "services"]
    assert found.detail.startswith("start again and again: agent.service (12 times); off, though enabled: off0.service")
    assert len(found.detail) <= 300
    assert found.remedy == "on the desktop: journalctl --unit agent.service"
    (found,) = [
        each for each in health.inside({**WELL, "unsteady": rows[1:]}, BETWEEN, "t") if each.check == "services"
    ]
    assert "systemctl start off0.service, or disable it" in found.remedy


@pytest.mark.parametrize(
    ("state", "desired", "expected"),
    [
        ("running", Power.RUNNING, "ok"),
        ("stopped", Power.OFF, "ok"),
        ("saved", Power.PAUSED, "ok"),
        ("stopped", Power.RUNNING, "failed"),
        ("absent", Power.RUNNING, "failed"),
        ("io-error", Power.RUNNING, "failed"),
    ],
)
def test_power_is_well_if_it_is_as_wanted(state: str, desired: Power, expected: str) -> None:
    assert health.power(state, desired, "lab/dev1").state == expected


def test_each_route_that_does_not_answer_is_a_failure() -> None:
    found = health.routes({"desktop": {"ready": True, "detail": "RFB 003.008"}}, ["desktop", "terminal"])
    assert [(finding.check, finding.state) for finding in found] == [
        ("route desktop", "ok"),
        ("route terminal", "failed"),
    ]


@pytest.mark.parametrize(("days", "expected"), [(90, "ok"), (10, "warning"), (2, "failed"), (-1, "failed")])
def test_certificate_is_warned_of_before_it_ends(days: float, expected: str) -> None:
    assert health.certificate(days).state == expected

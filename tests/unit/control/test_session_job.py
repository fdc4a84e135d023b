"""A link that Mission Control gives out is of whoever asked for it, at the gateway too."""

from typing import Any

import pytest

from deskyard.access import access
from deskyard.control.jobs.child import JOBS


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Requests to a gateway, which makes a link for each."""
    found: list[dict[str, Any]] = []

    def ask_service(link: object, request: dict[str, Any], arguments: list[str]) -> dict[str, Any]:
        found.append({**request, "on_its_command_line": arguments[arguments.index("--actor") + 1]})
        return {"url": "https://lab.example.org/#ticket", "ticket_expires": 7}

    monkeypatch.setattr("deskyard.access.gateway_program.require", lambda name: name)
    monkeypatch.setattr("deskyard.access.gateway_program.ask_service", ask_service)
    monkeypatch.setattr("deskyard.life.idle.idle.wake", lambda target: None)
    return found


def test_gateway_is_told_who_asked_mission_control(asked: list[dict[str, Any]]) -> None:
    wanted = {"kind": "desktop.session", "workspace": "lab", "desktop": "lab.desk", "actor": "person:Ada", "attempt": 1}
    done = JOBS["desktop.session"]({**wanted, "input": {"mode": "view"}}) or {}
    assert done["secret"]["link"] == "https://lab.example.org/#ticket"
    (request,) = asked
    assert (request["actor"], request["on_its_command_line"], request["mode"]) == ("person:Ada", "person:Ada", "view")


def test_from_the_shell_it_is_who_runs_the_task(asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deskyard.access.gateway_program.actor", lambda: "bea")
    access.grant("lab/desk")
    assert [request["actor"] for request in asked] == ["bea"]

"""An agent is halted on its desktop, then held by its gateway; it is let go by the gateway before it goes on."""

from typing import Any

import pytest

from deskyard.access import access
from deskyard.desktop import program
from deskyard.errors import ConfigError
from deskyard.life import freeze, power


class Lab:
    """A desktop and its gateway; `refusal` is what the gateway says in place of doing it."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, ...]] = []
        self.refusal: ConfigError | None = None

    def ask(self, plan: object, desktop: str, sent: object, request: dict[str, Any]) -> dict[str, Any]:
        self.steps.append(("desktop", request["action"]))
        return {"frozen": request["action"] == "freeze"}

    def agent(self, name: str, action: str, desktop: str, actor: str) -> list[dict[str, Any]]:
        if self.refusal:
            raise self.refusal
        self.steps.append(("gateway", action, name, desktop, actor))
        return [{"desktop": desktop, "stopped": action == "stop"}, {"desktop": "another", "stopped": True}]


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    lab = Lab()
    plan = type("Plan", (), {"desktop": staticmethod(lambda name: name)})
    monkeypatch.setattr(power, "look_up", lambda name: (plan, None))
    monkeypatch.setattr(program, "ask", lab.ask)
    monkeypatch.setattr(access, "agent", lab.agent)
    return lab


def test_gateway_holds_what_the_desktop_has_halted(lab: Lab) -> None:
    assert freeze.freeze("lab/dev", "person:ada") == {"desktop": "lab/dev", "frozen": True, "shut_out": True}
    assert lab.steps == [("desktop", "freeze"), ("gateway", "stop", "lab", "dev", "person:ada")]


def test_gateway_lets_go_before_the_agent_goes_on(lab: Lab) -> None:
    assert freeze.thaw("lab/dev") == {"desktop": "lab/dev", "frozen": False}
    assert lab.steps == [("gateway", "go", "lab", "dev", ""), ("desktop", "thaw")]


def test_gateway_that_cannot_hold_it_is_named_and_the_agent_is_halted_all_the_same(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.refusal = ConfigError("command", "agent", "is not known", "use deskyard-gateway")
    assert freeze.freeze("lab/dev") == {"desktop": "lab/dev", "frozen": True, "shut_out": False}
    assert "shuts no program out: is not known" in "".join(capsys.readouterr())
    assert freeze.thaw("lab/dev")["frozen"] is False

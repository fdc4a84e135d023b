"""The demo ends with the desktop's link whatever becomes of Mission Control, and says what became of it."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from deskyard.control import demo
from deskyard.errors import HostError
from deskyard.tasks.entry import _story

DESKTOP_LINK = "https://demo.localhost:8443/#ticket"
ENROL_LINK = "https://mission.localhost:9443/enrol#token"
Play = Callable[..., None]


class PlayedControl:
    """Mission Control as the demo finds it; notes each time that it is brought up."""

    ready = False
    ups: ClassVar[list[str]] = []
    link: str | None = ENROL_LINK
    refusal: HostError | None = None

    def status(self) -> dict[str, Any]:
        """Its state."""
        return {"ready": self.ready, "url": "https://mission.localhost:9443"}

    def up(self, site: str, timings: Any) -> dict[str, Any]:
        """Bring it up, or refuse."""
        if self.refusal:
            raise self.refusal
        self.ups.append(site)
        return {"ready": True, "url": "https://mission.localhost:9443", "link": self.link}

    def first_link(self) -> str | None:
        """The first person's link."""
        return self.link


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Play the machines, the access and Mission Control."""

    def prepare(user: int = 0, **state: Any) -> None:
        control = type("Control", (PlayedControl,), {"ups": [], **state})
        monkeypatch.setattr(demo, "Control", control)
        monkeypatch.setattr("os.geteuid", lambda: user)
        up = {"desktops": [{"name": "dev1"}], "certificate_authority": "/ca.pem"}
        monkeypatch.setattr("deskyard.workspace.demo.bring_up", lambda timings: up)
        monkeypatch.setattr("deskyard.access.access.grant", lambda target: {"url": DESKTOP_LINK, "ticket_expires": 0})
        plan = type("Plan", (), {"site": "local"})
        monkeypatch.setattr("deskyard.declaration.declaration.read", lambda name: type("Declared", (), {"plan": plan}))

    return prepare


def test_demo_ends_with_the_desktop_and_an_enrolment_in_mission_control(play: Play) -> None:
    play()
    outcome = demo.run_demo()
    assert outcome.target == "demo/dev1"
    assert outcome.mission_control is not None and outcome.mission_control["link"] == ENROL_LINK
    story = _story(outcome)
    assert DESKTOP_LINK in story and ENROL_LINK in story and "./inv control.down" in story
    # A last backup takes as long as a boot, of what is there to be tried out.
    assert "./inv workspace.destroy demo --no-backup" in story


def test_demo_leaves_a_mission_control_that_is_ready_as_it_is(play: Play) -> None:
    play(ready=True, link=None)
    outcome = demo.run_demo()
    assert demo.Control.ups == []  # type: ignore[attr-defined]
    assert "sign in with your passkey" in _story(outcome) and "enrol" not in _story(outcome)


def test_plain_demo_is_the_desktop_alone(play: Play) -> None:
    play()
    outcome = demo.run_demo(plain=True)
    assert demo.Control.ups == []  # type: ignore[attr-defined]
    assert outcome.mission_control is None and outcome.problem is None
    assert DESKTOP_LINK in _story(outcome) and "Mission Control" not in _story(outcome)


def test_demo_has_its_desktop_when_mission_control_cannot_be_had(play: Play) -> None:
    play(refusal=HostError("port", 9443, "is taken", "choose another: ./inv control.up --port"))
    outcome = demo.run_demo()
    assert outcome.link == DESKTOP_LINK and outcome.mission_control is None
    story = _story(outcome)
    assert "Mission Control is not there: is taken; choose another" in story and DESKTOP_LINK in story


def test_demo_of_another_user_than_root_says_how_mission_control_is_had(play: Play) -> None:
    play(user=1000)
    outcome = demo.run_demo()
    assert outcome.problem is not None and outcome.problem["remedy"] == "run it as root: ./inv control.up"
    assert outcome.link == DESKTOP_LINK

"""The status of a gateway: all units in a question, and no import that takes an emulated machine a second."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deskyard.gateway import probe
from deskyard.gateway.machine import tls, units
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import Answer, Machine
from deskyard.gateway.status import UNITS, among, status
from tests.unit.gateway.support import planned

TREE = Path(__file__).resolve().parents[3]
SECONDS = 60.0


class Certificates(Machine):
    """A machine that counts how often its certificate was looked at."""

    looks = 0

    def run(self, argv: Sequence[str]) -> Answer:
        """Run a program, which openssl is alone."""
        assert argv[0] == "openssl"
        self.looks += 1
        return super().run(argv)


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The units that systemd was asked for, each time; all are active but the last."""
    questions: list[Sequence[str]] = []

    def states(names: Sequence[str]) -> list[str]:
        questions.append(names)
        return ["active"] * (len(names) - 1) + ["failed"]

    monkeypatch.setattr(units, "unit_states", states)
    return questions


def test_each_unit_has_its_state_by_one_question(tmp_path: Path, asked: list[Sequence[str]]) -> None:
    found = status(None, Layout(root=tmp_path), Certificates(), 1)
    services = {name: state for name, state in found["services"].items() if name != "session_service"}
    assert services == dict.fromkeys(UNITS, "active") | {list(UNITS)[-1]: "failed"}
    assert not found["gateway_ready"]
    assert asked == [tuple(UNITS.values())]


def test_of_named_desktops_alone_the_routes_are_asked_and_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = planned().desktops[0]
    settings = replace(
        planned(), desktops=tuple(replace(first, name=f"d{n}", address=f"10.80.1.{n}") for n in range(9))
    )
    named = [desktop.name for desktop in settings.desktops[:8]]
    routes = len(first.routes) * len(named)
    together = threading.Barrier(routes)

    def route(name: str, address: str, *_: object) -> probe.Answered:
        # Whoever does not answer is waited for: nobody waits for that to end before he is asked.
        together.wait(SECONDS)
        return probe.Answered(address == settings.desktops[0].address, name, 1)

    monkeypatch.setattr(probe, "route", route)
    found = status(settings, Layout(root=tmp_path), Certificates(), 1, named)["desktops"]
    assert {name: {answer["ready"] for answer in routes.values()} for name, routes in found.items()} == {
        name: {name == "d0"} for name in named
    }


@pytest.mark.parametrize(
    ("names", "ready"), [(["dev1"], True), (["dev2"], False), (["dev1", "dev2"], False), ([], True), (["dev9"], True)]
)
def test_status_of_fewer_says_whether_those_are_ready(names: list[str], ready: bool) -> None:
    answers = {
        "dev1": {"desktop": {"ready": True}, "computer": {"ready": False}},
        "dev2": {"desktop": {"ready": False}, "computer": {"ready": True}},
    }
    found = {"ready": False, "gateway_ready": True, "workspace": "lab", "desktops": answers}
    assert among(found, names) == {**found, "ready": ready, "desktops": {n: answers[n] for n in names if n in answers}}
    assert not among({**found, "gateway_ready": False}, names)["ready"]


def test_end_of_the_certificate_is_what_stands_in_it(tmp_path: Path) -> None:
    layout = Layout(root=tmp_path)
    assert status(None, layout, Certificates(), 1)["certificate_expires"] is None
    layout.tls.mkdir(parents=True)
    key = tls.ensure_key(layout.tls / "key.pem")
    layout.tls_bundle.write_text(tls.self_signed(key, "demo.desk.test") + key)
    validity = tls.validity(layout.tls_bundle)
    assert validity is not None
    found = datetime.fromisoformat(status(None, layout, Certificates(), 1)["certificate_expires"])
    assert found == validity[1] and found > datetime.now(UTC)
    layout.tls_bundle.write_text("no certificate\n")
    assert status(None, layout, Certificates(), 1)["certificate_expires"] is None


def test_of_a_certificate_that_stays_the_end_is_read_once(tmp_path: Path) -> None:
    layout, machine = Layout(root=tmp_path), Certificates()
    layout.tls.mkdir(parents=True)
    key = tls.ensure_key(layout.tls / "key.pem")

    def ends() -> str | None:
        found: str | None = status(None, layout, machine, 1)["certificate_expires"]
        return found

    assert (ends(), machine.looks) == (None, 0)
    layout.tls_bundle.write_text("no certificate\n")
    # One that could not be read is looked at again.
    assert (ends(), ends(), machine.looks) == (None, None, 2)
    for number in (1, 2):
        fresh = layout.tls / "fresh.pem"
        fresh.write_text(tls.self_signed(key, "demo.desk.test") + key)
        fresh.replace(layout.tls_bundle)
        first = ends()
        assert first is not None and ends() == first and machine.looks == 2 + number


def test_status_imports_no_cryptography() -> None:
    text = "import sys; import deskyard.gateway.cli, deskyard.gateway.status; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=TREE, capture_output=True, text=True, check=True, timeout=60
    )
    modules = {name.partition(".")[0] for name in done.stdout.split()}
    assert not modules & {"cryptography", "asyncio", "starlette", "uvicorn", "jinja2"}

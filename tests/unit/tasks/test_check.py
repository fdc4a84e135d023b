"""What the deep checks do on a machine that lacks something."""

import pytest

from deskyard.errors import HostError
from deskyard.lab import molecule
from deskyard.tasks import check

REASON = "needs root: it mounts"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The scenarios that are begun, on a machine that cannot run them."""
    begun: list[object] = []
    monkeypatch.setattr(molecule, "why_not", lambda: REASON)
    monkeypatch.setattr(check, "_molecule", begun.append)
    return begun


def test_scenarios_are_left_out_with_the_reason_where_they_cannot_run(
    run: list[object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CI", raising=False)
    check.DEEP["molecule"]()
    assert (run, f"left out: {REASON}" in "".join(capsys.readouterr())) == ([], True)


def test_scenarios_that_cannot_run_are_an_error_where_ci_is_set(
    run: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(HostError, match=REASON):
        check.DEEP["molecule"]()
    assert run == []


def test_scenarios_are_run_where_they_can(run: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(molecule, "why_not", lambda: "")
    for ci in ("", "true"):
        monkeypatch.setenv("CI", ci)
        check.DEEP["molecule"]()
    assert run == [molecule.chosen()] * 2

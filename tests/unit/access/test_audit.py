"""The audit of a gateway is followed without a gap; one from before is asked as it understands."""

from itertools import islice
from typing import Any

import pytest

from deskyard.access import access, gateway_program
from deskyard.errors import SiteError

COUNT = 10


class Gateway:
    """A gateway with so many events; one from before knows no `--first`."""

    def __init__(self, *, old: bool) -> None:
        self.old, self.count, self.asked = old, COUNT, 0

    def ask(self, _: object, arguments: list[str]) -> list[dict[str, Any]]:
        self.asked += 1
        assert self.asked < 2 * COUNT
        options = dict(zip(arguments[1::2], arguments[2::2], strict=True))
        events = [{"seq": number} for number in range(int(options["--since"]) + 1, self.count + 1)]
        if "--first" not in options:
            return events[-int(options["--last"]) :]
        if self.old:
            raise SiteError("gateway", "lab", "did not answer (2): unrecognized arguments: --first 3", "see")
        return events[: int(options["--first"])]


def followed(monkeypatch: pytest.MonkeyPatch, gateway: Gateway, count: int) -> list[int]:
    monkeypatch.setattr(access, "FOLLOW_AT_ONCE", 3)
    monkeypatch.setattr(gateway_program, "require", lambda name: name)
    monkeypatch.setattr(gateway_program, "ask", gateway.ask)
    return [event["seq"] for event in islice(access.follow_audit("lab", 1, pause=0), count)]


def test_all_that_happened_between_two_looks_is_followed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert followed(monkeypatch, Gateway(old=False), 9) == list(range(2, 11))
    assert capsys.readouterr().err == ""


def test_what_a_gateway_from_before_leaves_out_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert followed(monkeypatch, Gateway(old=True), 3) == [8, 9, 10]
    assert "skipped: events 2 to 7" in capsys.readouterr().err

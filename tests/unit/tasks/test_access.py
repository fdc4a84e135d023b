"""What `access.audit` prints of a line."""

from deskyard.tasks.access import _event_line

ACTION = {
    "seq": 4,
    "time": "T",
    "event": "action",
    "session": "S",
    "scopes": ["act", "see"],
    "status": 200,
    "prev": "P",
}


def test_claims_stand_apart_from_what_the_gateway_saw() -> None:
    claimed = {"actions": [{"kind": "click", "at": [[1, 2, "screen"]]}, {"kind": "type"}], "frame_before": "ab"}
    assert _event_line({**ACTION, "claimed": claimed}).splitlines() == [
        "4  T  action  session=S  scopes=act,see  status=200",
        "    claimed: kind=click at=[1, 2, 'screen']",
        "    claimed: kind=type",
        "    claimed: frame_before=ab",
    ]


def test_claims_that_nobody_can_read_are_named() -> None:
    assert _event_line({**ACTION, "claimed": "an ill-formed x"}).endswith("\n    claimed: an ill-formed x")
    assert "claimed" not in _event_line({**ACTION, "claimed": None})

"""A machine from which nothing can be probed is named with the reason."""

import pytest

from deskyard.isolation import probing


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("read job; echo 'no route to host' >&2; exit 255", "did not start: no route to host"),
        ("read job; exit 137", "did not start: it said nothing, it ended with code 137"),
        ("read job; exec >&-; exec sleep 60", "did not start: it said nothing, it still runs"),
        ("read job; echo Welcome to Debian; exit 0", "did not start: it said 'Welcome to Debian'"),
        ("read job; echo ready; read all; echo '[]'; exit 0", ""),
    ],
)
def test_program_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch, script: str, reason: str) -> None:
    # The one that never ends is given up at once.
    monkeypatch.setattr(probing, "END_SECONDS", 0.2 if "sleep" in script else 30.0)
    session = probing._Session("lab/dev1", ["sh", "-c", script], {}, "")
    try:
        session.begin()
        assert session.error == reason
    finally:
        session.end()

"""How a gateway is asked for anchors, and what is made of its answers."""

import shlex

import pytest

from deskyard.access import anchors, gateway_program
from deskyard.access.gateway_program import Rubbish
from deskyard.errors import ConfigError, SiteError
from deskyard.site.ssh_link import NO_CONNECTION, SshLink

HEAD = "0" * 64


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A workspace whose gateway is a shell script: the last of this list, which finds the remote program in "$0"."""
    script: list[str] = []
    monkeypatch.setattr(gateway_program, "require", lambda name: SshLink("local", name))
    monkeypatch.setattr(
        SshLink, "command", lambda link, host, remote, **_: ["sh", "-c", script[-1], shlex.join(remote)]
    )
    return script


def test_anchor_is_asked_for_on_the_private_line_and_of_the_program_without_it(gateway: list[str]) -> None:
    gateway.append("""case "$0" in *socat*) cat >&2; echo '{"result": {"written": true}}';; *) exit 9;; esac""")
    assert anchors.anchor("lab", "mission.1", 7, HEAD, "ann") == {"written": True}
    gateway.append(
        """case "$0" in *socat*) exit 127;; *--number\\ 7\\ --head\\ 000*) echo '{"written": false}';; esac"""
    )
    assert anchors.anchor("lab", "mission.1", 7, HEAD, "ann") == {"written": False}


def test_refusal_of_a_gateway_is_its_own(gateway: list[str]) -> None:
    error = '{"error": {"field": "number", "value": "6", "reason": "is below line 7", "remedy": "find out"}}'
    gateway.append(f"echo {shlex.quote(error)}; exit 1")
    with pytest.raises(ConfigError, match="is below line 7"):
        anchors.anchors("lab", "mission.1")
    gateway.append(f"echo {shlex.quote(error)}")
    with pytest.raises(ConfigError, match="is below line 7"):
        anchors.anchor("lab", "mission.1", 6, HEAD, "ann")


@pytest.mark.parametrize("said", ["no JSON", "[" * 100_000, '{"error": 5}', '{"error": {"field": "x"}}'])
def test_what_no_gateway_answers_is_rubbish(gateway: list[str], said: str) -> None:
    gateway.append(f"printf %s {shlex.quote(said)}")
    with pytest.raises(Rubbish):
        anchors.anchors("lab", "mission.1")
    with pytest.raises(Rubbish):
        anchors.anchor("lab", "mission.1", 7, HEAD, "ann")


@pytest.mark.parametrize("code", [NO_CONNECTION, 2])
def test_gateway_that_is_away_or_too_old_did_not_answer(gateway: list[str], code: int) -> None:
    gateway.append(f"exit {code}")
    with pytest.raises(SiteError, match=r"cannot be reached over SSH|did not answer \(2\)") as caught:
        anchors.anchors("lab", "mission.1")
    assert not isinstance(caught.value, Rubbish)

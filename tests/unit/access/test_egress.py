"""The refusals and tickets of a gateway, as they come over its SSH connection."""

import shlex
from pathlib import Path

import pytest

from deskyard.access import egress, gateway_program
from deskyard.access.gateway_program import TooOld
from deskyard.errors import CommandError, SiteError
from deskyard.gateway.machine.layout import Layout
from deskyard.site.ssh_link import NO_CONNECTION, SshLink

REFUSAL = '{"target": "later.example.org:80"}'


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A workspace whose gateway is a shell script: the last of this list."""
    script: list[str] = []
    monkeypatch.setattr(gateway_program, "require", lambda name: SshLink("local", name))
    monkeypatch.setattr(
        SshLink, "command", lambda link, host, remote, **_: ["sh", "-c", script[-1], shlex.join(remote)]
    )
    return script


def test_a_connection_that_ends_after_its_last_word_ends_well(gateway: list[str]) -> None:
    gateway.append(f"echo {shlex.quote(REFUSAL)}; exec >&-; sleep 0.5")
    assert list(egress.denied("careful", follow=False)) == [{"target": "later.example.org:80"}]


def test_a_connection_that_fails_is_an_error(gateway: list[str]) -> None:
    gateway.append(f"exit {NO_CONNECTION}")
    with pytest.raises(SiteError, match=r"did not say what it refused \(255\)"):
        list(egress.denied("careful", follow=False))


def test_whoever_stops_reading_ends_the_connection(gateway: list[str]) -> None:
    gateway.append(f"echo {shlex.quote(REFUSAL)}; exec sleep 60")
    output = egress.denied("careful", follow=True)
    next(output)
    output.close()  # returns when the connection has ended


def test_tickets_come_line_by_line(gateway: list[str]) -> None:
    gateway.append("""echo '{"id": "0a"}'; echo '{"id": "0b"}'""")
    assert [ticket["id"] for ticket in egress.tickets("careful", follow=True)] == ["0a", "0b"]


def test_what_waits_is_asked_of_what_holds_connections_and_of_the_program_where_that_cannot_be(
    gateway: list[str],
) -> None:
    gateway.append("""grep -q '{"command": "list"}' && echo '{"result": [{"id": "0a"}]}'""")
    assert egress.waiting("careful") == [{"id": "0a"}]
    gateway.append("""case "$0" in *socat*) exit 127;; *"asks --json") echo '{"id": "0b"}';; esac""")
    assert egress.waiting("careful") == [{"id": "0b"}]
    assert Path("/", egress.ASK_SOCKET) == Layout().ask_socket


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo \"argument COMMAND: invalid choice: 'traffic'\" >&2; exit 2", "is from before gateways counted traffic"),
        ("echo 'the disk is away' >&2; exit 2", "did not answer"),
    ],
)
def test_traffic_by_day_says_of_which_gateways_it_cannot_be_had(gateway: list[str], script: str, reason: str) -> None:
    gateway.append(script)
    with pytest.raises(SiteError, match=reason):
        egress.traffic_by_day("careful", "2026-05-20")


def test_traffic_by_day_is_what_the_gateway_counted_since(gateway: list[str]) -> None:
    gateway.append("""echo '{"egress": "locked", "traffic": [{"day": "2026-05-20"}]}'""")
    assert egress.traffic_by_day("careful", "2026-05-20")["traffic"] == [{"day": "2026-05-20"}]


def test_what_people_signed_and_who_may_answer_go_to_a_gateway_on_its_standard_input(gateway: list[str]) -> None:
    # The words, quoted, and what was sent, as a gateway's answer.
    gateway.append("""printf '{"words": "%s", "sent": %s}' "$0" "$(cat)" """)
    signed = egress.decide_signed("careful", "0a", "15m", [{"intent": {}}], "an invoice")
    assert signed["words"] == "sudo deskyard-gateway decide-signed 0a 15m '--reason=an invoice'"
    assert signed["sent"] == [{"intent": {}}]
    gateway.append("""printf '{"changed": true, "words": "%s", "sent": %s}' "$0" "$(cat)" """)
    brought = egress.bring_deciders("careful", {"passkeys": []}, 60)
    assert (brought["words"], brought["sent"]) == ("sudo deskyard-gateway deciders", {"passkeys": []})


@pytest.mark.parametrize("said", ["[]", "7", "{}", '{"changed": 1}', "x"])
def test_list_is_not_brought_to_what_answers_as_no_gateway_does(gateway: list[str], said: str) -> None:
    gateway.append(f"cat > /dev/null; echo '{said}'")
    with pytest.raises(SiteError, match="what is no answer of a gateway"):
        egress.bring_deciders("careful", {}, 60)


def test_list_is_brought_within_its_time(gateway: list[str]) -> None:
    gateway.append("exec sleep 60")
    with pytest.raises(CommandError, match="did not end within"):
        egress.bring_deciders("careful", {}, 0.2)


@pytest.mark.parametrize("command", ["decide-signed", "deciders"])
def test_gateway_that_verifies_nothing_is_told_from_others(gateway: list[str], command: str) -> None:
    has = ", ".join(f"'command-{number}'" for number in range(100))
    said = f"argument COMMAND: invalid choice: '{command}' (choose from {has})"
    gateway.append(f'cat > /dev/null; echo "{said}" >&2; exit 2')
    with pytest.raises(TooOld, match="is from before gateways verified answers"):
        if command == "deciders":
            egress.bring_deciders("careful", {}, 60)
        else:
            egress.decide_signed("careful", "0a", "once", [], "")

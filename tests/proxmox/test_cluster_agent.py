"""A guest agent asked by way of the cluster, with the token's own privileges: honest guests, slow and hostile ones."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakepve.model import PveError

from deskyard.errors import SiteError
from deskyard.host import deadline
from deskyard.host.vm import agent_answer
from deskyard.site.proxmox.agent import ClusterAgent
from tests.proxmox.inhabited import Inhabitants, inhabit
from tests.proxmox.site_on_peer import Rack
from tests.support.pve import Client, Peer
from tests.support.pve.asking import NODE, machine
from tests.support.pve.inside import DOWN

BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


@pytest.fixture
def agent(peer: Peer, root: Client, tmp_path: Path) -> ClusterAgent:
    """The agent of a machine in a pool of ours."""
    rack = Rack(peer, tmp_path)
    root.ask("POST", "/pools", poolid="deskyard.rack.lab")
    machine(root, pool="deskyard.rack.lab")
    root.finish("POST", f"{NODE}/100/status/start")
    return ClusterAgent(rack.client(), "pve1", 100)


@pytest.fixture
def inside(agent: ClusterAgent, peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inhabitants]:
    """Somebody honest in that machine."""
    with inhabit(peer, tmp_path, monkeypatch) as inhabitants:
        yield inhabitants


def test_a_program_gets_its_arguments_and_its_input(inside: Inhabitants, agent: ClusterAgent) -> None:
    assert agent.execute(["/bin/sh", "-c", 'printf "%s|" "$0" "$@"; exit 4', "a b", "it's", "$x"]) == (
        4,
        "a b|it's|$x|",
    )
    assert agent.execute(["cat"], stdin="größe\n") == (0, "größe\n")


def test_what_it_prints_comes_with_its_errors_after_it(inside: Inhabitants, agent: ClusterAgent) -> None:
    assert agent.execute(["/bin/sh", "-c", "echo bad >&2; echo good"]) == (0, "good\nbad\n")


def test_a_program_that_was_killed_has_not_succeeded(inside: Inhabitants, agent: ClusterAgent) -> None:
    assert agent.execute(["/bin/sh", "-c", "kill -9 $$"]) == (-1, "")


def test_the_host_key_is_the_machines_own(inside: Inhabitants, agent: ClusterAgent) -> None:
    assert agent.host_key() == inside.systems["vm100"].public_key


def test_a_file_that_is_not_there_is_an_error_at_once(inside: Inhabitants, agent: ClusterAgent, peer: Peer) -> None:
    peer.fake.calls.clear()
    with pytest.raises(SiteError, match="No such file"):
        agent.read_file("/etc/none")
    assert len(peer.fake.calls) == 1


def test_a_restart_has_begun_when_the_call_ends(inside: Inhabitants, agent: ClusterAgent) -> None:
    agent.restart()
    assert not agent.answers()
    assert agent.answers()
    assert inside.systems["vm100"].boots == 2


def test_a_restart_that_the_guest_refuses_is_told(inside: Inhabitants, agent: ClusterAgent) -> None:
    (inside.systems["vm100"].root / "bin/systemd-run").write_text("#!/bin/sh\necho no such bus >&2\nexit 1\n")
    with pytest.raises(SiteError, match=r"100 on pve1(.|\n)*no such bus"):
        agent.restart()


# Agents that do not answer, or not yet.


def refusing(times: int) -> Callable[..., Any]:
    """An agent that is down for so many calls."""
    left = iter(range(times))

    def answer(*_: object) -> Any:
        if next(left, None) is not None:
            raise PveError(500, DOWN)
        return None

    return answer


def test_an_agent_that_comes_up_is_waited_for(agent: ClusterAgent, peer: Peer) -> None:
    peer.fake.answerer = refusing(3)
    pauses: list[float] = []
    agent.wait(600, pauses.append)
    assert len(pauses) == 3


def test_an_agent_that_never_answers_is_named_when_its_time_is_over(agent: ClusterAgent, peer: Peer) -> None:
    peer.fake.answerer = refusing(10_000)
    clock = iter(range(0, 100_000, 100))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
        with pytest.raises(SiteError, match=r"100 on pve1.*did not answer within 600 s") as caught:
            agent.wait(600, lambda _: None)
    assert caught.value.remedy


def test_a_program_that_never_ends_is_given_up(inside: Inhabitants, agent: ClusterAgent) -> None:
    with pytest.raises(SiteError, match=r"100 on pve1.*sleep did not end in time"):
        agent.execute(["sleep", "600"], seconds=0)


# Agents that answer what they like.

EXEC = {"pid": 7}
ENDED = {"exited": 1, "exitcode": 0}
HOSTILE: dict[str, dict[str, Any]] = {
    "nothing": {"exec": {}},
    "a list": {"exec": [7]},
    "a text": {"exec": "7"},
    "no number": {"exec": {"pid": "x"}},
    "a pid of another kind": {"exec": {"pid": {"a": 1}}},
    "an endless pid": {"exec": {"pid": float("inf")}},
    "no pid at all": {"exec": {"pid": float("nan")}},
    "a status that is a list": {"exec": EXEC, "exec-status": [1]},
    "a status that is a text": {"exec": EXEC, "exec-status": "exited"},
    "a code that is a text": {"exec": EXEC, "exec-status": {"exited": 1, "exitcode": "x"}},
    "a code that is a list": {"exec": EXEC, "exec-status": {"exited": 1, "exitcode": [0]}},
    "an endless code": {"exec": EXEC, "exec-status": {"exited": 1, "exitcode": float("inf")}},
}
FILES: dict[str, Any] = {
    "nothing": {},
    "a list": ["content"],
    "a number": {"content": 5},
    "no content": {"truncated": 1},
    "an empty file": {"content": ""},
    "a key of another kind": {"content": f"ssh-rsa {BLOB}"},
    "a key that goes on": {"content": f"ssh-ed25519 {BLOB}{BLOB}"},
    "half a key": {"content": "ssh-ed25519 AAAA"},
    "any key": {"content": "ssh-ed25519 *"},
    "a key without end": {"content": "ssh-ed25519 " + "A" * 3_000_000},
    "another machine's line": {"content": f"neighbour ssh-ed25519 {BLOB}"},
    "answers within answers": {"content": json.loads("[" * 900 + "]" * 900)},
}


def lying(answers: dict[str, Any]) -> Callable[..., Any]:
    """An agent with these answers."""
    return lambda _vm, command, _values: answers.get(command)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_senseless_answer_is_an_error_of_that_machine(agent: ClusterAgent, peer: Peer, name: str) -> None:
    peer.fake.answerer = lying(HOSTILE[name])
    with pytest.raises(SiteError) as caught:
        agent.execute(["true"])
    assert caught.value.value == "100 on pve1"
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_key_is_never_taken_for_one(agent: ClusterAgent, peer: Peer, name: str) -> None:
    peer.fake.answerer = lying({"file-read": FILES[name]})
    with pytest.raises(SiteError) as caught:
        agent.host_key()
    assert caught.value.value == "100 on pve1"
    assert len(str(caught.value)) < 1000


def test_the_form_of_the_key_is_what_refuses(agent: ClusterAgent, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    peer.fake.answerer = lying({"file-read": FILES["any key"]})
    monkeypatch.setattr(agent_answer, "ED25519", re.compile(".*"))
    assert agent.host_key() == "ssh-ed25519 *"


def test_no_more_than_the_bound_is_kept(agent: ClusterAgent, peer: Peer) -> None:
    flood = "x" * 3_000_000
    peer.fake.answerer = lying(
        {"exec": EXEC, "exec-status": {**ENDED, "out-data": flood}, "file-read": {"content": flood}}
    )
    assert len(agent.read_file("/etc/anything")) <= agent_answer.MAX_BYTES
    assert len(agent.execute(["true"])[1]) <= agent_answer.MAX_BYTES


def test_no_guest_is_asked_for_its_address(inside: Inhabitants, agent: ClusterAgent, peer: Peer) -> None:
    """Addresses are the Plan's: the agent has no say in where a gateway sends anybody."""
    peer.fake.calls.clear()
    agent.answers()
    agent.host_key()
    agent.execute(["true"])
    asked = {call.path.rpartition("/agent/")[2] for call in peer.fake.calls}
    assert asked == {"ping", "file-read", "exec", "exec-status"}

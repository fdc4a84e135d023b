"""The program that halts the agent: for the gateway alone, by the kernel's word, and once for what is so already."""

import json
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.computer import halting

ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
ens3\t00000000\t0101500A\t0003\t0\t0\t100\t00000000\t0\t0\t0
ens3\t0001500A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
"""


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What was done, in order; systemd is played, and does as it is told."""
    done: list[str] = []
    events = tmp_path / "cgroup.events"
    events.write_text("populated 1\nfrozen 0\n")

    def run(argv: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        done.append(" ".join(argv))
        events.write_text(f"populated 1\nfrozen {int(argv[1] == 'freeze')}\n")
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(halting, "EVENTS", events)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(halting, "say", lambda stopped: done.append("refuse" if stopped else "take"))
    return done


def test_service_refuses_before_the_slice_is_frozen(steps: list[str]) -> None:
    assert halting.act("stop") is True
    assert steps == ["refuse", "systemctl freeze agent.slice"]


def test_service_takes_the_agent_again_when_it_runs(steps: list[str]) -> None:
    halting.act("stop")
    assert halting.act("go") is False
    assert steps[2:] == ["systemctl thaw agent.slice", "take"]


def test_service_that_could_not_be_frozen_takes_the_agent_again_too(
    steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda argv, **_: subprocess.CompletedProcess(argv, 1, "", ""))
    assert (halting.act("stop"), halting.act("go")) == (False, False)
    assert steps == ["refuse", "take"]


def test_what_is_so_already_is_not_done_again(steps: list[str]) -> None:
    assert (halting.act("go"), halting.act("stop"), halting.act("stop")) == (False, True, True)
    assert steps == ["take", "refuse", "systemctl freeze agent.slice"]
    assert (halting.act("go"), halting.act("go")) == (False, False)
    assert steps[3:] == ["systemctl thaw agent.slice", "take", "take"]


def test_slice_that_does_not_freeze_is_said_to_run(steps: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda argv, **_: subprocess.CompletedProcess(argv, 1, "", ""))
    assert halting.act("stop") is False


def test_gateway_is_where_the_default_route_leads() -> None:
    assert halting.gateways(ROUTES) == {"10.80.1.1"}
    assert halting.gateways(ROUTES.splitlines()[0]) == set()


def answered(said: bytes) -> Any:
    """What a client hears that says this and waits."""
    here, there = socket.socketpair()
    with here, there:
        there.settimeout(10)
        here.settimeout(10)
        there.sendall(said)
        there.shutdown(socket.SHUT_WR)
        return halting.heard(here)


@pytest.mark.parametrize(("said", "word"), [(b'{"agent": "stop"}\n', "stop"), (b'{"agent": "go"}', "go")])
def test_word_of_a_request_is_heard(said: bytes, word: str) -> None:
    assert answered(said) == word


@pytest.mark.parametrize(
    "said", [b"", b"\n", b"stop\n", b'{"agent": "halt"}\n', b'{"agent": ["stop"]}\n', b'["agent"]\n', b"[" * 5000]
)
def test_what_is_no_request_does_nothing(said: bytes) -> None:
    assert answered(said) is None


@pytest.mark.parametrize(("gateway", "answer"), [("127.0.0.1", b'{"still": true}\n'), ("10.80.1.1", b"")])
def test_gateway_alone_is_answered(
    gateway: str, answer: bytes, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(halting, "gateways", lambda _: {gateway})
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        line, _ = server.accept()
        if answer:
            client.sendall(json.dumps({"agent": "stop"}).encode() + b"\n")
        monkeypatch.setattr("sys.stdin", SimpleNamespace(fileno=line.detach))
        halting.main()
        assert client.makefile("rb").read() == answer
    assert bool(steps) == bool(answer)

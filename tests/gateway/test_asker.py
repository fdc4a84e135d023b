"""How Mission Control asks a gateway with the link key: OpenSSH's server, sudo and the gateway's own service answer."""

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deskyard.access.gateway_program import Rubbish
from deskyard.control.anchors.gateways import Line
from deskyard.control.link import asker as asking
from deskyard.control.link.asker import Asker
from deskyard.control.link.gateways import AskedGateways, tickets
from deskyard.errors import ConfigError, DeskyardError, SiteError
from tests.gateway.link_door import SECONDS, Door, link_door
from tests.gateway.link_ways import Ways, asker_by
from tests.gateway.support import Gateway

SOURCE, ANOTHER, HEAD = "mission.fedcba9876543210", "mission.0123456789abcdef", "b" * 64


@pytest.fixture(scope="module")
def door(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with link_door(tmp_path_factory.mktemp("link"), gateway) as found:
        yield found


@pytest.fixture
def ways(door: Door) -> Iterator[Ways]:
    with Ways(door) as found:
        yield found


@pytest.fixture
def asker(ways: Ways, tmp_path: Path) -> Iterator[Asker]:
    with asker_by(ways, tmp_path) as found:
        yield found


def test_one_connection_serves_all_questions(asker: Asker, ways: Ways, gateway: Gateway) -> None:
    gateways = AskedGateways(asker)
    gateways.anchor("demo", SOURCE, Line(3, HEAD))
    assert [(line.number, line.hash) for line in gateways.held("demo", SOURCE)] == [(3, HEAD)]
    assert gateways.held("demo", SOURCE, 1)[-1].number == 3
    audit = gateways.audit("demo", None)
    assert audit.problem is None and gateways.audit("demo", audit.last).problem is None
    assert gateways.audit("demo", Line(audit.last.number, HEAD)).problem is not None
    assert asker.ask("demo", ["status"])["workspace"] == "demo"
    assert gateway.sessions(asker.ask("demo", ["list"])) == gateway.sessions()
    assert len(ways.opened) == 1


def test_what_the_gateway_refuses_is_an_error_in_its_words(asker: Asker) -> None:
    for words, field in ((["grant", "--desktop", "d1"], "question"), (["anchors", "--source", "x; id"], "question")):
        with pytest.raises(ConfigError) as caught:
            asker.ask("demo", words)
        assert caught.value.field == field
    gateways = AskedGateways(asker)
    gateways.anchor("demo", ANOTHER, Line(3, HEAD))
    with pytest.raises(ConfigError) as caught:
        gateways.anchor("demo", ANOTHER, Line(2, HEAD))
    assert caught.value.field == "number"


def test_tickets_come_as_the_gateway_says_them(asker: Asker, gateway: Gateway) -> None:
    path = gateway.layout.ask_socket
    path.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(SECONDS)
        follower = tickets(asker)("demo")
        heard = list[Any]()
        thread = threading.Thread(target=lambda: heard.extend([next(follower), next(follower)]))
        thread.start()
        line, _ = listener.accept()
        with line:
            line.sendall(json.dumps({"id": "1"}).encode() + b"\n" + json.dumps({"id": "2"}).encode() + b"\n")
            thread.join(SECONDS)
            assert [ticket["id"] for ticket in heard] == ["1", "2"]
        with pytest.raises(DeskyardError):
            next(follower)
        path.unlink()


def test_which_gateways_there_are_and_ask_a_person_is_said_by_who_may_know(asker: Asker) -> None:
    assert AskedGateways(asker).names() == ["demo", "other"]
    assert (asker.asks("demo"), asker.asks("other")) == (True, False)
    with pytest.raises(DeskyardError, match="is not up"):
        asker.ask("other", ["list"])


def another_key(folder: Path) -> Path:
    """A private key that nobody knows, with its public one beside it."""
    path = folder / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=60)
    return path


def test_a_gateway_with_another_host_key_is_asked_nothing(asker: Asker, ways: Ways, tmp_path: Path) -> None:
    ways.facts["host_key"] = another_key(tmp_path).with_suffix(".pub").read_text()
    with pytest.raises(SiteError, match="not trusted"):
        asker.ask("demo", ["list"])


def test_a_gateway_without_the_key_says_what_brings_it(asker: Asker, ways: Ways, tmp_path: Path) -> None:
    ways.facts["key"] = another_key(tmp_path).read_text()
    with pytest.raises(SiteError, match=r"has not got the link key, which \./inv workspace.up demo brings"):
        asker.ask("demo", ["list"])


def test_a_connection_that_ended_is_made_again(asker: Asker, ways: Ways, gateway: Gateway) -> None:
    assert gateway.sessions(asker.ask("demo", ["list"])) == gateway.sessions()
    ways.opened[0].kill()
    with pytest.raises(SiteError):
        for _ in range(3):
            asker.ask("demo", ["list"])
            ways.opened[-1].kill()
    assert gateway.sessions(asker.ask("demo", ["list"])) == gateway.sessions()


def test_an_answer_without_an_end_is_rubbish(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST_ANSWER", 10)
    with pytest.raises(Rubbish):
        asker.ask("demo", ["status"])

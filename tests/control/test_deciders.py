"""Who may answer is brought to gateways: by role, workspace and rule, as it changes, and by the worker alone."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from webauthn.helpers import base64url_to_bytes

from deskyard.control.approvals.deciders import Bringer, documents
from deskyard.control.people import records
from deskyard.control.store.cluster import WORKER
from deskyard.control.store.connection import connect
from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from tests.control.lab import ORIGIN, Lab
from tests.control.people import Person, enrolled


class Gateways:
    """Gateways that note what they are told; each of `away` is silent."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, list[str]]] = []
        self.away: set[str] = set()

    def tell(self, name: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
        if name in self.away:
            raise SiteError("gateway", name, "is away", "wait")
        before, brought = dict(self.heard).get(name), [row["person"] for row in document["passkeys"]]
        self.heard.append((name, brought))
        return {"changed": brought != before}


@pytest.fixture
def people(mission: Lab) -> Iterator[dict[str, Person]]:
    """An admin, two operators and a viewer, and a workspace that asks."""
    mission.declare("lab", "first")
    mission.link.execute("update workspace set egress = 'locked', state = 'ready' where id = 'lab'")
    roles = {"root": "admin", "ada": "operator", "eve": "operator", "vic": "viewer"}
    clients = [mission.client() for _ in roles]
    yield {
        name: enrolled(mission, client, name, role) for client, (name, role) in zip(clients, roles.items(), strict=True)
    }
    for client in clients:
        client.close()


def listed(mission: Lab, workspace: str = "lab") -> list[str]:
    with connect(mission.url_as(WORKER)) as link:
        document = documents(link, [workspace], ORIGIN)[workspace]
    return [row["person"] for row in document["passkeys"]]


def looked(mission: Lab, bringer: Bringer) -> None:
    """Have it look, and wait for what it began."""
    bringer._next = Deadline(0)
    with connect(mission.url_as(WORKER)) as link:
        bringer.look(link, lambda: connect(mission.url_as(WORKER)), ORIGIN)
    for thread in bringer._threads._threads.values():
        thread.join(60)
        assert not thread.is_alive()


def test_list_has_whose_passkey_may_answer_there(mission: Lab, people: dict[str, Person]) -> None:
    assert listed(mission) == ["ada", "eve", "root"]
    mission.link.execute("update person set workspaces = '{other}' where name = 'ada'")
    assert (listed(mission), listed(mission, "other")) == (["eve", "root"], ["ada", "eve", "root"])
    mission.link.execute("update person set disabled_at = now() where name = 'eve'")
    assert listed(mission) == ["root"]


def test_list_follows_the_rule_of_its_workspace(mission: Lab, people: dict[str, Person]) -> None:
    mission.declare("other", "first")
    mission.link.execute(
        "insert into approval_rule (workspace_id, persons, roles, people, keys, actor)"
        " values ('lab', 2, '{operator}', '{root}', '{}', 'person:root'),"
        " ('other', 1, '{}', '{eve}', '{}', 'person:root')"
    )
    with connect(mission.url_as(WORKER)) as link:
        found = documents(link, ["lab", "other"], ORIGIN)
    assert [(found[name]["persons"], [row["person"] for row in found[name]["passkeys"]]) for name in found] == [
        (2, ["ada", "eve", "root"]),
        (1, ["eve"]),
    ]


def test_key_of_a_list_is_the_one_that_was_enrolled(mission: Lab, people: dict[str, Person]) -> None:
    with connect(mission.url_as(WORKER)) as link:
        document = documents(link, ["lab"], ORIGIN)["lab"]
    row = next(row for row in document["passkeys"] if row["person"] == "ada")
    passkey = people["ada"].passkey
    assert base64url_to_bytes(row["id"]) == passkey.id
    assert (document["origin"], row["algorithm"]) == (ORIGIN, -7)
    assert load_pem_public_key(row["key"].encode()) == passkey.key.public_key()


def test_gateways_are_told_once_and_again_when_somebody_is_removed(mission: Lab, people: dict[str, Person]) -> None:
    gateways = Gateways()
    bringer = Bringer(gateways.tell, lambda name: True)
    looked(mission, bringer)
    looked(mission, bringer)
    assert gateways.heard == [("lab", ["ada", "eve", "root"])]
    with connect(mission.url_as(WORKER)) as link, link.transaction():
        records.remove(link, "host:root", "ada")
    looked(mission, bringer)
    assert gateways.heard[1:] == [("lab", ["eve", "root"])]
    # One that went away may be another when it is back.
    for state in ("stopped", "ready"):
        mission.link.execute("update workspace set state = %s where id = 'lab'", [state])
        looked(mission, bringer)
    assert gateways.heard[2:] == [("lab", ["eve", "root"])]


def test_gateway_that_does_not_answer_is_told_later_and_holds_up_no_other(
    mission: Lab, people: dict[str, Person], monkeypatch: pytest.MonkeyPatch
) -> None:
    mission.declare("other", "first")
    mission.link.execute("update workspace set egress = 'locked', state = 'ready'")
    gateways = Gateways()
    gateways.away.add("lab")
    bringer = Bringer(gateways.tell, lambda name: True)
    looked(mission, bringer)
    assert [name for name, _ in gateways.heard] == ["other"]
    gateways.away.clear()
    looked(mission, bringer)
    assert len(gateways.heard) == 1  # it is left alone for a while
    bringer._pauses.clear()
    looked(mission, bringer)
    assert [name for name, _ in gateways.heard] == ["other", "lab"]

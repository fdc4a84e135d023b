"""Answers that people signed: verified in the gateway by the list that its host brought, and in its audit either way.

Witnesses: a desktop's connections, held by a real router, and the audit of a real session service.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.egress.ask import line
from tests.gateway.egress_lab import PUBLIC, EgressLab, run_lab
from tests.gateway.test_ask import curl, held, place, raised, said, tickets, tried
from tests.support.requirements import need_programs
from tests.support.signer import WORKSPACE, Signer, listed
from tests.unit.gateway.support import parsed

ADA, BOB = Signer("ada"), Signer("bob")


@pytest.fixture(scope="module")
def lab() -> Iterator[EgressLab]:
    """A locked gateway that asks, and was told nothing of people yet."""
    need_programs("curl")
    settings = parsed("locked", ("allowed.test",))
    rules = settings.egress_rules
    fast = dict.fromkeys(rules.rates, 100_000)
    assert settings.workspace == WORKSPACE
    with run_lab(
        replace(settings, egress_rules=replace(rules, rates=fast, ask=("*.asked.test",))), {"*": {"A": [PUBLIC]}}
    ) as running:
        yield running


@pytest.fixture
def list_of_ada(lab: EgressLab) -> None:
    bring(lab, ADA)


def bring(lab: EgressLab, *signers: Signer, **more: Any) -> dict[str, Any]:
    brought: dict[str, Any] = lab.cli("deciders", stdin=json.dumps(listed(*signers, **more)))
    assert "error" not in brought, brought
    return brought


def answer(lab: EgressLab, ticket: dict[str, Any], word: str, *proofs: Any) -> dict[str, Any]:
    answered: dict[str, Any] = lab.cli("decide-signed", ticket["id"], word, stdin=json.dumps(list(proofs)))
    return answered


def lines(lab: EgressLab, ticket: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of the audit about answers to a ticket."""
    found = [entry for entry in lab.cli("audit") if entry.get("ticket") == ticket["id"]]
    return [entry for entry in found if entry["result"] != "raised"]


def test_gateway_that_was_told_of_nobody_says_so_and_opens_nothing(lab: EgressLab) -> None:
    place(lab).deciders_file.unlink(missing_ok=True)
    ticket = held(lab, "early.asked.test")
    refused = answer(lab, ticket, "once", ADA.proof(ticket, "once"))["error"]
    assert (refused["field"], refused["reason"]) == ("deciders", "are not known to this gateway yet")
    assert "Mission Control brings it" in refused["remedy"]
    assert tried(lab, "early.asked.test", seconds=0.3) == "silent"
    # Who works at the host stands above it.
    assert lab.cli("decide", ticket["id"], "--once", "--actor", "ann")["state"] == "allowed"


@pytest.mark.usefixtures("list_of_ada")
def test_signed_answer_opens_the_held_connection_and_is_in_the_chain_with_who_signed(lab: EgressLab) -> None:
    client = curl(lab, "http://right.asked.test/")
    ticket = raised(lab, "right.asked.test")
    proof = ADA.proof(ticket, "once")
    decided = answer(lab, ticket, "once", proof)
    assert decided["answer"]["actor"].startswith("person:ada proof:")
    assert said(client) == f"outside {PUBLIC}:80\n"
    (entry,) = lines(lab, ticket)
    assert (entry["event"], entry["result"], entry["by"]) == ("ask", "once", decided["answer"]["actor"])
    (signature,) = entry["signed"]
    assert (signature["person"], signature["credential"]) == ("ada", ADA.row()["id"])
    assert lab.cli("audit", "--verify")["ok"]


@pytest.mark.usefixtures("list_of_ada")
def test_forged_answer_opens_nothing_and_is_a_line_of_the_audit(lab: EgressLab) -> None:
    ticket, other = held(lab, "forged.asked.test"), held(lab, "other.asked.test")
    stranger, of_other = Signer("ada").proof(ticket, "always"), ADA.proof(other, "always")
    once = ADA.proof(ticket, "once")
    wrong: list[list[Any]] = [[stranger], [of_other], [once], [], [{}]]
    for proofs in wrong:
        assert "error" in answer(lab, ticket, "always", *proofs)
    # In a person's name, but without any signature, by what root asks and on the socket itself.
    words = ["decide", ticket["id"], "--always", "--actor", "person:ada proof:00"]
    assert lab.cli(*words)["error"]["field"] == "signature"
    request = {"command": "decide", "ticket": ticket["id"], "verdict": "always", "seconds": None, "reason": ""}
    for more in (
        {"actor": "person:ada"},
        {"proofs": [stranger], "answer": "always"},
        {"proofs": [once], "answer": "always"},
    ):
        with pytest.raises(GatewayError, match=r"signature|deciders"):
            line.ask(place(lab).ask_socket, {**request, **more})
    assert [found["state"] for found in tickets(lab, "forged.asked.test")] == ["waiting"]
    assert tried(lab, "forged.asked.test", seconds=0.3) == "silent"
    entries = lines(lab, ticket)
    assert [(entry["event"], entry["result"], entry["by"]) for entry in entries] == [
        ("refuse", "rejected", "nobody")
    ] * 6
    assert entries[0]["reason"].startswith("deciders do not have this passkey")
    # To refuse opens nothing, and needs no signature.
    words = ["decide", ticket["id"], "--refuse", "--reason", "no", "--actor", "person:ada proof:00"]
    assert lab.cli(*words)["state"] == "refused"


@pytest.mark.usefixtures("list_of_ada")
def test_answer_that_was_taken_back_is_not_given_again_by_the_same_signature(lab: EgressLab) -> None:
    ticket = held(lab, "again.asked.test")
    signed = ADA.proof(ticket, "15m")
    assert answer(lab, ticket, "15m", signed)["answer"]["verdict"] == "for"
    assert tried(lab, "again.asked.test") == "outside"
    lab.cli("decide", ticket["id"], "--refuse", "--reason", "no more", "--actor", "ann")
    assert answer(lab, ticket, "15m", signed)["error"]["reason"] == "was used before"
    assert tried(lab, "again.asked.test", seconds=0.3) != "outside"
    assert [entry["result"] for entry in lines(lab, ticket)] == ["for", "refused", "rejected"]


def test_passkey_that_was_removed_opens_nothing_from_then_on(lab: EgressLab) -> None:
    bring(lab, ADA, BOB)
    ticket = held(lab, "gone.asked.test")
    signed = BOB.proof(ticket, "once")
    assert bring(lab, ADA)["removed"] == [f"bob {BOB.row()['id']}"]
    assert answer(lab, ticket, "once", signed)["error"]["field"] == "deciders"
    assert tried(lab, "gone.asked.test", seconds=0.3) == "silent"
    changes = [entry for entry in lab.cli("audit") if entry["event"] == "deciders"]
    assert changes[-1]["removed"] == [f"bob {BOB.row()['id']}"]


def test_great_change_of_the_list_is_a_line_of_the_audit(lab: EgressLab) -> None:
    many = {**listed(), "passkeys": [{**ADA.row(), "person": "ö" * 254, "id": f"id{each}"} for each in range(1000)]}
    assert lab.cli("deciders", stdin=json.dumps(many))["passkeys"] == 1000
    assert bring(lab, ADA)["changed"]
    added, removed = [entry for entry in lab.cli("audit") if entry["event"] == "deciders"][-2:]
    assert (
        added["added"] == removed["removed"]
        and removed["removed"][-1].startswith("and 9")
        and lab.cli("audit", "--verify")["ok"]
    )


def test_two_people_have_to_sign_where_the_list_says_so(lab: EgressLab) -> None:
    bring(lab, ADA, BOB, persons=2)
    ticket = held(lab, "two.asked.test")
    ada, bob = ADA.proof(ticket, "always"), BOB.proof(ticket, "always")
    assert "is of too few" in answer(lab, ticket, "always", ada)["error"]["reason"]
    assert tried(lab, "two.asked.test", seconds=0.3) == "silent"
    assert answer(lab, ticket, "always", ada, bob)["answer"]["actor"].startswith("person:bob proof:")
    assert tried(lab, "two.asked.test") == "outside"
    assert [each["person"] for each in lines(lab, ticket)[-1]["signed"]] == ["ada", "bob"]


@pytest.mark.usefixtures("list_of_ada")
def test_signed_answer_that_cannot_be_written_down_opens_nothing(lab: EgressLab) -> None:
    ticket = held(lab, "unwritten.asked.test")
    socket = place(lab).admin_socket
    hidden = socket.rename(socket.with_name("hidden.sock"))
    try:
        assert answer(lab, ticket, "once", ADA.proof(ticket, "once"))["error"]["field"] == "session service"
    finally:
        hidden.rename(socket)
    assert tried(lab, "unwritten.asked.test", seconds=0.3) == "silent"

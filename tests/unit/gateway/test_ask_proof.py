"""What people sign opens what it names, once, and nothing else: of those whom a gateway's list has."""

import base64
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from deskyard.control.approvals.target import ANSWERS, KIND, REFUSE, SECONDS
from deskyard.control.people.intent import Intent
from deskyard.errors import GatewayError
from deskyard.gateway.egress.ask import deciders, proof
from deskyard.gateway.egress.ask.deciders import Passkey
from deskyard.gateway.egress.ask.proof import EARLY_SECONDS, LATE_SECONDS, Signature
from deskyard.gateway.egress.ask.tickets import Book, Ticket
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.session import admin
from tests.control.authenticator import Authenticator
from tests.support.signer import ORIGIN, WORKSPACE, Signer, listed

TICKET = Ticket("0a1b2c", "d1", "10.80.1.10", "api.test", 443, int(time.time()), int(time.time()) + 86_400)
SHOWN = {"id": TICKET.id, "desktop": "d1", "name": "api.test", "port": 443}
ADA, BOB = Signer("ada"), Signer("bob")
Changed = Callable[[dict[str, Any]], dict[str, Any]]


def judged(*proofs: Any, answer: str = "once", of: Any = None, ticket: Ticket = TICKET) -> list[Signature]:
    """The signatures that count, by a list of Ada and Bob or another."""
    in_force = deciders.parse(json.dumps(of or listed(ADA, BOB)))
    return proof.require(in_force, WORKSPACE, ticket, answer, list(proofs), time.time())


def refused(*proofs: Any, **more: Any) -> tuple[str, str]:
    with pytest.raises(GatewayError) as error:
        judged(*proofs, **more)
    return error.value.field, error.value.reason


@pytest.mark.parametrize("answer", sorted(proof.ANSWERS))
def test_answer_counts_that_was_signed_by_somebody_on_the_list(answer: str) -> None:
    (signature,) = judged(ADA.proof(SHOWN, answer), answer=answer)
    assert (signature.person, signature.credential) == ("ada", ADA.row()["id"])
    assert proof.actor([signature]).startswith("person:ada proof:")


def test_form_of_what_is_signed_is_mission_controls() -> None:
    assert set(proof.ANSWERS) | {REFUSE} == set(ANSWERS) and proof.KIND == KIND
    assert {answer: seconds for answer, (_, seconds) in proof.ANSWERS.items() if seconds} == SECONDS
    intent = Intent(KIND, "x ünd", "n", 7)
    assert proof._challenge(intent.as_dict()) == intent.challenge
    assert set(proof.PARTS) == set(intent.as_dict())


@pytest.mark.parametrize(
    "change",
    [{"id": "0b"}, {"desktop": "d2"}, {"name": "evil.test"}, {"port": 80}],
    ids=lambda change: next(iter(change)),
)
def test_signature_for_another_ticket_opens_nothing(change: dict[str, Any]) -> None:
    assert refused(ADA.proof({**SHOWN, **change}, "once")) == ("signature", "is for something else")


def test_signature_for_another_answer_workspace_or_kind_opens_nothing() -> None:
    signed = ADA.proof(SHOWN, "once")
    elsewhere = signed["intent"]["target"].replace(WORKSPACE, "other")
    for wrong in (
        ADA.proof(SHOWN, "15m"),
        ADA.proof(SHOWN, "once", target=elsewhere),
        ADA.proof(SHOWN, "once", kind="operation.decide"),
    ):
        assert refused(wrong) == ("signature", "is for something else")
    assert refused(signed, answer="always") == ("signature", "is for something else")
    assert refused(ADA.proof(SHOWN, "refuse"), answer="refuse")[0] == "answer"


@pytest.mark.parametrize(("late", "counts"), [(LATE_SECONDS - 60, True), (LATE_SECONDS + 60, False)])
def test_signature_counts_for_a_day_after_its_end(late: int, counts: bool) -> None:
    signed = ADA.proof(SHOWN, "once", expires_at=int(time.time()) - late)
    assert (refused(signed)[1] if not counts else judged(signed) and "") == (
        "" if counts else "is too old, or of another time, by this gateway's clock"
    )


def test_signature_that_ends_far_from_now_opens_nothing_and_who_signed_is_sent_to_the_clock() -> None:
    signed = ADA.proof(SHOWN, "once", expires_at=int(time.time()) + EARLY_SECONDS + 60)
    with pytest.raises(GatewayError, match="is too old") as error:
        judged(signed)
    assert "look at the gateway's clock" in error.value.remedy


def test_passkey_that_is_not_on_the_list_opens_nothing_and_the_host_can_tell() -> None:
    assert refused(Signer("eve").proof(SHOWN, "once"))[0] == "deciders"
    assert refused(ADA.proof(SHOWN, "once"), of=listed(BOB))[0] == "deciders"
    # Whose key it is, the list says, whatever id comes with it.
    stolen = Signer("eve", replace(Authenticator(ORIGIN), id=ADA.passkey.id))
    assert refused(stolen.proof(SHOWN, "once")) == ("signature", "is not by this passkey")


def test_signature_made_without_a_look_who_it_is_or_for_another_site_opens_nothing() -> None:
    unseen = Signer("ada", replace(ADA.passkey, verifies=False))
    assert refused(unseen.proof(SHOWN, "once"))[1] == "was made without a look who it is"
    elsewhere = Signer("ada", replace(ADA.passkey, origin="https://evil.test"))
    assert refused(elsewhere.proof(SHOWN, "once"))[1] == "is for another site"
    # The same host, another page's origin, and the other way round.
    port = Signer("ada", replace(ADA.passkey, origin=ORIGIN.replace("9443", "9444")))
    assert refused(port.proof(SHOWN, "once"))[1] == "is for another site"


def changed(part: str, change: Changed) -> dict[str, Any]:
    """A proof whose client data or authenticator's data are others than what was signed."""
    signed = ADA.proof(SHOWN, "once")
    response = signed["credential"]["response"]
    data = base64.urlsafe_b64decode(response[part] + "==")
    response[part] = base64.urlsafe_b64encode(json.dumps(change(json.loads(data))).encode()).decode().rstrip("=")
    return signed


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"type": "webauthn.create"}, "is over something else"),
        ({"challenge": "AAAA"}, "is over something else"),
        ({"crossOrigin": True}, "is over something else"),
        ({"more": 1}, "is not by this passkey"),
    ],
)
def test_client_data_that_is_changed_opens_nothing(change: dict[str, Any], reason: str) -> None:
    assert refused(changed("clientDataJSON", lambda said: {**said, **change})) == ("signature", reason)


@pytest.mark.parametrize(
    "rubbish",
    [
        None,
        [],
        {},
        {"intent": {}, "credential": {}},
        {"intent": 7, "credential": 7},
        {**ADA.proof(SHOWN, "once"), "credential": {"id": ADA.row()["id"], "response": {}}},
        {**ADA.proof(SHOWN, "once"), "credential": {"id": "%", "response": {}}},
        {**ADA.proof(SHOWN, "once"), "credential": {"id": ADA.row()["id"], "response": {"clientDataJSON": "AAAA"}}},
    ],
)
def test_rubbish_opens_nothing(rubbish: Any) -> None:
    assert refused(rubbish) == ("signature", "is none that can be read")


def test_no_proof_at_all_opens_nothing() -> None:
    wrong: tuple[Any, ...] = ([], {}, None, "x", [ADA.proof(SHOWN, "once")] * 9)
    for proofs in wrong:
        with pytest.raises(GatewayError, match="is not there"):
            proof.require(deciders.parse(json.dumps(listed(ADA))), WORKSPACE, TICKET, "once", proofs, time.time())


def test_signature_counts_once(tmp_path: Path) -> None:
    book = Book(tmp_path / "tickets.json")
    ticket = book.meet("d1", "10.80.1.10", "api.test", 443)
    shown = {**SHOWN, "id": ticket.id}
    signed = ADA.proof(shown, "15m")
    (signature,) = judged(signed, answer="15m", ticket=ticket)
    book.decide(ticket.id, "for", 900, "person:ada", "", [signature.challenge])
    book.decide(ticket.id, "refuse", None, "key:k", "no")
    # Also after a restart.
    (again,) = Book(tmp_path / "tickets.json").all()
    assert refused(signed, answer="15m", ticket=again) == ("signature", "was used before")
    assert judged(ADA.proof(shown, "15m"), answer="15m", ticket=again)


def test_two_people_have_to_sign_the_same_where_the_list_says_so() -> None:
    two, ada, bob = listed(ADA, BOB, persons=2), ADA.proof(SHOWN, "once"), BOB.proof(SHOWN, "once")
    too_few = ("signature", "is of too few: 2 people have to sign the same")
    assert [signature.person for signature in judged(ada, bob, of=two)] == ["ada", "bob"]
    assert refused(ada, of=two) == refused(ADA.proof(SHOWN, "once"), ada, of=two) == too_few
    assert refused(BOB.proof(SHOWN, "always"), ada, of=two) == too_few
    # Somebody who lost the right since counts for nothing, and does not stand in the way of others.
    gone = Signer("cid").proof(SHOWN, "once")
    assert refused(gone, ada, of=two) == too_few
    assert len(judged(gone, bob, ada, of=two)) == 2
    second = Signer("ada")
    assert refused(second.proof(SHOWN, "once"), ada, of=listed(ADA, second, BOB, persons=2)) == too_few


def test_no_answer_opens_in_the_name_of_a_person_without_a_signature() -> None:
    for verdict in ("once", "for", "always"):
        with pytest.raises(GatewayError, match="is not there"):
            proof.require_no_person(verdict, "person:ada proof:00")
        proof.require_no_person(verdict, "key:bot:ak_1 proof:00")
        proof.require_no_person(verdict, "root")
    proof.require_no_person("refuse", "person:ada proof:00")


def test_other_kinds_of_keys_sign_too_and_each_by_its_own_algorithm_alone() -> None:
    edwards, prime, text = ed25519.Ed25519PrivateKey.generate(), rsa.generate_private_key(65537, 2048), b"text"
    signatures = {-8: edwards.sign(text), -257: prime.sign(text, padding.PKCS1v15(), hashes.SHA256())}
    form = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    keys = {-8: edwards.public_key().public_bytes(*form), -257: prime.public_key().public_bytes(*form)}
    for number, pem in keys.items():
        for algorithm in deciders.ALGORITHMS:
            passkey = Passkey("x", "ada", algorithm, pem.decode())
            assert proof._is_signed(passkey, signatures[number], text) is (algorithm == number)
            assert not proof._is_signed(passkey, signatures[number], b"other")


def test_key_that_the_library_does_not_know_signs_nothing() -> None:
    # A key of an algorithm that nobody registered: it is well-formed, and of no kind.
    unknown = base64.b64encode(bytes.fromhex("3012300706052a03040506030700" + "01" * 6)).decode()
    pem = f"-----BEGIN PUBLIC KEY-----\n{unknown}\n-----END PUBLIC KEY-----\n"
    with pytest.raises(UnsupportedAlgorithm):
        load_pem_public_key(pem.encode())
    assert not proof._is_signed(Passkey("x", "ada", -7, pem), b"signature", b"text")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A gateway's files; `lines` of its audit are in `audit`, in the place of the session service."""
    layout = Layout(root=tmp_path, trusts_system=False)
    monkeypatch.setattr("deskyard.gateway.session.line.ask", lambda path, request: noted(layout, request))
    return layout


def noted(layout: Layout, request: dict[str, Any]) -> None:
    if (layout.root / "full").exists():
        raise GatewayError("disk", None, "is full", "make room")
    with (layout.root / "audit").open("a") as file:
        file.write(json.dumps(request["facts"]) + "\n")


def audit(layout: Layout) -> list[dict[str, Any]]:
    path = layout.root / "audit"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_list_is_in_force_and_each_change_of_it_a_line_of_the_audit(place: Layout) -> None:
    with pytest.raises(GatewayError, match="are not known to this gateway yet"):
        deciders.load(place)
    both, less = json.dumps(listed(ADA, BOB)), json.dumps(listed(BOB))
    assert deciders.replace(place, both)["changed"] is True
    assert deciders.replace(place, both) == {"changed": False, "passkeys": 2}
    assert {passkey.person for passkey in deciders.load(place).passkeys} == {"ada", "bob"}
    assert place.deciders_file.stat().st_mode & 0o777 == 0o640
    assert deciders.replace(place, less)["removed"] == [f"ada {ADA.row()['id']}"]
    assert deciders.load(place).passkey(ADA.row()["id"]) is None
    first, second = audit(place)
    assert (len(first["added"]), first["removed"]) == (2, []) and first["digest"] != second["digest"]
    assert (second["added"], second["removed"], second["persons"]) == ([], [f"ada {ADA.row()['id']}"], 1)


def test_who_is_removed_is_removed_where_the_audit_cannot_be_written_and_nobody_is_added(place: Layout) -> None:
    deciders.replace(place, json.dumps(listed(ADA, BOB, persons=2)))
    (place.root / "full").touch()
    for wider in (
        listed(ADA, BOB, Signer("cid"), persons=2),
        listed(ADA, persons=1),
        listed(ADA, persons=2, origin="https://evil.test"),
    ):
        with pytest.raises(GatewayError, match="is full"):
            deciders.replace(place, json.dumps(wider))
    assert len(deciders.load(place).passkeys) == 2
    deciders.replace(place, json.dumps(listed(BOB, persons=2)))
    assert [passkey.person for passkey in deciders.load(place).passkeys] == ["bob"]


@pytest.mark.parametrize("change", ["key", "algorithm", "person"])
def test_passkey_that_was_exchanged_under_its_id_is_somebody_new(place: Layout, change: str) -> None:
    stranger = {"key": Signer("ada").row()["key"], "algorithm": -8, "person": "eve"}
    exchanged = json.dumps({**listed(ADA), "passkeys": [{**ADA.row(), change: stranger[change]}]})
    deciders.replace(place, json.dumps(listed(ADA)))
    (place.root / "full").touch()
    with pytest.raises(GatewayError, match="is full"):
        deciders.replace(place, exchanged)
    assert deciders.load(place).passkeys == (Passkey(**ADA.row()),)
    (place.root / "full").unlink()
    name, id = "eve" if change == "person" else "ada", ADA.row()["id"]
    assert deciders.replace(place, exchanged)["changed"] is True
    assert [audit(place)[-1][part] for part in ("added", "removed")] == [[f"{name} {id}"], [f"ada {id}"]]


def test_people_are_known_by_names_as_long_as_a_mail(place: Layout) -> None:
    deciders.replace(place, json.dumps(listed(ADA, Signer("ö" * 300))))
    assert len(deciders.load(place).passkeys) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"origin": "mission"},
        {"persons": 0},
        {"persons": 3},
        {"persons": True},
        {"passkeys": [ADA.row(), ADA.row()]},
        {"passkeys": [{**ADA.row(), "algorithm": -999}]},
        {"passkeys": [{**ADA.row(), "person": "a\nb"}]},
        {"passkeys": [{**ADA.row(), "key": "x"}]},
        {"passkeys": [{"id": "x"}]},
        {"passkeys": [{**ADA.row(), "person": "a" * 301}]},
        {"passkeys": [{**ADA.row(), "key": 7}]},
        {"passkeys": [7]},
        {"passkeys": {}},
        {"passkeys": 7},
        {"more": 1},
    ],
)
def test_list_that_is_none_leaves_the_old_one_in_force(place: Layout, change: dict[str, Any]) -> None:
    good = json.dumps(listed(ADA))
    deciders.replace(place, good)
    for text in (json.dumps({**listed(ADA), **change}), "[]", "x"):
        with pytest.raises(GatewayError, match="is no list of those who may answer"):
            deciders.replace(place, text)
    assert place.deciders_file.read_text() == good


@pytest.mark.parametrize(("name", "named"), [("ada", 171), ("ö" * 300, 6), ("\U0001f600" * 300, 3)])
def test_line_of_a_great_change_fits_in_what_the_session_service_reads(place: Layout, name: str, named: int) -> None:
    row = {**ADA.row(), "person": name}
    many = {**listed(), "passkeys": [{**row, "id": f"{number:04}" + "x" * 1000} for number in range(500)]}
    deciders.replace(place, json.dumps(many))
    deciders.replace(place, json.dumps(listed()))
    for line, part in zip(audit(place), ("added", "removed"), strict=True):
        assert (line[part][-1], len(line[part])) == (f"and {500 - named} more", named + 1)
        assert len(json.dumps(line)) < admin.LIMIT // 4

"""Signing in by an OpenID provider: who is let in, as whom, and what it is never enough for."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from deskyard.control.identity.declared import Declared, Rule
from deskyard.control.people import records
from tests.control import openid_double
from tests.control.authenticator import Authenticator
from tests.control.lab import HOST, ORIGIN, PROVIDER, Lab
from tests.control.openid_double import CLIENT, SECRET, Double
from tests.control.people import COOKIE, PAGE, Person, enrolled

BROWSER = "__Host-mission-sign-in"
RULES = ("group:platform=operator", "domain:example.org=viewer@lab")
MAIL: dict[str, Any] = {"email": "ada@example.com", "email_verified": True}


@dataclass
class Visitor:
    """A browser of its own; cookies are sent by hand, since the socket has no TLS."""

    client: httpx.Client
    provider: Double

    def begin(self) -> str:
        """Press the button: where the browser goes."""
        answer = self.client.post("/api/sign-in/provider", headers=PAGE)
        assert answer.status_code == 200, answer.text
        self._keep(answer)
        return str(answer.json()["url"])

    def back(self, sent: dict[str, Any]) -> httpx.Response:
        """Come back with what the provider sent."""
        answer = self.client.post("/api/sign-in/provider/answer", json=sent, headers=PAGE)
        self._keep(answer)
        return answer

    def signs_in(self, subject: str, **claims: Any) -> httpx.Response:
        """The whole way."""
        return self.back(self.provider.sent_back(self.begin(), subject, **claims))

    def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """A request of a page."""
        return Person(self.client, Authenticator(ORIGIN)).call(method, path, body)

    def _keep(self, answer: httpx.Response) -> None:
        kept = dict(pair.split("=", 1) for pair in self.client.headers.get("Cookie", "").split("; ") if pair)
        kept |= dict(answer.cookies)
        self.client.headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in kept.items())


@pytest.fixture(scope="module")
def declared(whole: Lab) -> Iterator[tuple[Lab, Double]]:
    """A Mission Control whose owner declared a provider, and the provider."""
    with openid_double.running() as double:
        rules = tuple(map(Rule.parsed, RULES))
        Declared(double.issuer, CLIENT, SECRET, PROVIDER, rules=rules).checked().save(whole.folder.provider)
        whole.identity()
        yield whole, double
        # The test that ends it may be the last that the seed chose.
        if "identity" in whole.processes:
            whole.end("identity")


@pytest.fixture
def provider(declared: tuple[Lab, Double], mission: Lab) -> Double:
    """The provider, which tells the truth again, after what the last test made it say."""
    lab, found = declared
    fresh = Double(found.server, found.key, found.kid)
    vars(found).update(vars(fresh))
    mission.declare("lab", "first", "second")
    mission.declare("elsewhere", "first")
    if "identity" not in lab.processes:
        lab.identity()
    return found


@pytest.fixture
def visitors(provider: Double, mission: Lab) -> Iterator[Callable[[], Visitor]]:
    clients: list[httpx.Client] = []

    def visitor() -> Visitor:
        clients.append(mission.client())
        return Visitor(clients[-1], provider)

    yield visitor
    for client in clients:
        client.close()


@pytest.fixture
def visitor(visitors: Callable[[], Visitor]) -> Visitor:
    return visitors()


def offer(mission: Lab, name: str, role: str = "operator", mail: str = "ada@example.com") -> None:
    """Make a person at the host, for whom an account with this mail stands."""
    with mission.link.transaction():
        records.add(mission.link, HOST, name, records.Given(role, None, mail))


def sessions(mission: Lab) -> int:
    found = mission.link.execute("select count(*) as count from session").fetchone()
    assert found is not None
    return int(found["count"])


def test_a_person_signs_in_and_is_known_by_issuer_and_subject_from_then_on(
    mission: Lab, visitors: Callable[[], Visitor]
) -> None:
    offer(mission, "ada")
    ada = visitors()
    answer = ada.signs_in("subject-1", **MAIL)
    assert (answer.status_code, answer.json()["person"]["name"], answer.json()["passkeys"]) == (200, "ada", 0)
    cookie = next(line.lower() for line in answer.headers.get_list("set-cookie") if line.startswith(COOKIE + "="))
    assert {"httponly", "secure", "samesite=strict", "path=/"} <= {part.strip() for part in cookie.split(";")}
    assert ada.call("GET", "/api/me").json()["person"]["role"] == "operator"
    # Mails change hands: another account with this one is nobody, and the same account is ada without it.
    other = visitors().signs_in("subject-2", **MAIL)
    assert (other.status_code, other.json()["field"]) == (403, "person")
    assert visitors().signs_in("subject-1").json()["person"]["name"] == "ada"
    assert ada.call("POST", "/api/sign-out", {}).status_code == 204
    assert ada.call("GET", "/api/me").status_code == 401
    lines = mission.link.execute("select action, target, detail from audit_intake").fetchall()
    mission.until("select 1 from audit_entry where action = 'person.identity' and target = 'ada'", [])
    assert not [line for line in lines if "subject-2" in json.dumps(line["detail"])]


def test_an_account_of_nobody_is_let_in_nowhere(mission: Lab, visitor: Visitor) -> None:
    for claims in ({}, MAIL, {**MAIL, "groups": ["staff"]}, {"email": "eve@example.org", "email_verified": "true"}):
        answer = visitor.signs_in("subject-9", **claims)
        assert (answer.status_code, answer.json()["field"]) == (403, "person")
        assert "./inv control.person NAME --mail ADDRESS" in answer.json()["remedy"]
    assert sessions(mission) == 0
    assert mission.link.execute("select 1 from person").fetchone() is None


@pytest.mark.parametrize("mail", ["$(reboot)@example.org", "a b@example.org", "@example.org", "-x@example.org", 7])
def test_a_mail_that_could_mean_something_else_makes_nobody(visitor: Visitor, mail: object) -> None:
    assert visitor.signs_in("subject-5", email=mail, email_verified=True).status_code == 403


def test_who_is_signed_in_by_a_provider_that_is_withdrawn_is_signed_out(mission: Lab, visitor: Visitor) -> None:
    assert visitor.signs_in("subject-3", email="bea@example.org", email_verified=True).status_code == 200
    mission.link.execute(records.END_LINKED)
    assert visitor.call("GET", "/api/me").status_code == 401


def test_a_mail_that_the_provider_did_not_verify_links_nobody(mission: Lab, visitor: Visitor) -> None:
    offer(mission, "ada")
    assert visitor.signs_in("subject-1", email="ada@example.com").status_code == 403
    assert visitor.signs_in("subject-1", email="ada@example.com", email_verified=False).status_code == 403
    assert visitor.signs_in("subject-1", **MAIL).status_code == 200


def test_a_rule_makes_a_person_of_its_workspaces_alone_and_is_followed(mission: Lab, visitor: Visitor) -> None:
    mail = {"email": "Bea@Example.org", "email_verified": True}
    assert visitor.signs_in("subject-3", **mail).json()["person"]["role"] == "viewer"
    desktops = visitor.call("GET", "/api/desktops").json()["items"]
    assert [desktop["id"] for desktop in desktops] == ["lab.first", "lab.second"]
    assert visitor.call("GET", "/api/desktops/elsewhere.first").status_code == 404
    assert visitor.signs_in("subject-3", **mail, groups=["staff", "platform"]).json()["person"]["role"] == "operator"
    assert visitor.call("GET", "/api/desktops/elsewhere.first").status_code == 200
    (own,) = visitor.call("GET", "/api/people").json()["items"]
    assert (own["rule"], own["account"], own["workspaces"]) == ("group:platform=operator", "linked", None)
    # Another link to enrol a passkey leaves it so.
    link_token_of(mission, "bea@example.org")
    assert visitor.signs_in("subject-3", **mail).json()["person"]["role"] == "viewer"
    # Who is of no rule any more is nobody; and a person whom the host made is followed by none.
    assert visitor.signs_in("subject-3", email="bea@example.net", email_verified=True).status_code == 403
    with mission.link.transaction():
        records.add(mission.link, HOST, "bea@example.org", records.Given("admin"))
    assert visitor.signs_in("subject-3", **mail).json()["person"]["role"] == "admin"


def test_a_rule_takes_no_name_that_somebody_has(mission: Lab, visitor: Visitor) -> None:
    with mission.link.transaction():
        records.add(mission.link, HOST, "ada@example.org", records.Given("admin"))
    answer = visitor.signs_in("subject-4", email="ada@example.org", email_verified=True)
    assert (answer.status_code, answer.json()["reason"]) == (403, "is the name of somebody else here")


def test_who_was_removed_comes_in_by_no_account_of_theirs(mission: Lab, visitor: Visitor) -> None:
    mail = {"email": "bea@example.org", "email_verified": True}
    assert visitor.signs_in("subject-3", **mail).status_code == 200
    with mission.link.transaction():
        records.remove(mission.link, HOST, "bea@example.org")
    assert visitor.call("GET", "/api/me").status_code == 401
    answer = visitor.signs_in("subject-3", **mail)
    assert (answer.status_code, answer.json()["reason"]) == (403, "was removed")


def test_who_gets_the_name_of_somebody_removed_is_not_their_account_until_the_host_offers_it(
    mission: Lab, visitor: Visitor
) -> None:
    mail = {"email": "bea@example.org", "email_verified": True}
    assert visitor.signs_in("subject-3", **mail).status_code == 200
    with mission.link.transaction():
        records.remove(mission.link, HOST, "bea@example.org")
        records.add(mission.link, "person:ada", "bea@example.org", records.Given("operator"))
    answer = visitor.signs_in("subject-3", **mail)
    assert (answer.status_code, answer.json()["reason"]) == (403, "was removed")
    assert "--mail" in answer.json()["remedy"]
    with mission.client() as client:
        ada = enrolled(mission, client, "ada", "admin")
        people = {item["name"]: item["account"] for item in ada.call("GET", "/api/people").json()["items"]}
        assert people["bea@example.org"] is None
    with mission.link.transaction():
        records.add(mission.link, HOST, "bea@example.org", records.Given(mail="bea@example.org"))
    answer = visitor.signs_in("subject-3", **mail)
    assert (answer.status_code, answer.json()["person"]["role"]) == (200, "operator")


def test_what_destroys_is_signed_with_a_passkey_all_the_same(mission: Lab, visitor: Visitor) -> None:
    offer(mission, "ada")
    assert visitor.signs_in("subject-1", **MAIL).status_code == 200
    assert visitor.call("POST", "/api/desktops/lab.first/stop").status_code == 202
    refused = visitor.call("DELETE", "/api/desktops/lab.first")
    assert (refused.status_code, refused.json()["field"]) == (403, "intent")
    # A passkey of ada's own is enrolled by a link of the host alone, and then signs.
    person = Person(visitor.client, Authenticator(ORIGIN))
    token = link_token_of(mission, "ada")
    options = person.call("POST", "/api/enrol/options", {"token": token}).json()["publicKey"]
    answer = person.call("POST", "/api/enrol", {"token": token, "credential": person.passkey.create(options)})
    assert answer.status_code == 200
    answer = person.call("DELETE", "/api/desktops/lab.first", person.signed("desktop.destroy", "lab.first"))
    assert mission.state(answer.json()["id"], "done", "failed")["state"] == "done"


def link_token_of(mission: Lab, name: str) -> str:
    with mission.link.transaction():
        return records.add(mission.link, HOST, name, records.Given())[1]


def test_a_passkey_signs_within_its_persons_workspaces_alone(mission: Lab, provider: Double) -> None:
    with mission.client() as client:
        person = enrolled(mission, client, "cas", "operator")
        mission.link.execute("update person set workspaces = '{lab}' where name = 'cas'")
        signed = person.signed("desktop.destroy", "elsewhere.first")
        assert person.call("DELETE", "/api/desktops/elsewhere.first", signed).status_code == 404
        # As a taken web process would write it down: the worker looks by itself.
        mission.link.execute(
            "insert into operation (id, kind, workspace_id, desktop_id, proof, actor) values"
            " ('op_x', 'desktop.destroy', 'elsewhere', 'elsewhere.first', %s, 'person:cas')",
            [json.dumps(signed["intent"])],
        )
        assert mission.state("op_x", "done", "failed")["problem"]["field"] == "passkey"
        assert mission.effects("elsewhere.first") == []


def test_a_token_that_is_not_believed_signs_nobody_in(mission: Lab, provider: Double, visitor: Visitor) -> None:
    offer(mission, "ada")
    provider.claims = {"nonce": "of another request"}
    answer = visitor.signs_in("subject-1", **MAIL)
    assert (answer.status_code, answer.json()["reason"]) == (401, "the provider's token answers another request")
    assert sessions(mission) == 0 and mission.link.execute("select 1 from identity").fetchone() is None


def test_an_answer_counts_once_and_in_the_browser_that_asked(
    mission: Lab, provider: Double, visitors: Callable[[], Visitor]
) -> None:
    offer(mission, "ada")
    ada, eve = visitors(), visitors()
    eve.begin()
    sent = provider.sent_back(ada.begin(), "subject-1", **MAIL)
    # Somebody else's answer would sign eve in as ada, or ada as eve.
    assert eve.back(sent).status_code == 401
    assert ada.back(sent).status_code == 401, "a state is over, whoever brought it"
    sent = provider.sent_back(ada.begin(), "subject-1", **MAIL)
    assert ada.back({**sent, "state": "made-up"}).status_code == 401
    assert ada.back(sent).status_code == 200
    assert ada.back(sent).status_code == 401
    again = provider.sent_back(ada.begin(), "subject-1", **MAIL)
    used = ada.back({**again, "code": sent["code"]})
    assert used.status_code == 401 and "was used, or is old" in used.json()["reason"]


def test_who_says_no_at_the_provider_is_told_so(visitor: Visitor, provider: Double) -> None:
    sent = provider.sent_back(visitor.begin(), "subject-1")
    answer = visitor.back({"state": sent["state"], "error": "access_denied", "issuer": provider.issuer})
    assert (answer.status_code, answer.json()["reason"]) == (401, "was cancelled, or not allowed, at the provider")


def test_a_provider_that_is_away_is_named_and_passkeys_work_on(
    mission: Lab, provider: Double, visitor: Visitor
) -> None:
    person = enrolled(mission, visitor.client, "ada", "operator")
    sent = provider.sent_back(visitor.begin(), "subject-1", **MAIL)
    provider.away = True
    answer = visitor.back(sent)
    assert (answer.status_code, answer.json()["field"]) == (503, "provider")
    assert answer.json()["remedy"] == "sign in with your passkey, or try again later"
    mission.end("identity")
    answer = visitor.client.post("/api/sign-in/provider", headers=PAGE)
    assert (answer.status_code, answer.json()["reason"]) == (503, "cannot be asked now")
    options = person.call("POST", "/api/sign-in/options").json()["publicKey"]
    assert person.call("POST", "/api/sign-in", {"credential": person.passkey.get(options)}).status_code == 200


def test_a_browser_is_sent_back_to_mission_control_and_nowhere_else(visitor: Visitor) -> None:
    asked = parse_qs(urlsplit(visitor.begin()).query)
    assert asked["redirect_uri"] == [f"{ORIGIN}/sign-in/answer"]
    for path in ("/api/sign-in/provider", "/api/sign-in/provider/answer"):
        body = {"state": "x", "code": "x", "next": "https://evil.example", "redirectUri": "https://evil.example"}
        answer = visitor.client.post(path, json=body, headers=PAGE)
        assert "evil.example" not in answer.text
        assert answer.status_code == (422 if path.endswith("answer") else 200)
    foreign = {**PAGE, "Origin": "https://evil.example"}
    assert visitor.client.post("/api/sign-in/provider", headers=foreign).status_code == 403


def test_the_page_knows_whether_a_provider_was_declared(mission: Lab, visitor: Visitor) -> None:
    assert visitor.client.get("/api/sign-in").json() == {"provider": PROVIDER}


def test_the_secret_stands_in_no_log_command_line_or_environment(mission: Lab, visitor: Visitor) -> None:
    offer(mission, "ada")
    assert visitor.signs_in("subject-1", **MAIL).status_code == 200
    texts = [mission.log(name) for name in ("identity", "web")]
    for name in ("identity", "web"):
        for part in ("cmdline", "environ"):
            texts.append(Path(f"/proc/{mission.processes[name].pid}/{part}").read_text())
    assert not [text for text in texts if SECRET in text]

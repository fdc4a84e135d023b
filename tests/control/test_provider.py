"""What is asked of an OpenID provider, and what of its answers is believed; one that is not ours agrees."""

import json
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from deskyard.control.identity import provider as provider_module
from deskyard.control.identity.declared import Declared, Rule, kept
from deskyard.control.identity.provider import Provider
from deskyard.control.identity.refusal import Away, Refusal
from deskyard.errors import ConfigError
from tests.control import openid_double, openid_witness
from tests.control.openid_double import CLIENT, SECRET, Double
from tests.control.openid_witness import Witness

REDIRECT = "https://mission.localhost:9443/sign-in/answer"
STATE, NONCE, VERIFIER = "state" * 8, "nonce" * 8, "verifier" * 6
MAIL: dict[str, Any] = {"email": "ada@example.com", "email_verified": True}
WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def running() -> Iterator[Double]:
    with openid_double.running() as double:
        yield double


@pytest.fixture
def double(running: Double) -> Double:
    """A provider that tells the truth, until a test makes it lie."""
    vars(running).update(vars(Double(running.server)))
    return running


@pytest.fixture
def provider(double: Double) -> Provider:
    return Provider(Declared(double.issuer, CLIENT, SECRET), REDIRECT)


def claims(provider: Provider, double: Double, subject: str = "subject-1", **said: Any) -> dict[str, Any]:
    """Who came back from the provider."""
    sent = double.sent_back(provider.address(STATE, NONCE, VERIFIER), subject, **said)
    return provider.who(sent["code"], VERIFIER, NONCE)[0]


def test_who_signed_in_is_told(provider: Provider, double: Double) -> None:
    found = claims(provider, double, **MAIL)
    assert (found["sub"], found["email"], found["email_verified"]) == ("subject-1", "ada@example.com", True)


def test_what_userinfo_tells_counts_where_the_token_says_nothing(provider: Provider, double: Double) -> None:
    double.userinfo = {**MAIL, "groups": ["platform"]}
    assert claims(provider, double)["email"] == "ada@example.com"
    # A mail and whether it is verified are of one source.
    found = claims(provider, double, email="eve@example.org")
    assert (found["email"], found.get("email_verified"), found["groups"]) == ("eve@example.org", None, ["platform"])


OTHER_KEY = ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize(
    "lie",
    [
        {"claims": {"nonce": "another"}},
        {"claims": {"nonce": None}},
        {"claims": {"aud": "another"}},
        {"claims": {"aud": [CLIENT, "another"]}},
        {"claims": {"azp": "another"}},
        {"claims": {"iss": "https://login.example.org"}},
        {"claims": {"exp": int(time.time()) - 120}},
        {"claims": {"exp": None}},
        {"claims": {"iat": int(time.time()) - 3600}},
        {"claims": {"iat": int(time.time()) + 86400}},
        {"claims": {"sub": None}},
        {"claims": {"sub": ""}},
        {"claims": {"sub": "x" * 256}},
        {"claims": {"at_hash": "another"}},
        {"userinfo": {"sub": "subject-2"}},
        {"algorithm": "none", "signs": ""},
        {"algorithm": "HS256", "signs": SECRET},
        {"signs": OTHER_KEY},
        {"named": "never-published"},
    ],
    ids=lambda lie: " ".join(
        f"{name} {next(iter(said)) if isinstance(said, dict) else ''}" for name, said in lie.items()
    ),
)
def test_a_token_that_is_not_to_be_believed_tells_of_nobody(
    provider: Provider, double: Double, lie: dict[str, Any]
) -> None:
    vars(double).update(lie)
    with pytest.raises(Refusal) as error:
        claims(provider, double, **MAIL)
    assert error.value.status == 401


def test_a_code_is_of_one_request_and_counts_once(provider: Provider, double: Double) -> None:
    sent = double.sent_back(provider.address(STATE, NONCE, VERIFIER), "subject-1")
    with pytest.raises(Refusal, match="was used, or is old"):
        provider.who(sent["code"], "another verifier", NONCE)
    sent = double.sent_back(provider.address(STATE, NONCE, VERIFIER), "subject-1")
    assert provider.who(sent["code"], VERIFIER, NONCE)[0]["sub"] == "subject-1"
    with pytest.raises(Refusal, match="was used, or is old"):
        provider.who(sent["code"], VERIFIER, NONCE)


def test_keys_that_were_changed_are_asked_for_again_but_not_by_everybody(
    provider: Provider, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_module, "KEYS_AGAIN_SECONDS", 3600.0)
    claims(provider, double)
    double.rotate()
    claims(provider, double)
    assert double.asked.count("GET /keys") == 2
    double.named = "never-published"
    for _ in range(3):
        with pytest.raises(Refusal, match="names no key that it published"):
            claims(provider, double)
    assert double.asked.count("GET /keys") == 2


@pytest.mark.parametrize(
    ("issuer", "promised", "believed"),
    [
        ("own", True, True),
        ("own", False, True),
        (None, False, True),
        (None, True, False),
        ("https://login.example.org", True, False),
        ("https://login.example.org", False, False),
    ],
)
def test_an_answer_says_whose_it_is(
    provider: Provider, double: Double, issuer: str | None, promised: bool, believed: bool
) -> None:
    double.discovery = {"authorization_response_iss_parameter_supported": promised}
    issuer = double.issuer if issuer == "own" else issuer
    if believed:
        provider.require_issuer(issuer)
        return
    with pytest.raises(Refusal, match="another provider"):
        provider.require_issuer(issuer)


@pytest.mark.parametrize(
    "said",
    [
        {"issuer": "https://login.example.org"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "http://login.example.org/token"},
        {"token_endpoint": "https://name:word@login.example.org/token"},
        {"jwks_uri": None},
        {"userinfo_endpoint": "ftp://login.example.org"},
    ],
    ids=lambda said: next(iter(said)),
)
def test_a_provider_that_is_another_or_leads_astray_is_not_asked(
    provider: Provider, double: Double, said: dict[str, str]
) -> None:
    double.discovery = said
    with pytest.raises(Away) as error:
        claims(provider, double)
    assert error.value.status == 503


def test_a_provider_that_is_away_or_refuses_us_is_named(provider: Provider, double: Double) -> None:
    sent = double.sent_back(provider.address(STATE, NONCE, VERIFIER), "subject-1")
    wrong = Provider(Declared(double.issuer, CLIENT, "another secret"), REDIRECT)
    with pytest.raises(Away, match=re.escape("refuses Mission Control: invalid_client (status 401)")) as error:
        wrong.who(sent["code"], VERIFIER, NONCE)
    assert "another secret" not in str(error.value)
    double.away = True
    with pytest.raises(Away, match="status 502"):
        provider.who(sent["code"], VERIFIER, NONCE)
    nobody = Provider(Declared("http://127.0.0.1:1", CLIENT), REDIRECT)
    with pytest.raises(Away, match="does not answer"):
        nobody.address(STATE, NONCE, VERIFIER)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("http://login.example.org", "no https address"),
        ("https://login.example.org?tenant=1", "without query"),
        ("https://name@login.example.org", "no https address"),
        ("login.example.org", "no https address"),
    ],
)
def test_an_issuer_that_cannot_be_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Declared(text, CLIENT).checked()
    assert Declared("https://login.example.org/realms/site", CLIENT).checked()


@pytest.mark.parametrize("text", ["", "mail:a@b.example=viewer", "group:x=king", "group:=viewer", "group:x=admin@lab"])
def test_a_rule_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--rules"):
        Rule.parsed(text)


def test_the_first_rule_that_is_for_somebody_counts_and_a_domain_is_no_ending() -> None:
    rules = tuple(map(Rule.parsed, ("group:platform=operator@lab+desk", "domain:example.org=viewer")))
    found = Declared("https://login.example.org", CLIENT, rules=rules)
    assert found.rule_for("a@example.org", ["platform"]) is rules[0] and rules[0].workspaces == ("lab", "desk")
    assert found.rule_for("a@example.org", []) is rules[1]
    for mail in ("a@evil-example.org", "a@sub.example.org", "example.org@evil.example"):
        assert found.rule_for(mail, ["Platform"]) is None


def test_what_was_declared_is_kept_for_root_alone_and_shown_without_its_secret(tmp_path: Path) -> None:
    path = tmp_path / "provider.json"
    assert kept(path) is None
    declared = Declared("https://login.example.org", CLIENT, SECRET, rules=(Rule.parsed("group:x=viewer@lab"),))
    declared.save(path)
    assert kept(path) == declared and path.stat().st_mode & 0o777 == 0o600
    assert SECRET not in json.dumps(declared.shown()) and declared.shown()["secret"] is True


class Inputs(HTMLParser):
    """The form of a page: where it goes, and its fields."""

    def __init__(self) -> None:
        super().__init__()
        self.action, self.fields = "", dict[str, str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "form":
            self.action = found.get("action") or ""
        elif tag == "input" and found.get("name"):
            self.fields[str(found["name"])] = found.get("value") or ""


@pytest.fixture
def honest(tmp_path: Path) -> Iterator[Witness]:
    """A provider that is not ours."""
    with openid_witness.running(tmp_path, REDIRECT, {"ada": {**MAIL, "groups": ["platform"]}}) as witness:
        yield witness


def test_a_provider_that_is_not_ours_takes_what_we_ask_and_is_believed(honest: Witness) -> None:
    declared = Declared(honest.issuer, CLIENT, SECRET, scopes=("openid", "email", "groups"))
    provider = Provider(declared, REDIRECT)
    back = signed_in_at(provider.address(STATE, NONCE, VERIFIER), "ada")
    assert (back["state"], back["iss"]) == (STATE, honest.issuer)
    provider.require_issuer(back["iss"])
    found, _ = provider.who(back["code"], VERIFIER, NONCE)
    assert {name: found[name] for name in ("sub", "groups", *MAIL)} == {"sub": "ada", "groups": ["platform"], **MAIL}
    with pytest.raises(Refusal, match="was used, or is old"):
        provider.who(back["code"], VERIFIER, NONCE)
    # It holds us to what we said at first, as we hold it.
    back = signed_in_at(provider.address(STATE, NONCE, VERIFIER), "ada")
    with pytest.raises(Refusal, match="was used, or is old"):
        provider.who(back["code"], "another-verifier" * 3, NONCE)
    back = signed_in_at(provider.address(STATE, NONCE, VERIFIER), "ada")
    with pytest.raises(Refusal, match="answers another request"):
        provider.who(back["code"], VERIFIER, "another nonce")


@pytest.mark.parametrize("scopes", [("openid", "email", "groups"), ("openid", "email", "groups", "offline_access")])
def test_a_provider_that_is_not_ours_is_asked_again_and_says_that_a_group_was_lost(
    honest: Witness, scopes: tuple[str, ...]
) -> None:
    provider = Provider(Declared(honest.issuer, CLIENT, SECRET, scopes=scopes), REDIRECT)
    back = signed_in_at(provider.address(STATE, NONCE, VERIFIER), "ada")
    _, grant = provider.who(back["code"], VERIFIER, NONCE)
    assert (grant.refresh is not None) == ("offline_access" in scopes)
    found = provider.again(grant)
    assert (found["sub"], found["groups"], found["email"]) == ("ada", ["platform"], "ada@example.com")
    honest.knows({"ada": {**MAIL, "groups": ["staff"]}})
    assert provider.again(grant)["groups"] == ["staff"]
    honest.knows({})
    with pytest.raises(Refusal, match=r"says no more|counts no more"):
        provider.again(grant)


def signed_in_at(address: str, account: str) -> dict[str, str]:
    """What a browser is sent back with once somebody filled in the provider's forms."""
    with httpx.Client(verify=False, timeout=WAIT_SECONDS) as browser:
        answer = browser.get(address)
        while not (where := answer.headers.get("location", "")).startswith(REDIRECT):
            if where:
                answer = browser.get(urljoin(str(answer.url), where))
                continue
            assert answer.status_code == 200, answer.text
            form = Inputs()
            form.feed(answer.text)
            filled = {**form.fields, "login": account, "password": "any"}
            answer = browser.post(urljoin(str(answer.url), form.action), data=filled)
        return {name: values[0] for name, values in parse_qs(urlsplit(where).query).items()}

"""What `control.oidc` hands on: the client's secret by standard input alone."""

import io
import sys
from typing import Any

import pytest
from invoke import Context, Exit

from deskyard.control.control import Control
from deskyard.control.identity.declared import Declared
from deskyard.tasks.control import oidc, person

ISSUER = "https://login.example.org"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Declared]:
    """What was declared."""
    found: list[Declared] = []

    def declare(_: Control, provider: Declared) -> dict[str, Any]:
        found.append(provider)
        return provider.shown()

    monkeypatch.setattr(Control, "declare", declare)
    return found


def test_the_secret_comes_by_standard_input_and_is_not_printed(
    made: list[Declared], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("s3cret\n"))
    oidc(Context(), ISSUER, "mission", rules="group:platform=operator, domain:example.org=viewer@lab+desk", json=True)
    assert (made[0].secret, made[0].client, made[0].recheck_seconds) == ("s3cret", "mission", 3600)
    assert [rule.text for rule in made[0].rules] == ["group:platform=operator", "domain:example.org=viewer@lab+desk"]
    said = capsys.readouterr()
    assert "s3cret" not in said.out + said.err and '"secret": true' in said.out


def test_a_client_without_a_secret_says_so(made: list[Declared], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(Exit):
        oidc(Context(), ISSUER, "mission")
    oidc(Context(), ISSUER, "mission", public=True)
    oidc(Context(), ISSUER, "mission", public=True, recheck=15)
    assert [(provider.secret, provider.recheck_seconds) for provider in made] == [("", 3600), ("", 900)]


@pytest.mark.parametrize(
    "options",
    [
        {"rules": "group:x=king"},
        {"scopes": "email"},
        {"authority": "/nonexistent.pem"},
        {"authority": "/etc/hostname"},
        {"recheck": 0},
        {"recheck": 721},
    ],
    ids=lambda options: str(next(iter(options.items()))[1]),
)
def test_what_cannot_be_is_refused_before_a_secret_is_asked_for(
    made: list[Declared], monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(Exit):
        oidc(Context(), ISSUER, "mission", **options)
    assert made == []


def test_nothing_is_removed_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    withdrawn: list[bool] = []

    def withdraw(_: Control) -> bool:
        withdrawn.append(True)
        return True

    monkeypatch.setattr(Control, "withdraw", withdraw)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(Exit):
        oidc(Context(), remove=True)
    assert withdrawn == []
    oidc(Context(), remove=True, yes=True)
    assert withdrawn == [True]


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passkeys of a person that ended; they have one, or two with the one called `phone`."""
    found: list[str] = []

    def remove_passkey(_: Control, name: str, id: str) -> dict[str, Any]:
        found.append(id)
        return {"name": name}

    passkeys = {"ada": ["laptop"], "eve": ["laptop", "phone"]}
    monkeypatch.setattr(Control, "passkeys", lambda _, name: [{"id": id} for id in passkeys[name]])
    monkeypatch.setattr(Control, "remove_passkey", remove_passkey)
    return found


def test_the_last_passkey_of_a_person_ends_after_a_question_alone(
    ended: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    person(Context(), "eve", passkey="laptop", remove=True)
    with pytest.raises(Exit):
        person(Context(), "ada", passkey="laptop", remove=True)
    assert ended == ["laptop"]
    person(Context(), "ada", passkey="laptop", remove=True, yes=True)
    assert ended == ["laptop", "laptop"]


@pytest.mark.parametrize(
    "options",
    [
        {"passkeys": True, "remove": True},
        {"passkeys": True, "role": "viewer"},
        {"passkey": "laptop"},
        {"passkey": "laptop", "remove": True, "role": "viewer"},
        {"passkey": "laptop", "remove": True, "mail": "eve@example.org"},
        {"remove": True, "yes": True, "gives": "viewer"},
    ],
    ids=lambda options: " ".join(options),
)
def test_options_of_a_person_that_say_two_things_do_neither(ended: list[str], options: dict[str, Any]) -> None:
    with pytest.raises(Exit):
        person(Context(), "eve", **options)
    assert ended == []

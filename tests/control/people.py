"""A person who enrols and signs in, as a browser would."""

from dataclasses import dataclass
from typing import Any

import httpx

from deskyard.control.people import enrolment
from deskyard.control.people.token import fresh_token
from tests.control.authenticator import Authenticator
from tests.control.lab import ORIGIN, Lab

PAGE = {"X-Deskyard": "1", "Origin": ORIGIN}
COOKIE = "__Host-mission"


@dataclass
class Person:
    """Somebody with a passkey and a client; the cookie is sent by hand, since the socket has no TLS."""

    client: httpx.Client
    passkey: Authenticator

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """A request as a page of Mission Control sends it."""
        answer = self.client.request(method, path, json=body, headers={**PAGE, **headers})
        if (cookie := answer.cookies.get(COOKIE)) is not None:
            self.client.headers["Cookie"] = f"{COOKIE}={cookie}"
        return answer

    def signed(self, kind: str, target: str) -> dict[str, Any]:
        """An intent, signed."""
        asked = self.call("POST", "/api/intents", {"kind": kind, "target": target}).json()
        return {"intent": {"intent": asked["intent"], "credential": self.passkey.get(asked["publicKey"])}}


def link_token(mission: Lab, name: str, role: str) -> str:
    """The token of a link, made as the host makes one."""
    token = fresh_token()
    query = "insert into person (id, name, role) values (%s, %s, %s) on conflict do nothing"
    mission.link.execute(query, [f"pe_{name}", name, role])
    query = "insert into enrolment (token_hash, person_id, expires_at) values (%s, %s, now() + interval '1 hour')"
    mission.link.execute(query, [enrolment.kept(enrolment.shown(token)), f"pe_{name}"])
    return token


def enrolled(mission: Lab, client: httpx.Client, name: str, role: str) -> Person:
    """A person with a passkey, signed in."""
    person = Person(client, Authenticator(ORIGIN))
    token = link_token(mission, name, role)
    options = person.call("POST", "/api/enrol/options", {"token": token}).json()["publicKey"]
    answer = person.call("POST", "/api/enrol", {"token": token, "credential": person.passkey.create(options)})
    assert answer.status_code == 200, answer.text
    return person
